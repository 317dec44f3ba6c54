"""Live lag: from the end of a span in a traced process to the event that tells of it. Prints JSON.

    python -m tests.bench.bench_live [SECONDS]      default 20; 20,000 spans a second

A process records, the real collector writes, a dashboard follows, a listener reads its events over
HTTP. A span that ends right after a flush waits longest, so the lag of an event is counted from the
last end that the event before knew: every span in between was seen within it.
"""

import json
import os
import socket
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from tests.browser.conftest import serving
from tracer.model.step import trace_of_step
from tracer.model.trace_folder import COLUMNS, Manifest
from tracer.record.clock import now_ns
from tracer.record.collector import start_collector
from tracer.record.home import make_scratch
from tracer.record.manifest import update_manifest, write_manifest
from tracer.record.recorder import Recorder
from vizdist.store.library import Library

RATE = 20_000
OPS = 200  #: spans a step; a step takes 10 ms


def record(scratch: Path, seconds: float) -> None:
    """Steps of 10 ms with their root and ops, at the rate."""
    recorder = Recorder(scratch, "worker:0")
    write = recorder.writer()
    root = recorder.site("session.run", name="step")
    op = recorder.site("op.run", name="mm", attributes={"vizdist.op": "MatMul"})
    begin = time.perf_counter()
    step = 0
    while time.perf_counter() - begin < seconds:
        step += 1
        at = recorder.now()
        context = trace_of_step("bench", "run", step)
        inner = context.under(write.begin(root, context, at))
        for number in range(OPS - 1):
            write.record(op, inner, at + number * 1000, at + number * 1000 + 900)
        write.end(at, recorder.now())
        time.sleep(max(0.0, begin + step * OPS / RATE - time.perf_counter()))
    recorder.close()


def events(url: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """(when it came, what it says)."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        for line in answer:
            if line.startswith(b"data: "):
                yield now_ns(), json.loads(line[6:])


def lags(url: str, folder: Path) -> tuple[list[float], list[float]]:
    """ms of every event of a run: since a span ended, since its segment was written."""
    found: list[float] = []
    since_written: list[float] = []
    known = 0
    for came, state in events(url):
        last = int(state["start"]) + state["last"]
        if known and last > known and state["outcome"] == "running":
            found.append((came - known) / 1e6)
            since_written.append((time.time() - newest(folder / COLUMNS)) * 1000)
        known = max(known, last)
    return found, since_written


def newest(folder: Path) -> float:
    """When the last segment was written, s since the epoch."""
    return max(entry.stat().st_mtime for entry in os.scandir(folder))


def run(folder: Path, scratch: Path, seconds: float, told: dict[str, Any]) -> None:
    """The run from its first process to the outcome in its manifest."""
    collector = start_collector(folder, scratch, "bench")
    process = get_context("spawn").Process(target=record, args=(scratch, seconds))
    process.start()
    process.join()
    told["collector_cpu_s"] = round(sum(psutil.Process(collector.pid).cpu_times()[:2]), 2)
    told["spans"] = collector.stop(timeout=60).written
    update_manifest(folder, lambda manifest: setattr(manifest, "outcome", "done"))


def quantiles(samples: list[float]) -> dict[str, float]:
    middle, high, most = np.percentile(samples, (50, 95, 100)).round()
    return {"p50": middle, "p95": high, "max": most}


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    told: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "live.trace"
        folder.mkdir()
        write_manifest(folder, Manifest("bench", host=socket.gethostname(), started_ns=now_ns()))
        library = Library()
        trace = library.add(folder)
        runner = threading.Thread(target=run, args=(folder, make_scratch(), seconds, told))
        runner.start()
        cpu = time.process_time()
        for root in serving(library):
            found, written = lags(f"{root}api/traces/{trace}/live", folder)
        told["dashboard_cpu_s"] = round(time.process_time() - cpu, 2)
        runner.join()
    told |= {"spans_per_s": round(told["spans"] / seconds), "events": len(found)}
    told |= {"lag_ms": quantiles(found), "of_that_dashboard_ms": quantiles(written)}
    json.dump({**told, "load": [round(one, 1) for one in os.getloadavg()]}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
