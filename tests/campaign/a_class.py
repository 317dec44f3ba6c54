"""A class of viewers on one server: each looks at a step of his own, and costs next to nothing.

A run is recorded and served; browsers of their own profile each (no cookie, no store in common)
open its graph or timeline at one step each and move on by a key. Then every page must still show
its own step, and the server's memory may have grown with the trace, not with the viewers. Prints
JSON; exits with 1 if a page shows another's step or memory grew.

    python -m tests.campaign.a_class --viewers 30
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.conftest import FLAGS, chromium_path
from vizdist.store.index import path_id

STEPS = 100
GROWTH_MB = 40  #: from the first third of the viewers to the last
PAGES = ("summary", "graph", "timeline")


@contextmanager
def server(folder: Path) -> Iterator[tuple[psutil.Process, str]]:
    """A server of a run, in a process of its own, and where it answers."""
    arguments = ["run", "digits-mlp", "--strategy", "one_device", "--steps", str(STEPS)]
    record = [sys.executable, "-m", "tracer", *arguments, "--out", str(folder)]
    subprocess.run(record, check=True, capture_output=True)
    command = [sys.executable, "-m", "vizdist", "serve", str(folder), "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            url = child.stdout.readline().removeprefix("vizdist on ").partition("/t/")[0].strip()
            yield psutil.Process(child.pid), url.rstrip("/")
        finally:
            child.terminate()


def come_in(browser: Browser, url: str, number: int) -> Page:
    """A viewer at step `number`, who goes on to the next one."""
    page = browser.new_context().new_page()
    page.goto(f"{url}/{PAGES[number % len(PAGES)]}?step={number}")
    expect(page.locator("#stepper")).to_contain_text(f"Step {number}")
    page.wait_for_selector("main > *")
    page.keyboard.press("]")
    expect(page.locator("#stepper")).to_contain_text(f"Step {number + 1}")
    return page


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--viewers", type=int, default=30)
    viewers = parser.parse_args().viewers
    expect.set_options(timeout=60_000)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name) / "class.trace"
        with server(folder) as (process, url):
            browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(FLAGS))
            pages, rss_mb = [], []
            for number in range(1, viewers + 1):
                pages.append(come_in(browser, f"{url}/t/{path_id(folder)}", number))
                rss_mb.append(process.memory_info().rss >> 20)
            shown = [page.locator("#stepper").inner_text() for page in pages]
            own = sum(
                re.findall(r"\d+", text)[:1] == [f"{at + 2}"] for at, text in enumerate(shown)
            )
            growth = rss_mb[-1] - rss_mb[viewers // 3]
            browser.close()
    told = {"viewers": viewers, "own_step": own, "rss_mb": rss_mb[:: max(1, viewers // 6)]}
    is_well = own == viewers and growth <= GROWTH_MB
    sys.stdout.write(json.dumps({**told, "growth_mb": growth, "is_well": is_well}) + "\n")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
