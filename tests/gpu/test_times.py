"""Spans tell the kernels' own times, not those of their launches."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from statistics import median
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from tests.fakes import Recording, SpanData, recorded
from tracer.model.graph import Graph
from tracer.model.graph_builder import GraphBuilder
from tracer.model.step import trace_of_step
from tracer.runtime.session import DirectSession, Tracing
from tracer.runtime.worker_env import ExecutorKind

SIDE = 4096
PRODUCTS = 20
US = 1_000
CLOCK_ERROR_NS = 100 * US


def products(device: str) -> Graph:
    """Matrix products one after another, each of a few milliseconds."""
    b = GraphBuilder()
    with b.device(f"/job:localhost/task:0/device:{device}"):
        x = value = b.placeholder([SIDE, SIDE], name="x")
        for number in range(PRODUCTS):
            value = b.op("MatMul", value, x, name=f"mm{number:02}", T="float32")
        b.op("Sum", value, b.const([0, 1], "int32"), name="sum", T="float32")
    return b.graph()


@pytest.fixture
def recording() -> Iterator[Recording]:
    with recorded("worker:0") as recording:
        yield recording


@contextmanager
def session(
    device: str, recording: Recording, executor: ExecutorKind = "generated"
) -> Iterator[Callable[[], float]]:
    """Gives what runs one more step; the first, which loads libraries, is over."""
    run = trace_of_step("t", "run", 0)
    tracing = Tracing(recording.recorder, run, lambda n: trace_of_step("t", "run", n))
    devices = ("cuda:0", "cuda:0")
    with DirectSession(products(device), devices, tracing, executor=executor) as made:
        feeds = {"x:0": torch.eye(SIDE)}
        made.run("sum:0", feeds)
        yield lambda: float(made.run("sum:0", feeds))


def of_step(recording: Recording, kind: str, step: int) -> list[SpanData]:
    spans = recording.of(kind)
    return [span for span in spans if span.step == step and span.name.startswith("mm")]


@pytest.mark.parametrize("executor", ["generated", "queue"])
@pytest.mark.parametrize("device", ["GPU:0", "GPU:1"])
def test_a_launch_returns_at_once_and_the_op_takes_its_time(
    device: str, executor: ExecutorKind, recording: Recording
) -> None:
    with session(device, recording, executor) as step:
        assert step() == SIDE
    launches, runs = (of_step(recording, kind, 2) for kind in ("op.launch", "op.run"))
    assert len(launches) == len(runs) == PRODUCTS
    launching, running = (median(s.end - s.start for s in spans) for spans in (launches, runs))
    print(f"a product of {SIDE}: launched in {launching / US:.0f} µs, ran {running / US:.0f} µs")
    assert launching < running / 10
    assert {span.lane for span in runs} == {f"stream {device}"}
    assert {span.attributes["vizdist.device.physical"] for span in runs} == {"cuda:0"}
    began = {span.span: span.start for span in launches}
    for one, after in pairwise(runs):
        assert one.end <= after.start + US, "a stream does one thing at a time"
    for run in runs:
        assert run.start >= began[run.parent] - CLOCK_ERROR_NS, "an op began before its launch"
    [part] = [
        span
        for span in recording.of("partition.run")
        if span.step == 2 and span.lane == f"partition {device}"
    ]
    assert runs[-1].end <= part.end + CLOCK_ERROR_NS, "a partition ended before its ops"


def test_times_are_those_of_torchs_profiler_within_a_tenth(recording: Recording) -> None:
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with session("GPU:0", recording) as step, profile(activities=activities) as profiler:
        step()
    runs = of_step(recording, "op.run", 2)
    kernels = sorted(
        (event for event in profiler.events() if _is_product(event)),
        key=lambda event: event.time_range.start,
    )
    assert len(kernels) >= PRODUCTS
    theirs = 1_000 * sum(event.time_range.elapsed_us() for event in kernels)
    ours = sum(span.end - span.start for span in runs)
    print(f"{PRODUCTS} products of {SIDE}: spans {ours / 1e6:.3f} ms, kernels {theirs / 1e6:.3f}")
    assert ours == pytest.approx(theirs, rel=0.1)
    if len(kernels) == PRODUCTS:
        for span, event in zip(runs[1:], kernels[1:], strict=True):
            elapsed_ns = 1_000 * event.time_range.elapsed_us()
            assert span.end - span.start == pytest.approx(elapsed_ns, rel=0.1)


def _is_product(event: Any) -> bool:
    words = ("gemm", "cutlass", "splitK", "xmma", "nvjet")
    return event.device_type.name == "CUDA" and any(word in event.name for word in words)


def test_the_clocks_anchors_say_how_good_they_are(recording: Recording) -> None:
    with session("GPU:0", recording) as step:
        step()
    anchors = recording.of("device.anchor")
    ends = [span for span in anchors if span.name == "GPU:0"]
    assert len(ends) >= 2, "one at each end"
    errors = [int(span.attributes["vizdist.clock.error_ns"]) for span in ends]
    drift = int(ends[-1].attributes["vizdist.clock.drift_ppb"])
    print(f"anchors: errors {errors} ns, drift {drift / 1000:.1f} millionths")
    assert max(errors) < CLOCK_ERROR_NS
