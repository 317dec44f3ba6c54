"""What a step would take is what it takes when it is so: run again, to the nanosecond."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.analysis.test_critical_path import node as op_node
from tests.analysis.test_critical_path import opened as step_of
from tests.analysis.timed_run import Timed, gpu_run, timed_run
from tracer.model.graph import Graph, Input
from tracer.model.graph_builder import GraphBuilder
from tracer.runtime import generated_executor, queue_run
from tracer.runtime.worker_env import ExecutorKind
from vizdist.analysis.critical_path import critical_path
from vizdist.analysis.step_events import step_events
from vizdist.analysis.what_if import Change, Kind, WhatIf, saved_without, what_if
from vizdist.store.trace import StepInfo, Trace

STEP = 2
NODES = {"c": 1, "left": 7, "left2": 3, "right": 11, "join": 5, "aside": 2}
LINKS = {("ps:0", "worker:0"): 20, ("ps:0", "worker:1"): 30, ("worker:1", "ps:0"): 8}
NO_LINKS: dict[tuple[str, str], int] = {}


def two_branches() -> Graph:
    """From ps:0 over both workers and back; `aside` on worker:0 needs nothing of it."""
    b = GraphBuilder()
    with b.device("/job:ps/task:0"):
        c = b.op("Abs", b.const([1.0], name="one"), name="c", T="float32")
    with b.device("/job:worker/task:0"):
        aside = b.op("Abs", b.const([1.0], name="two"), name="aside", T="float32")
        left = b.op("Neg", c, name="left", T="float32")
        left2 = b.op("AddV2", left, aside, name="left2", T="float32")
    with b.device("/job:worker/task:1"):
        right = b.op("Neg", c, name="right", T="float32")
    with b.device("/job:ps/task:0"):
        b.op("AddV2", left2, right, name="join", T="float32")
    return b.graph()


def counting() -> Graph:
    """Three rounds of a loop whose body runs on worker:1."""
    b = GraphBuilder()

    def body(i: Input) -> list[Input]:
        with b.device("/job:worker/task:1"):
            return [b.op("AddV2", i, b.const(1.0, name="one"), name="more", T="float32")]

    with b.device("/job:worker/task:0"):
        zero, limit = b.const(0.0, name="zero"), b.const(3.0, name="limit")
        out = b.while_loop(lambda i: b.op("Less", i, limit, name="less", T="float32"), body, [zero])
        b.op("Identity", out[0], name="out", T="float32")
    return b.graph()


def predicted(trace: Trace, kind: Kind, name: str, step: StepInfo | None = None) -> WhatIf:
    found = what_if(trace, step or trace.step(STEP), Change(kind, name))
    assert found is not None
    return found


def took(trace: Trace) -> int:
    return trace.step(STEP).duration


def run(folder: Path, timed: Timed, executor: ExecutorKind = "generated") -> Trace:
    return timed_run(folder, two_branches(), "join:0", timed, executor)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """By the executors' own clock nothing takes so long that another thread goes on with it."""
    with pytest.MonkeyPatch.context() as patch:
        for executor in (generated_executor, queue_run):
            patch.setattr(executor, "time", SimpleNamespace(perf_counter_ns=lambda: 0))
        yield


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return run(tmp_path_factory.mktemp("run") / "a", Timed(NODES, LINKS))


def test_run_again_unchanged_every_instant_is_where_it_was(trace: Trace) -> None:
    events = step_events(trace, trace.step(STEP))
    assert events is not None
    assert events.order.ends_with(events.order.durations).tolist() == events.times.tolist()
    fetched = LINKS["ps:0", "worker:0"]
    assert took(trace) == sum(NODES.values()) + sum(LINKS.values()) + fetched


@pytest.mark.parametrize("node", [*NODES])
def test_an_op_that_is_free(trace: Trace, node: str, tmp_path: Path) -> None:
    again = run(tmp_path / "b", Timed({**NODES, node: 0}, LINKS))
    found = predicted(trace, "op", node)
    assert (found.took, found.would_take) == (took(trace), took(again))
    assert found.saved == NODES[node]


@pytest.mark.parametrize("link", [*LINKS])
def test_a_link_that_is_twice_as_fast(trace: Trace, link: tuple[str, str], tmp_path: Path) -> None:
    again = run(tmp_path / "b", Timed(NODES, {**LINKS, link: LINKS[link] // 2}))
    assert predicted(trace, "link", "→".join(link)).would_take == took(again)


def test_a_device_that_is_twice_as_fast(tmp_path: Path) -> None:
    nodes = {"left": 8, "left2": 4, "aside": 20, "right": 11}
    slow = run(tmp_path / "a", Timed(nodes, LINKS))
    halved = {"left": 4, "left2": 2, "aside": 10, "right": 11}
    fast = run(tmp_path / "b", Timed(halved, LINKS))
    device = "/job:worker/replica:0/task:0/device:CPU:0"
    assert predicted(slow, "device", device).would_take == took(fast)


@pytest.mark.parametrize("node", [*NODES])
def test_an_op_of_the_ready_queue_that_is_free(node: str, tmp_path: Path) -> None:
    slow = run(tmp_path / "a", Timed(NODES, NO_LINKS), "queue")
    free = run(tmp_path / "b", Timed({**NODES, node: 0}, NO_LINKS), "queue")
    assert predicted(slow, "op", node).would_take == took(free)


@pytest.mark.parametrize("node", ["while/more", "while/less"])
def test_an_op_in_a_loop_is_free_in_every_iteration(node: str, tmp_path: Path) -> None:
    nodes = {"while/more": 100, "while/less": 7}
    slow = timed_run(tmp_path / "a", counting(), "out:0", Timed(nodes, NO_LINKS))
    free = timed_run(tmp_path / "b", counting(), "out:0", Timed({**nodes, node: 0}, NO_LINKS))
    found = predicted(slow, "op", node)
    assert found.would_take == took(free)
    assert found.saved == {"while/more": 3 * 100, "while/less": 4 * 7}[node]


def test_what_a_gpu_runs_is_free_or_twice_as_fast_on_its_own_clock(tmp_path: Path) -> None:
    """A launch of 40 ns, 3,000 ns on the first card, copies of 1,000 ns there and back."""
    slow = gpu_run(tmp_path / "a", 3_000, 40, 1_000)
    free = gpu_run(tmp_path / "b", 0, 0, 1_000)
    fast = gpu_run(tmp_path / "c", 1_500, 40, 1_000)
    card = "/job:worker/replica:0/task:0/device:GPU:0"
    assert took(slow) == 1_000 + 3_000 + 1_000
    assert predicted(slow, "op", "minus").would_take == took(free)
    assert predicted(slow, "device", card).would_take == took(fast)


def test_what_runs_at_the_same_time_is_the_end_then(tmp_path: Path) -> None:
    """Two threads: without `long`, `short` ends the step, 10 ns before the partition does."""
    ops = op_node("long", 0, 0, 90, 3), op_node("short", 0, 0, 30, 4, depth=1)
    trace = step_of(tmp_path, *ops)
    assert predicted(trace, "op", "long", trace.step(1)).would_take == 30 + 10
    assert predicted(trace, "op", "short", trace.step(1)).saved == 0


def test_a_piece_of_the_path_saves_no_more_than_what_others_leave(tmp_path: Path) -> None:
    """`long` takes 90 ns of the path; without it `short` still takes 30 of them."""
    trace = step_of(tmp_path, op_node("long", 0, 0, 90, 3), op_node("short", 0, 0, 30, 4, depth=1))
    step, names = trace.step(1), trace.all.text("name")
    path = critical_path(trace, step)
    assert path is not None
    [piece] = [one for one in path.pieces if names[one.place] == "long"]
    assert (piece.duration, saved_without(trace, step, piece)) == (90, 60)
    assert saved_without(trace, step, piece._replace(place=len(trace.all))) == 0


def test_what_is_not_in_the_step_changes_nothing(trace: Trace) -> None:
    step = trace.step(STEP)
    absent = Change("op", "nobody"), Change("link", "ps:0→ps:7"), Change("device", "/job:x")
    assert [what_if(trace, step, change) for change in absent] == [None] * 3
