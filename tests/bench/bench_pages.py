"""From address to drawn canvas, on a real run: Graph, Timeline and Replay, warm server.

The budget is 2 s. The first open of a fresh browser, which fetches and compiles every script, is
told apart from later ones.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import BrowserContext, sync_playwright

from tests.browser.conftest import FLAGS, chromium_path, serving
from vizdist.store.index import path_id
from vizdist.store.library import Library

OPENS = 20
PAGES = ("graph", "timeline", "replay")


def capture(folder: Path) -> None:
    arguments = ["run", "digits-mlp", "--strategy", "parameter_server_v1", "--steps", "50"]
    command = [sys.executable, "-m", "tracer", *arguments, "--out", str(folder)]
    subprocess.run(command, check=True, capture_output=True)


def seconds_to_drawn(browser: BrowserContext, url: str, page: str) -> float:
    tab = browser.new_page()
    try:
        began = time.perf_counter()
        tab.goto(url)
        tab.wait_for_selector(f"#{page}-canvas[data-state=ready]")
        return time.perf_counter() - began
    finally:
        tab.close()


def main() -> None:
    folder = Path(tempfile.mkdtemp()) / "run.trace"
    capture(folder)
    figures = {}
    with sync_playwright() as playwright:
        for url in serving(Library([folder])):
            for page in PAGES:
                browser = playwright.chromium.launch(
                    executable_path=chromium_path(), args=list(FLAGS)
                )
                context = browser.new_context(viewport={"width": 1440, "height": 900})
                address = f"{url}t/{path_id(folder)}/{page}"
                first, *later = (seconds_to_drawn(context, address, page) for _ in range(OPENS))
                low, middle, high = statistics.quantiles(later, n=4)
                figures[page] = {
                    "first_open_s": round(first, 3),
                    "later_s": {
                        k: round(v, 3)
                        for k, v in zip(("p25", "median", "p75"), (low, middle, high), strict=True)
                    },
                    "later_max_s": round(max(later), 3),
                }
                browser.close()
    print(json.dumps({"bench": "page open to drawn canvas", **figures}, indent=1))


if __name__ == "__main__":
    main()
