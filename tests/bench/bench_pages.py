"""From address to drawn page, on real runs: every page, warm server.

The budget is 2 s. The first open of a fresh browser, which fetches and compiles every script, is
told apart from later ones.
"""

import argparse
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
RUNS = {
    "ps": ("--strategy", "parameter_server_v1", "--steps", "50"),
    "mirrored": ("--strategy", "mirrored", "--devices", "cpu:3", "--steps", "20"),
}
#: Address of each page, and what is on it last.
PAGES = {
    "graph": ("t/{ps}/graph", "#graph-canvas[data-state=ready]"),
    "timeline": ("t/{ps}/timeline", "#timeline-canvas[data-state=ready]"),
    "replay": ("t/{ps}/replay", "#replay-canvas[data-replay=ready][data-state=ready]"),
    "library": ("", ".run"),
    "summary": ("t/{ps}/summary", "#summary-columns .main-svg"),
    "rendezvous": ("t/{ps}/rendezvous", "#rendezvous-sequence svg"),
    "strategy": ("t/{ps}/strategy", "#strategy-roles table"),
    "collectives": ("t/{mirrored}/collectives", "#collectives-arrival svg"),
    "variables": ("t/{ps}/variables", "#variables-stairs svg"),
    "data": ("t/{ps}/data", "#data-sizes .main-svg"),
    "compare": ("compare?runs={ps},{mirrored}", "#compare-loss .main-svg"),
    "reference": ("reference", ".entry"),
}


def capture(folder: Path, options: tuple[str, ...]) -> Path:
    command = [sys.executable, "-m", "tracer", "run", "digits-mlp", *options, "--out", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def seconds_to_drawn(browser: BrowserContext, url: str, drawn: str) -> float:
    tab = browser.new_page()
    try:
        began = time.perf_counter()
        tab.goto(url, wait_until="commit")
        tab.wait_for_selector(drawn, state="attached")
        return time.perf_counter() - began
    finally:
        tab.close()


def measured(browser: BrowserContext, url: str, drawn: str, opens: int) -> dict[str, object]:
    first, *later = (seconds_to_drawn(browser, url, drawn) for _ in range(opens))
    quarters = zip(("p25", "median", "p75"), statistics.quantiles(later, n=4), strict=True)
    return {
        "first_open_s": round(first, 3),
        "later_s": {name: round(value, 3) for name, value in quarters},
        "later_max_s": round(max(later), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", nargs="*", help=f"of {', '.join(PAGES)} (default: all)")
    parser.add_argument("--opens", type=int, default=OPENS, help="of each, at least 3")
    asked = parser.parse_args()
    root = Path(tempfile.mkdtemp())
    folders = {name: capture(root / f"{name}.trace", options) for name, options in RUNS.items()}
    runs = {name: path_id(folder) for name, folder in folders.items()}
    figures = {}
    with sync_playwright() as playwright:
        for url in serving(Library([*folders.values()])):
            for page in asked.page or PAGES:
                browser = playwright.chromium.launch(
                    executable_path=chromium_path(), args=list(FLAGS)
                )
                context = browser.new_context(viewport={"width": 1440, "height": 900})
                address, drawn = PAGES[page]
                where = f"{url}{address.format(**runs)}"
                figures[page] = measured(context, where, drawn, asked.opens)
                browser.close()
    print(json.dumps({"bench": "page open to drawn", **figures}, indent=1))


if __name__ == "__main__":
    main()
