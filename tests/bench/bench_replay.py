"""A random scrub through a step of a hundred thousand spans, and how fast a step plays.

The budgets are 100 ms for a scrub (state, lists and canvas) and 30 frames a second with 300
elements: tiles, edges, wires and tokens; what a frame costs is told beside it. The long step is a
loop over two devices, the other one a convolutional network on a ps.
"""

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import BrowserContext, Page, sync_playwright

from tests.browser.conftest import FLAGS, chromium_path, serving
from vizdist.store.index import path_id
from vizdist.store.library import Library

SCRUBS = 200
PLAY_MS = 6_000
ITERATIONS = 3_000  # each about 34 spans
READY = "#replay-canvas[data-replay=ready][data-state=ready]"
RUNS = {
    "loop": ("cross-device-while", "--option", f"iterations={ITERATIONS}", "--step-timeout", "300"),
    "network": ("digits-cnn", "--strategy", "parameter_server_v1", "--steps", "4"),
}
#: Plays for a while; how many frames came, and how many elements the busiest of them had.
PLAY = """async (ms) => {
  const probe = window.__vizdist;
  probe.seek(probe.instants("event")[2]);
  document.querySelector("[data-replay=play]").click();
  const begun = performance.now();
  let frames = 0, most = 0;
  while (performance.now() - begun < ms && probe.state().playing) {
    await new Promise(requestAnimationFrame);
    frames += 1;
    most = Math.max(most, probe.elements());
  }
  return {frames, ms: performance.now() - begun, elements: most};
}"""


def capture(folder: Path, run: tuple[str, ...]) -> Path:
    command = [sys.executable, "-m", "tracer", "run", *run, "--in-process", "--out", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def browser_cpu_ms() -> float:
    """What all processes of the browser have used so far."""
    own = psutil.Process().children(recursive=True)
    return 1000 * sum(sum(one.cpu_times()[:2]) for one in own)


def opened(browser: BrowserContext, url: str) -> tuple[Page, float]:
    page = browser.new_page()
    began = time.perf_counter()
    page.goto(url)
    page.wait_for_selector(READY, timeout=60_000)
    return page, time.perf_counter() - began


def scrubs(page: Page) -> dict[str, float]:
    """Milliseconds from an instant that is asked for until the canvas is painted."""
    last = page.evaluate("window.__vizdist.instants('event').at(-1)")
    rng = random.Random(3)
    took = [
        page.evaluate("(time) => window.__vizdist.seek(time)", rng.uniform(0, last))
        for _ in range(SCRUBS)
    ]
    cuts = statistics.quantiles(took, n=20)
    return {"p50": round(cuts[9], 1), "p95": round(cuts[18], 1), "max": round(max(took), 1)}


def measured(browser: BrowserContext, url: str) -> dict[str, Any]:
    page, seconds = opened(browser, url)
    state = page.evaluate("window.__vizdist.state()")
    used = browser_cpu_ms()
    played = page.evaluate(PLAY, PLAY_MS)
    used = browser_cpu_ms() - used
    found = {
        "open_s": round(seconds, 2),
        "items": state["items"],
        "events": state["events"],
        "scrub_ms": scrubs(page),
        "frames_per_s": round(1000 * played["frames"] / played["ms"], 1),
        "cpu_ms_per_frame": round(used / played["frames"], 1),
        "elements": played["elements"],
    }
    page.close()
    return found


def main() -> None:
    root = Path(tempfile.mkdtemp())
    folders = {name: capture(root / f"{name}.trace", run) for name, run in RUNS.items()}
    figures = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(FLAGS))
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        for url in serving(Library(list(folders.values()))):
            for name, folder in folders.items():
                figures[name] = measured(context, f"{url}t/{path_id(folder)}/replay")
        browser.close()
    print(json.dumps({"bench": "replay", **figures}, indent=1))


if __name__ == "__main__":
    main()
