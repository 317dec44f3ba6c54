"""A large graph in the browser: from its data to the drawn canvas, on a real run.

The budget is 150 ms for 2,000 nodes. `first` is what a page needs once its data is there: JSON to
objects, indexes, everything painted; a fresh tab each time. `to_screen` goes on to the second
frame after, with the scripts warm. `pan` is one redraw, `turn` one frame of a stage that turns into
the next, `lit` from a selection to the second frame after (200 ms at most).
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import FLAGS, chromium_path, serving
from vizdist.store.index import path_id
from vizdist.store.library import Library

RUN = ("run", "char-transformer", "--option", "layers=5", "--strategy", "parameter_server_v1")
TABS, TURNS = 15, 20
TO_SCREEN = """async (turns) => {
  const { trace } = document.getElementById("graph-canvas").dataset;
  const text = await (await fetch(`/api/traces/${trace}/graph`)).text();
  const frame = () => new Promise(requestAnimationFrame);
  const took = [];
  for (let i = 0; i < turns; i += 1) {
    await frame();
    const begun = performance.now();
    window.__vizdist.show(JSON.parse(text));
    await frame();
    await frame();
    took.push(performance.now() - begun);
  }
  return took;
}"""
LIT = """async (turns) => {
  const frame = () => new Promise(requestAnimationFrame);
  const ids = window.__vizdist.hold(1).tiles.map((tile) => tile.id);
  const took = [];
  for (let i = 0; i < turns; i += 1) {
    await frame();
    const begun = performance.now();
    window.__vizdist.select({ type: "node", id: ids[(i * 37) % ids.length] });
    await frame();
    await frame();
    took.push(performance.now() - begun);
  }
  return took;
}"""
TURN = """async (turns) => {
  const { trace } = document.getElementById("graph-canvas").dataset;
  for (const stage of ["placed", "device"]) {
    const text = await (await fetch(`/api/traces/${trace}/graph?stage=${stage}`)).text();
    window.__vizdist.show(JSON.parse(text));
  }
  const took = [];
  for (let i = 0; i < turns; i += 1) {
    const begun = performance.now();
    window.__vizdist.hold(i / turns);
    took.push(performance.now() - begun);
  }
  window.__vizdist.hold(1);
  return took;
}"""


def capture(folder: Path) -> None:
    arguments = [*RUN, "--ps", "2", "--workers", "1", "--steps", "3", "--out", str(folder)]
    command = [sys.executable, "-m", "tracer", *arguments]
    subprocess.run(command, check=True, capture_output=True)


def ready(page: Page, url: str) -> dict[str, Any]:
    page.goto(url)
    page.wait_for_selector("#graph-canvas[data-state=ready]")
    state: dict[str, Any] = page.evaluate("window.__vizdist.state()")
    return state


def told(values: Sequence[float]) -> dict[str, float]:
    low, middle, high = statistics.quantiles(values, n=4)
    found = {"p25": low, "median": middle, "p75": high, "max": max(values)}
    return {name: round(value, 1) for name, value in found.items()}


def main() -> None:
    folder = Path(tempfile.mkdtemp()) / "run.trace"
    capture(folder)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(FLAGS))
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        for url in serving(Library([folder])):
            address = f"{url}t/{path_id(folder)}/graph"
            first = []
            for _ in range(TABS):
                page = context.new_page()
                state = ready(page, address)
                first.append(state["shownMs"])
                page.close()
            page = context.new_page()
            ready(page, address)
            to_screen = page.evaluate(TO_SCREEN, TURNS)
            lit = page.evaluate(LIT, TURNS)
            turns = page.evaluate(TURN, TURNS)
            pans = [page.evaluate("window.__vizdist.redraw()") for _ in range(TURNS)]
        browser.close()
    figures = {
        "bench": "large graph, data to drawn canvas",
        "nodes": state["nodeCount"],
        "tiles": state["tiles"],
        "first_ms": told(first),
        "to_screen_ms": told(to_screen),
        "pan_ms": told(pans),
        "turn_ms": told(turns),
        "lit_ms": told(lit),
        "load": round(os.getloadavg()[0], 1),
    }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
