"""How a timeline of 100,000 boxes moves under a hand, on a real run in a real browser.

A run is recorded, all of its steps are shown on a usual and on a large screen, and the mouse drags
them to and fro. A frame's time is from one animation frame of the page to the next; the budget is
35 ms for the median and 100 ms for the 95th percentile. `held` is how many boxes the page has of
the window and what lies beside it, `drawn` what it paints in a frame after merging those of one
pixel, `draw_ms` how long that takes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, ViewportSize, sync_playwright

from tests.browser.conftest import FLAGS, chromium_path, serving
from vizdist.store.index import path_id
from vizdist.store.library import Library
from vizdist.store.trace import Trace

SCREENS = ((1440, 900), (2560, 1440))
STEPS = 2000
DRAGS = 4
MOVES = 25  #: of the mouse, a drag
PIXELS = 8  #: a move

_WATCH = """() => {
  window.frameTimes = [];
  let last = 0;
  const tick = (now) => {
    if (last) window.frameTimes.push(now - last);
    last = now;
    window.watch = requestAnimationFrame(tick);
  };
  window.watch = requestAnimationFrame(tick);
}"""
_STOP = "() => { cancelAnimationFrame(window.watch); return window.frameTimes; }"


def capture(folder: Path, steps: int) -> None:
    arguments = ["run", "digits-mlp", "--strategy", "parameter_server_v1", "--ps", "2"]
    arguments += ["--workers", "4", "--steps", str(steps), "--out", str(folder)]
    subprocess.run([sys.executable, "-m", "tracer", *arguments], check=True, capture_output=True)


def run_asked_for(says: str | None, steps: int = STEPS) -> tuple[Library, Trace]:
    """That of the command line, or one of so many steps that is recorded now."""
    parser = argparse.ArgumentParser(description=says)
    parser.add_argument("trace", type=Path, nargs="?", help="a run (default: one recorded now)")
    folder = parser.parse_args().trace
    if folder is None:
        folder = Path(tempfile.mkdtemp()) / "run.trace"
        capture(folder, steps)
    library = Library([folder])
    return library, library.open(path_id(folder))


def drag(page: Page, pixels: int) -> list[float]:
    """ms of every frame while the mouse drags the bars."""
    box = page.locator("#timeline-canvas canvas").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.evaluate(_WATCH)
    for move in range(1, MOVES + 1):
        page.mouse.move(x + move * pixels, y)
    frames: list[float] = page.evaluate(_STOP)
    page.mouse.up()
    page.wait_for_function("() => window.__vizdist.state().ready")
    return frames


def panned(page: Page) -> dict[str, Any]:
    before = page.evaluate("window.__vizdist.state()")
    frames, draws = [], []
    for turn in range(DRAGS):
        frames += drag(page, PIXELS if turn % 2 else -PIXELS)
        draws.append(page.evaluate("window.__vizdist.state().drawMs"))
    frames.sort()
    return {
        "held": before["held"],
        "drawn": before["boxes"],
        "rows": before["rows"],
        "frames": len(frames),
        "p50_ms": round(frames[len(frames) // 2], 1),
        "p95_ms": round(frames[int(len(frames) * 0.95)], 1),
        "max_ms": round(frames[-1], 1),
        "draw_ms": round(statistics.median(draws), 1),
    }


def main() -> None:
    library, trace = run_asked_for(__doc__)
    found: dict[str, Any] = {}
    begin, end = trace.steps[0].start - trace.start, trace.steps[-1].end - trace.start
    with sync_playwright() as playwright:
        for url in serving(library):
            browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(FLAGS))
            for width, height in SCREENS:
                page = browser.new_page(viewport=ViewportSize(width=width, height=height))
                page.goto(f"{url}t/{trace.id}/timeline?t0={begin}&t1={end}")
                page.wait_for_function("() => window.__vizdist?.state().ready")
                found[f"{width} x {height}"] = panned(page)
                page.close()
            browser.close()
    figures = {"bench": "timeline pan", "spans": len(trace), **found, "load": os.getloadavg()[0]}
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
