"""The critical path of steps whose every number is known, and of what the runtime ran itself."""

from pathlib import Path
from typing import Any

import pytest

from tests.analysis.sample_run import SLOW_NS, SLOW_STEP, sample_run
from tests.analysis.timed_run import gpu_run
from tests.store.sample_trace import EPOCH, write_trace
from tracer.cli import main as tracer
from tracer.model.trace_folder import Flag
from vizdist.analysis.critical_path import CriticalPath, critical_path
from vizdist.analysis.step_split import CLASSES
from vizdist.store.columns import SpanRecord
from vizdist.store.trace import StepInfo, Trace, open_trace

WORKER = "/job:worker/replica:0/task:0/device:CPU:0"
IDS: dict[str, Any] = {"step": 1, "trace_hi": 7, "trace_lo": 1}
PIECE = tuple[str, str, int, int]  #: name, part, start and end after the step's start


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return sample_run(tmp_path_factory.mktemp("sample") / "x.trace")


def path_of(trace: Trace, step: StepInfo) -> CriticalPath:
    found = critical_path(trace, step)
    assert found is not None
    return found


def told(trace: Trace, step: StepInfo) -> list[PIECE]:
    names = trace.all.text("name")
    return [
        (names[piece.place], piece.part, piece.start - step.start, piece.end - step.start)
        for piece in path_of(trace, step).pieces
    ]


def slack_by_name(trace: Trace, step: StepInfo) -> dict[str, int]:
    names = trace.all.text("name")
    return {names[place]: ns for place, ns in path_of(trace, step).slack.items()}


def tiles(path: CriticalPath) -> bool:
    """From the step's start to its end without a gap, in known classes."""
    ends = [path.step.start, *(piece.end for piece in path.pieces)]
    starts = [*(piece.start for piece in path.pieces), path.step.end]
    return ends == starts and {piece.part for piece in path.pieces} <= {*CLASSES}


def test_the_path_of_a_known_step_crosses_to_the_ps_and_back(sample: Trace) -> None:
    """w is read on the ps at 150 and sent at 190, is there at 300; mm comes back; the update ends
    at 1300.
    """
    assert told(sample, sample.step(1, "worker:0")) == [
        ("w/Read", "other", 0, 150),
        ("w/Read", "compute", 150, 160),
        ("w/Read_S", "other", 160, 190),
        ("w/Read_S", "transfer", 190, 200),
        ("w/Read_R", "transfer", 200, 300),
        ("mm", "compute", 300, 1000),
        ("mm_S", "other", 1000, 1090),
        ("mm_S", "transfer", 1090, 1100),
        ("mm_R", "transfer", 1100, 1200),
        ("update_w", "update", 1200, 1300),
        ("session.run", "other", 1300, 1400),
    ]


def test_what_takes_longer_is_on_the_path_for_longer(sample: Trace) -> None:
    slow = {name: end - start for name, part, start, end in told(
        sample, sample.step(SLOW_STEP, "worker:1")
    ) if part == "compute"}  # fmt: skip
    assert slow["mm"] == 700 + SLOW_NS


def test_pieces_tile_every_step(sample: Trace) -> None:
    assert all(tiles(path_of(sample, step)) for step in sample.steps)


def node(
    name: str, ready: int, start: int, end: int, number: int, task: str = "worker:0", depth: int = 0
) -> SpanRecord:
    return SpanRecord(
        task, "executor CPU:0", EPOCH + start, EPOCH + end, name, "op.run", op="MatMul",
        device=WORKER, ready=EPOCH + ready, span=number, parent=2, depth=depth, **IDS,
    )  # fmt: skip


def opened(folder: Path, *ops: SpanRecord, end: int = 100) -> Trace:
    """A step of 100 ns in one partition."""
    root = SpanRecord(
        "worker:0", "client", EPOCH, EPOCH + end, "step", "session.run", span=1, **IDS
    )
    run = SpanRecord(
        "worker:0", "partition", EPOCH, EPOCH + end, "CPU:0", "partition.run", span=2, parent=1,
        **IDS,
    )  # fmt: skip
    return open_trace(write_trace(folder / "x.trace", [root, run, *ops]))


def test_an_op_that_stood_behind_another_is_explained_by_it(tmp_path: Path) -> None:
    """Both were ready at 10; the thread ran `first`, and `second` from 3 ns after its end."""
    trace = opened(tmp_path, node("first", 10, 10, 60, 3), node("second", 10, 63, 100, 4))
    assert told(trace, trace.step(1)) == [
        ("first", "other", 0, 10),
        ("first", "compute", 10, 60),
        ("second", "queueing", 60, 63),
        ("second", "compute", 63, 100),
    ]


def test_an_op_that_nothing_awaits_for_long_has_slack(tmp_path: Path) -> None:
    """Two threads, as the trace shows; the step ends 100 ns in."""
    trace = opened(tmp_path, node("long", 0, 0, 90, 3), node("short", 0, 0, 30, 4, depth=1))
    assert slack_by_name(trace, trace.step(1)) == {"step": 0, "CPU:0": 0, "long": 0, "short": 60}


def test_an_op_is_awaited_by_what_became_ready_when_it_ended(tmp_path: Path) -> None:
    """No graph is in the trace: that `c` was ready when `b` had ended says what it awaited."""
    ops = node("a", 0, 0, 40, 3), node("b", 0, 0, 70, 4, depth=1), node("c", 72, 75, 100, 5)
    trace = opened(tmp_path, *ops)
    assert told(trace, trace.step(1)) == [
        ("b", "compute", 0, 70),
        ("c", "other", 70, 72),
        ("c", "queueing", 72, 75),
        ("c", "compute", 75, 100),
    ]


def test_a_value_that_never_came_is_waited_for_to_the_end(tmp_path: Path) -> None:
    lost = node("w", 0, 20, 100, 4)._replace(
        kind="rendezvous.recv", op="", ready=0, flags=Flag.UNFINISHED
    )
    trace = opened(tmp_path, node("a", 0, 0, 20, 3), lost)
    assert told(trace, trace.step(1)) == [("a", "compute", 0, 20), ("w", "wait", 20, 100)]


def test_before_a_call_is_made_no_message_is_under_way(tmp_path: Path) -> None:
    root = SpanRecord(
        "worker:0", "client", EPOCH, EPOCH + 100, "step", "session.run", span=1, **IDS
    )
    call = root._replace(
        start=EPOCH + 20, end=EPOCH + 90, name="RunGraph", kind="rpc.client", span=2, parent=1
    )
    trace = open_trace(write_trace(tmp_path / "x.trace", [root, call, node("a", 30, 30, 80, 3)]))
    assert told(trace, trace.step(1)) == [
        ("RunGraph", "other", 0, 20),
        ("a", "other", 20, 30),
        ("a", "compute", 30, 80),
        ("RunGraph", "rpc", 80, 90),
        ("step", "other", 90, 100),
    ]


def test_a_step_without_ops_has_no_path(tmp_path: Path) -> None:
    trace = opened(tmp_path)
    assert critical_path(trace, trace.step(1)) is None


def test_a_step_whose_client_was_killed_has_a_path_to_its_last_instant(tmp_path: Path) -> None:
    run = SpanRecord(
        "worker:0", "partition", EPOCH, EPOCH + 80, "CPU:0", "partition.run", span=2, parent=1,
        flags=Flag.UNFINISHED, **IDS,
    )  # fmt: skip
    trace = open_trace(write_trace(tmp_path / "x.trace", [run, node("a", 0, 10, 80, 3)]))
    assert told(trace, trace.step(1)) == [("a", "queueing", 0, 10), ("a", "compute", 10, 80)]


RUNS = ("cross-device-while", "nested-while", "cross-device-cond", "recv-dedup")


@pytest.fixture(scope="module", params=RUNS)
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    out = tmp_path_factory.mktemp("run") / f"{request.param}.trace"
    assert tracer(["run", request.param, "--in-process", "--out", str(out)]) == 0
    return open_trace(out)


def test_the_path_of_what_the_runtime_ran_leads_to_its_end_without_slack(ran: Trace) -> None:
    for step in ran.steps:
        path = path_of(ran, step)
        assert tiles(path)
        assert min(path.slack.values()) == 0


def test_a_graph_that_is_made_within_a_step_is_on_its_path(ran: Trace) -> None:
    kinds = ran.all.text("kind")
    found = [kinds[piece.place] for piece in path_of(ran, ran.step(1)).pieces]
    assert found[:3] == ["graph.prune", "graph.place", "graph.partition"]


def test_the_path_follows_a_gpu_and_not_what_launched_it(tmp_path: Path) -> None:
    trace = gpu_run(tmp_path / "a", 3_000, 40, 1_000)
    assert told(trace, trace.step(2)) == [
        ("_recv_x_0", "transfer", 0, 1_000),
        ("minus", "compute", 1_000, 4_000),
        ("square", "transfer", 4_000, 5_000),
    ]
