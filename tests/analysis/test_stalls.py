"""A device that stands idle: for how long, what it waited for, and how that is said."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.analysis.timed_run import recording
from tests.fakes import FakeClock
from tests.store.sample_trace import EPOCH, write_trace
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.graph import Graph, Node
from tracer.model.graph_builder import GraphBuilder
from tracer.ops.kernel import Kernel, OpContext, OpDef
from tracer.ops.registry import lookup
from tracer.runtime.near_cluster import NearCluster
from tracer.runtime.session import Session
from vizdist.analysis.stalls import NOTHING_LEFT, Stall, gaps, stalls
from vizdist.analysis.stalls_told import KEYS, told
from vizdist.figures.findings import step_findings
from vizdist.i18n import LANGUAGES, t
from vizdist.store.columns import SpanRecord
from vizdist.store.trace import Trace, open_trace

MS = 1_000_000
CLUSTER = ClusterSpec.of_counts(ps=1, worker=2)
WORKER_0 = TaskName("worker", 0)


def chain() -> Graph:
    """A value goes from ps:0 through a slow `Neg` on worker:1 to worker:0."""
    b = GraphBuilder()
    with b.device("/job:ps/task:0"):
        before = b.op("Abs", b.placeholder([1], name="x"), name="before", T="float32")
    with b.device("/job:worker/task:1"):
        slow = b.op("Neg", before, name="slow", T="float32")
    with b.device("/job:worker/task:0"):
        b.op("Square", slow, name="after", T="float32")
    return b.graph()


def sleeping(clock: FakeClock, slow: str) -> Callable[[str], OpDef]:
    """A registry in which one op takes 7 ms and every other a microsecond."""

    def found(name: str) -> OpDef:
        known = lookup(name)

        def bind(node: Node, context: OpContext) -> Kernel:
            inner = known.bind(node, context)

            def kernel(*inputs: Any) -> Any:
                clock.sleep(0.007 if name == slow else 0.000_001)
                return inner(*inputs)

            return kernel

        return known if known.is_async else replace(known, bind=bind)

    return found


def captured(folder: Path, op: str) -> Trace:
    """A step in which ops of this type take 7 ms."""
    clock = FakeClock()
    with (
        recording(folder, clock, str(WORKER_0)) as (recorder_of, tracing),
        NearCluster(
            CLUSTER,
            recorder_of=recorder_of,
            clock=clock,
            lookup=sleeping(clock, op),
        ) as cluster,
        Session(cluster.masters[WORKER_0], chain(), tracing) as session,
    ):
        session.run("after:0", {"x:0": torch.ones(1)})
    return open_trace(folder / "x.trace")


def of_task(trace: Trace, task: str) -> list[Stall]:
    found = stalls(trace, trace.step(1))
    return [stall for stall in found if trace.rows[stall.row].task == task]


@pytest.mark.parametrize(
    ("op", "name", "at", "idle"),
    [
        ("Neg", "slow", "worker:1", ("worker:0",)),
        ("Abs", "before", "ps:0", ("worker:0", "worker:1")),
    ],
)
def test_the_op_that_slept_is_the_cause_of_every_stall_behind_it(
    tmp_path: Path, op: str, name: str, at: str, idle: tuple[str, ...]
) -> None:
    trace = captured(tmp_path, op)
    for task in idle:
        stall = of_task(trace, task)[0]
        assert 7 * MS <= stall.duration < 7.005 * MS
        assert stall.cause is not None
        assert stall.cause.duration == 7 * MS
        assert told(trace, stall) == (
            "ran",
            {"task": task, "time": "7.00 ms", "at": at, "name": name, "part": "7.00 ms"},
        )
        assert trace.all.text("name")[stall.effect] == ("after" if task == "worker:0" else "slow")
        said = t("timeline.canvas.stall.ran", "en", **told(trace, stall).values)
        assert said == f"{task} stood idle 7.00 ms, because {at} ran {name} for 7.00 ms"


def test_a_piece_that_is_little_of_a_stall_is_not_called_its_cause(tmp_path: Path) -> None:
    trace = captured(tmp_path, "Neg")
    stall = of_task(trace, "worker:0")[0]
    assert stall.cause is not None
    little = stall.cause._replace(end=stall.cause.start + stall.duration // 5)
    key, values = told(trace, stall._replace(cause=little))
    assert (key, values["at"], values["share"]) == ("pieces", "worker:1", "20.0 %")
    assert "because" not in t(f"timeline.canvas.stall.{key}", "en", **values)


def test_what_comes_after_its_last_op_is_no_stall_of_a_device_that_does_not_lead(
    tmp_path: Path,
) -> None:
    trace = captured(tmp_path, "Neg")
    (after,) = of_task(trace, "ps:0")
    assert (after.effect, after.cause) == (NOTHING_LEFT, None)
    assert after.duration >= 7 * MS
    assert told(trace, after).key == "nothing"


def random_step(seed: int) -> list[SpanRecord]:
    """Ops of two devices, one with two rows; some outside the step, some that only wait."""
    random = np.random.default_rng(seed)
    shared: dict[str, Any] = {"step": 1, "trace_hi": 7, "trace_lo": 1}
    root = SpanRecord("worker:0", "client", EPOCH, EPOCH + 900, "s", "session.run", span=1,
                      **shared)  # fmt: skip
    found = [root]
    for task, depth in (("worker:0", 0), ("worker:0", 1), ("ps:0", 0)):
        at = int(random.integers(-50, 200))
        for _ in range(int(random.integers(1, 9))):
            end = at + int(random.integers(0, 120))
            op = "QueueDequeueV2" if random.random() < 0.1 else "MatMul"
            found.append(
                SpanRecord(task, "executor CPU:0", EPOCH + at, EPOCH + end, "mm", "op.run",
                           depth=depth, op=op, span=len(found) + 1, **shared)
            )  # fmt: skip
            at = end + int(random.integers(0, 90))
    return found


def test_stalls_and_busy_time_of_a_device_are_the_step_exactly(tmp_path: Path) -> None:
    for seed in range(40):
        spans = random_step(seed)
        trace = open_trace(write_trace(tmp_path / f"{seed}.trace", spans))
        found = gaps(trace, trace.steps)
        for task in ("worker:0", "ps:0"):
            busy = np.zeros(900, np.bool_)
            ops = [s for s in spans if s.op == "MatMul" and s.task == task]
            for one in ops:
                busy[max(0, one.start - EPOCH) : max(0, one.end - EPOCH)] = True
            own = np.array([trace.rows[row].task == task for row in found.row], np.bool_)
            idle = np.zeros(900, np.bool_)
            for start, end in zip(found.start[own] - EPOCH, found.end[own] - EPOCH, strict=True):
                assert not idle[start:end].any(), "two stalls at once"
                idle[start:end] = True
            assert (idle != busy).all() or not ops


def test_the_gaps_of_a_run_are_those_of_its_steps(tmp_path: Path) -> None:
    spans = [
        one._replace(
            start=one.start + number * 2000, end=one.end + number * 2000, step=number,
            trace_lo=number, span=one.span + number * 1000,
        )
        for number in range(1, 6)
        for one in random_step(number)
    ]  # fmt: skip
    trace = open_trace(write_trace(tmp_path / "x.trace", spans))
    together = gaps(trace, trace.steps)
    apart = [gaps(trace, [step]) for step in trace.steps]
    for column in ("row", "start", "end", "effect"):
        joined = np.concatenate([getattr(one, column) for one in apart])
        assert sorted(getattr(together, column).tolist()) == sorted(joined.tolist())


def test_a_device_that_runs_an_op_of_another_step_does_not_stand_idle(tmp_path: Path) -> None:
    for seed in range(40):
        spans = random_step(seed)
        others = [
            one._replace(
                start=one.start + 70, end=one.end + 70, step=2, trace_lo=2, span=one.span + 1000
            )
            for one in random_step(seed + 100)
        ]
        alone = open_trace(write_trace(tmp_path / f"{seed}-alone.trace", spans))
        trace = open_trace(write_trace(tmp_path / f"{seed}.trace", [*spans, *others]))
        for task in ("worker:0", "ps:0"):
            busy = np.zeros(1000, np.bool_)
            for one in others:
                if one.op == "MatMul" and one.task == task:
                    busy[max(0, one.start - EPOCH) : max(0, one.end - EPOCH)] = True
            assert (idle_of(trace, task) == idle_of(alone, task) & ~busy).all()


def test_a_stall_that_an_op_of_another_step_cuts_ends_before_its_own_op_is_ready(
    tmp_path: Path,
) -> None:
    """The device runs an op of step 1 to 10, one of step 2 from 20 to 30, and one that is ready
    at 40 from 50.
    """

    def span(number: int, start: int, end: int, ready: int = 0, step: int = 1) -> SpanRecord:
        kind, op = ("op.run", "MatMul") if number > 2 else ("session.run", "")
        return SpanRecord(
            "worker:0", "executor CPU:0", EPOCH + start, EPOCH + end, "mm", kind, op=op,
            span=number, ready=EPOCH + ready, step=step, trace_hi=7, trace_lo=step,
        )  # fmt: skip

    spans = span(1, 0, 60), span(2, 15, 35, step=2), span(3, 0, 10), span(4, 50, 60, ready=40)
    trace = open_trace(write_trace(tmp_path / "x.trace", [*spans, span(5, 20, 30, step=2)]))
    found = step_findings(trace, trace.step(1))["stalls"]
    at = [tuple(one[edge] for edge in ("start", "ready", "end")) for one in found]
    assert sorted(at) == [(10, 20, 20), (30, 40, 50)]


def idle_of(trace: Trace, task: str) -> NDArray[np.bool_]:
    """Whether a device stood idle in step 1, ns by ns."""
    idle, found = np.zeros(1000, np.bool_), gaps(trace, [trace.step(1)])
    for row, start, end in zip(found.row, found.start - EPOCH, found.end - EPOCH, strict=True):
        if trace.rows[row].task == task:
            assert not idle[start:end].any(), "two stalls at once"
            idle[start:end] = True
    return idle


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("key", KEYS)
def test_every_cause_has_a_sentence(key: str, lang: str) -> None:
    values = dict.fromkeys(("task", "time", "at", "name", "part", "share"), "x")
    assert t(f"timeline.canvas.stall.{key}", "zh" if lang == "zh" else "en", **values)
