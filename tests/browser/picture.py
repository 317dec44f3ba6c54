"""Makes the README's picture: a real run, the Graph page, one op selected.

    python -m tests.browser.picture PICTURE.png
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser.conftest import FLAGS, serving
from vizdist.store.index import path_id
from vizdist.store.library import Library

STEP, CHOSEN = 12, "node:fc1/addmm"


def main(picture: Path) -> None:
    folder = Path(tempfile.mkdtemp()) / "digits-mlp.trace"
    command = [sys.executable, "-m", "tracer", "run", "digits-mlp", "--steps", "20"]
    strategy = ["--strategy", "parameter_server_v1", "--ps", "1", "--workers", "2"]
    subprocess.run([*command, *strategy, "--out", str(folder)], check=True, capture_output=True)
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        for url in serving(Library([folder])):
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(f"{url}t/{path_id(folder)}/graph?step={STEP}&sel={CHOSEN}")
            page.wait_for_selector("#graph-canvas[data-state=ready]")
            page.wait_for_timeout(1000)  # the view glides to what is chosen
            picture.parent.mkdir(exist_ok=True)
            page.screenshot(path=picture)
            page.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
