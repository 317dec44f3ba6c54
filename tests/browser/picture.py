"""The picture of the README: the graph page on a run made now, all of it in full colour.

python -m tests.browser.picture PICTURE.png
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, sync_playwright

from tests.browser.conftest import FLAGS, chromium_path, serving
from vizdist.store.index import path_id
from vizdist.store.library import Library

RUN = ("run", "digits-mlp", "--strategy", "parameter_server_v1", "--ps", "2", "--workers", "1")
SIZE = ViewportSize(width=1600, height=900)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "digits.trace"
        command = [sys.executable, "-m", "tracer", *RUN, "--steps", "50", "--out", str(run)]
        subprocess.run(command, check=True, capture_output=True)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(FLAGS))
            page = browser.new_page(viewport=SIZE, color_scheme="light", reduced_motion="reduce")
            for url in serving(Library([run])):
                take(page, f"{url}t/{path_id(run)}/graph?lang=en", out)
            browser.close()


def take(page: Page, url: str, out: Path) -> None:
    page.goto(url)
    page.locator("#graph-canvas[data-state=ready]").wait_for()
    page.locator("#graph-facts h2").wait_for()
    page.evaluate("document.fonts.ready")
    page.screenshot(path=out)


if __name__ == "__main__":
    main()
