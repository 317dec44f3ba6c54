"""What recording costs where kernels are no trifle: a step of 200 matrix products, about 10 ms.

The same step of one task traced and untraced, interleaved, while a collector writes the trace.
"""

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import torch

from tests.bench.blocks import spread
from tracer.model.graph import Graph
from tracer.model.graph_builder import GraphBuilder
from tracer.model.step import SpanContext, trace_of_step
from tracer.model.trace_folder import Manifest
from tracer.record.collector import start_collector
from tracer.record.home import make_scratch
from tracer.record.manifest import write_manifest
from tracer.record.recorder import Recorder
from tracer.runtime.session import DirectSession, Tracing

NUM_OPS, STEP_S = 200, 0.010
ROUNDS, BLOCK_S = 30, 0.5


def chain(size: int) -> Graph:
    """x, and again and again its product with itself, so scaled that it stays finite."""
    b = GraphBuilder()
    x = value = b.placeholder([size, size], name="x")
    for _ in range(NUM_OPS):
        value = b.op("MatMul", value, x, name="product", T="float32")
    return b.graph()


def fitting_size() -> int:
    """Rows of a matrix whose product takes a 200th of the step here."""
    size = 32
    while (
        min(products_s(size) for _ in range(3)) < STEP_S
    ):  # the first ever takes many times as long
        size += 8
    return size


def products_s(size: int) -> float:
    x = torch.full((size, size), 1 / size)
    began = time.perf_counter()
    for _ in range(NUM_OPS):
        torch.mm(x, x)
    return time.perf_counter() - began


def main() -> None:
    torch.set_num_threads(1)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    scratch, trace = make_scratch(), Path(tempfile.mkdtemp())
    write_manifest(trace, Manifest("bench"))
    collector = start_collector(trace, scratch, "bench")
    recorder = Recorder(scratch, "worker:0")
    size = fitting_size()
    graph = chain(size)
    is_traced = False

    def context(number: int) -> SpanContext:
        return trace_of_step("bench", "worker:0", number, sampled=is_traced)

    run = trace_of_step("bench", "run", 0)
    session = DirectSession(graph, ("cpu:0",), Tracing(recorder, run, context))
    step = session.make_callable([f"{list(graph.nodes)[-1].name}:0"], ["x:0"])
    x = torch.full((size, size), 1 / size)

    def block() -> float:
        """Seconds a step."""
        steps, began = 0, time.perf_counter()
        while (took := time.perf_counter() - began) < BLOCK_S:
            step(x)
            steps += 1
        return took / steps

    block()
    pairs = []
    for number in range(rounds):
        seconds = {}
        for is_traced in (number % 2 == 0, number % 2 == 1):
            seconds[is_traced] = block()
        pairs.append(seconds)
    session.close()
    recorder.close()
    counts = collector.stop(20.0)
    figures = {
        "bench": "traced against untraced step of 200 ops",
        "load": os.getloadavg(),
        "untraced_ms": spread([pair[False] * 1e3 for pair in pairs]),
        "traced_ms": spread([pair[True] * 1e3 for pair in pairs]),
        "traced / untraced": spread([pair[True] / pair[False] for pair in pairs]),
        "recorded": counts.recorded,
        "written": counts.written,
    }
    print(json.dumps(figures, indent=1))
    shutil.rmtree(scratch)
    shutil.rmtree(trace)


if __name__ == "__main__":
    main()
