"""The critical path of a step of 100,000 spans on a ps and 8 workers, and one what-if of it.

Every worker gets a value, runs a net of ops, each of two inputs, on two threads, and sends back.
"""

import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from tests.store.sample_trace import EPOCH, write_trace
from vizdist.analysis.critical_path import critical_path
from vizdist.analysis.what_if import Change, what_if
from vizdist.store.columns import SpanRecord
from vizdist.store.trace import StepInfo, Trace, open_trace

SPANS, WORKERS, ROUNDS = 100_000, 8, 20
Work = Callable[[Trace, StepInfo], object]
IDS: dict[str, Any] = {"step": 1, "trace_hi": 7, "trace_lo": 1}


def spans_of_step(chance: random.Random) -> Iterator[SpanRecord]:
    number, ends = 10, []
    for worker in range(WORKERS):
        task, device = f"worker:{worker}", f"/job:worker/replica:0/task:{worker}/device:CPU:0"
        run, at = number, EPOCH + 1_000
        number += 1
        clocks = [at, at]
        for _ in range(SPANS // WORKERS - 3):
            thread = chance.randrange(2)
            ready = clocks[chance.randrange(2)]
            start = max(clocks[thread], ready) + chance.randrange(2_000)
            clocks[thread] = start + chance.randrange(1, 50_000)
            number += 1
            yield SpanRecord(
                task, "executor CPU:0", start, clocks[thread], f"op{number % 997}", "op.run",
                op="MatMul", device=device, depth=thread, ready=ready, span=number, parent=run,
                **IDS,
            )  # fmt: skip
        ends.append(max(clocks))
        yield SpanRecord(
            task, "partition CPU:0", at, ends[-1], "CPU:0", "partition.run", span=run, parent=1,
            **IDS,
        )  # fmt: skip
    yield SpanRecord("worker:0", "client", EPOCH, max(ends), "step", "session.run", span=1, **IDS)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    change = Change("device", "/job:worker/replica:0/task:0/device:CPU:0")
    works: dict[str, Work] = {
        "critical_path": critical_path,
        "what_if": lambda trace, step: what_if(trace, step, change),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = write_trace(Path(folder) / "x.trace", spans_of_step(random.Random(1)))
        took = {name: [spent(path, work) for _ in range(rounds)] for name, work in works.items()}
    told = {f"{name}_s": told_of(values) for name, values in took.items()}
    print(json.dumps({"spans": SPANS, "rounds": rounds, **told}))


def spent(path: Path, work: Work) -> tuple[float, float]:
    """Seconds of wall clock and of this process, of a trace of which nothing is known yet."""
    trace = open_trace(path)
    step = trace.step(1)
    began = time.perf_counter(), time.process_time()
    work(trace, step)
    return time.perf_counter() - began[0], time.process_time() - began[1]


def told_of(values: list[tuple[float, float]]) -> dict[str, float]:
    wall, cpu = zip(*values, strict=True)
    return {
        "median": round(median(wall), 3),
        "least": round(min(wall), 3),
        "cpu": round(median(cpu), 3),
    }


if __name__ == "__main__":
    main()
