"""The Rendezvous page over a step of 100,000 spans: opened, searched, and lit by a click.

Budgets: 2 s from address to drawn page, 200 ms from a click on a row to the row that is lit. Wall
times are of a warm server; beside each stands the processor time of the server's process, which is
this one.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import FLAGS, chromium_path, serving
from tests.store.sample_trace import EPOCH, PS, WORKER, write_trace
from tracer.model.trace_folder import Flag
from vizdist.store.columns import SpanRecord
from vizdist.store.index import path_id
from vizdist.store.library import Library

TRANSFERS = 25_000  #: four spans each
OPENS = 5
CLICKS = 20


def spans() -> Iterator[SpanRecord]:
    """A third of the transfers have edges of their own, the others are of 50 edges in a loop."""
    trace: dict[str, Any] = {"step": 1, "trace_hi": 7, "trace_lo": 1}
    last = EPOCH + TRANSFERS * 15_000
    yield SpanRecord("worker:0", "client", EPOCH, last, "step", "session.run", span=1, **trace)
    for at in range(TRANSFERS):
        is_alone = at % 3 == 0
        edge = f"edge_{at}_w{at}" if is_alone else f"edge_{at % 50}_loop{at % 50}/w"
        tag = "0:0" if is_alone else f"77:{at // 50}"
        yield from transfer(at, f"{PS};0000000000000001;{WORKER};{edge};{tag}", trace)


def transfer(at: int, key: str, trace: dict[str, Any]) -> Iterator[SpanRecord]:
    begin, wait, span = EPOCH + at * 15_000, at % 97 * 90, 10 + 10 * at
    there, value = begin + 2_000, begin + 2_000 + wait
    held: dict[str, Any] = trace | {"key": key, "bytes": 256}
    ends = [
        ("worker:0", "recv", begin, begin + 14_000, "R", "rendezvous.recv"),
        ("worker:0", "rpc", begin + 100, begin + 13_900, "RecvTensor", "rpc.client"),
        ("ps:0", "rpc", there, begin + 13_000, "RecvTensor", "rpc.server"),
        ("ps:0", "executor", value, value + 200, "S", "rendezvous.send"),
    ]
    own: list[dict[str, Any]] = [
        {"parent": 1, "wait": wait, "link": span + 3, "flags": Flag.REMOTE},
        {"parent": span},
        {"parent": span + 1, "wait": wait},
        {"parent": 1},
    ]
    for number, (where, more) in enumerate(zip(ends, own, strict=True)):
        yield SpanRecord(*where)._replace(span=span + number, **more, **held)


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Wall and processor time in ms."""
    wall, spent = time.perf_counter(), time.process_time()
    work()
    return 1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - spent)


def told(times: list[tuple[float, float]]) -> dict[str, float]:
    wall, spent = (sorted(column) for column in zip(*times, strict=True))
    return {
        "median_ms": round(statistics.median(wall)),
        "max_ms": round(wall[-1]),
        "server_cpu_median_ms": round(statistics.median(spent)),
    }


def opening(page: Page, url: str) -> Callable[[], None]:
    def work() -> None:
        page.goto(url)
        page.wait_for_selector(".mail-row")
        page.wait_for_selector("#rendezvous-sequence svg")

    return work


def clicking(page: Page, at: int) -> Callable[[], None]:
    def work() -> None:
        page.locator(".mail-row[data-key]").nth(at).click()
        page.wait_for_selector(f".mail-rows li:nth-child({at + 1}) [aria-current=true]")

    return work


def main() -> None:
    folder = write_trace(Path(tempfile.mkdtemp()) / "large.trace", spans(), steps=1)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(120_000)
        for url in serving(Library([folder])):
            address = f"{url}t/{path_id(folder)}/rendezvous?step=1"
            first, *later = (timed(opening(page, address)) for _ in range(OPENS))
            page.locator("#rendezvous-words").fill("w1")  # edges of their own: no row is a fold
            page.wait_for_selector(".mail-row:not([aria-expanded]) >> nth=39")
            page.wait_for_selector(".mail-row[aria-expanded]", state="detached")
            clicks = [timed(clicking(page, at)) for at in range(CLICKS)]
            figures = {"first_open": told([first]), "open": told(later), "lit": told(clicks)}
        browser.close()
    print(json.dumps({"bench": "rendezvous, 100,000 spans in a step", **figures}, indent=1))


if __name__ == "__main__":
    main()
