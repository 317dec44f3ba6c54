"""Collectives by torch.distributed: the same results as hop by hop, behind the same checks."""

import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.clusters import TestCluster
from tests.runtime.collective_graphs import cpus_of, devices_of, fed, names, reducing, workers
from tracer.model.cluster import TaskName
from tracer.model.collective import Arrival, Collective, Execution
from tracer.model.graph_builder import GraphBuilder
from tracer.runtime import collectives_native
from tracer.runtime.collectives import Collectives
from tracer.runtime.collectives_native import NativeRank, Store
from tracer.runtime.interfaces import StepError
from tracer.strategies.collective_nodes import CollectiveGroup, CollectiveKeys

Start = Callable[..., TestCluster]


@pytest.mark.parametrize(("ranks", "tasks"), [(1, 1), (2, 2), (3, 2)])
def test_native_sums_are_those_of_the_ring(start_cluster: Start, ranks: int, tasks: int) -> None:
    cluster = start_cluster(workers(tasks), devices=cpus_of(ranks, tasks))
    xs = [torch.randn(33, generator=torch.Generator().manual_seed(r)) for r in range(ranks)]
    got = {}
    for hint in ("native", "ring"):
        graph, sums = reducing(devices_of(ranks, tasks), [[33]] * ranks, hint=hint, final_op="Div")
        session = cluster.session(graph)
        feeds = {f"x{rank}:0": x for rank, x in enumerate(xs)}
        got[hint] = [session.run(sums, feeds) for _ in range(2)]
    for native, visible in zip(got["native"], got["ring"], strict=True):
        for one, other in zip(native, visible, strict=True):
            assert torch.equal(one, other) if ranks < 3 else torch.allclose(one, other, atol=1e-6)
    spans = [
        span
        for span in cluster.spans("collective.all_reduce")
        if span.attributes["vizdist.collective.algorithm"] == "native"
    ]
    assert len(spans) == 2 * ranks
    for span in spans:
        assert 0 <= span.attributes["vizdist.wait_ns"] <= span.end - span.start


def test_native_gathers_and_broadcasts(start_cluster: Start) -> None:
    cluster = start_cluster(workers(2), devices=cpus_of(3, 2))
    b, devices = GraphBuilder(), devices_of(3, 2)
    xs = [torch.arange(2.0 * rows).reshape(rows, 2) for rows in (2, 0, 3)]
    inputs = [fed(b, d, r, xs[r].shape, "float32") for r, d in enumerate(devices)]
    group = CollectiveGroup(b, CollectiveKeys(), devices, hint="native")
    gathered = group.all_gather(inputs, of="rows")
    given = group.broadcast(inputs[2], [3, 2], "float32", of="w", source=2)
    feeds = {f"x{rank}:0": x for rank, x in enumerate(xs)}
    outputs = cluster.session(b.graph()).run([*names(gathered), *names(given)], feeds)
    for got in outputs[:3]:
        assert torch.equal(got, torch.cat(xs))
    for got in outputs[3:]:
        assert torch.equal(got, xs[2])


def test_native_ranks_that_do_not_agree_are_told_before_gloo_hears_of_them(
    start_cluster: Start,
) -> None:
    cluster = start_cluster(workers(2), devices=cpus_of(2, 2))
    graph, sums = reducing(devices_of(2, 2), [[4], [8]], hint="native")
    with pytest.raises(StepError, match=r"float32 \[4\] .* float32 \[8\]"):
        cluster.session(graph).run(sums, {"x0:0": torch.ones(4), "x1:0": torch.ones(8)})


def test_many_native_collectives_take_their_turns(start_cluster: Start) -> None:
    """Independent ones, which no control edge orders: gloo would mix them."""
    cluster = start_cluster(workers(2), devices=cpus_of(2, 2))
    b, devices = GraphBuilder(), devices_of(2, 2)
    keys, fetches = CollectiveKeys(), []
    xs = [fed(b, d, r, [2], "float32") for r, d in enumerate(devices)]
    for number in range(6):
        group = CollectiveGroup(b, keys, devices, hint="native")  # each without one before it
        fetches += names(
            group.all_reduce(xs, of=f"sum {number}", merge_op=("Add", "Mul")[number % 2])
        )
        for node in [n for n in b.nodes if n.op == "CollectiveReduceV2"]:
            b.replace(node.name, attrs={**node.attrs, "is_ordered": False})
    feeds = {"x0:0": torch.tensor([2.0, 3.0]), "x1:0": torch.tensor([4.0, 5.0])}
    got = cluster.session(b.graph()).run(fetches, feeds)
    assert [each.tolist() for each in got] == [[6.0, 8.0]] * 2 + [[8.0, 15.0]] * 2 + (
        [[6.0, 8.0]] * 2 + [[8.0, 15.0]] * 2
    ) * 2


def test_the_step_after_one_that_gloo_refused_is_whole(start_cluster: Start) -> None:
    cluster = start_cluster(workers(2), devices=cpus_of(2, 2))
    devices = devices_of(2, 2)
    steps = [
        (*reducing(devices, [[2], [2]], dtype, hint="native", timeout_s=20.0), dtype)
        for dtype in ("float32", "int16", "float32")
    ]
    for graph, sums, dtype in steps:
        ones = torch.ones(2, dtype=getattr(torch, dtype))
        session, feeds = cluster.session(graph), {"x0:0": ones, "x1:0": ones}
        if dtype == "int16":
            with pytest.raises(StepError, match="Invalid scalar type"):
                session.run(sums, feeds)
        else:
            assert [each.tolist() for each in session.run(sums, feeds)] == [[2.0, 2.0]] * 2


def test_the_step_after_one_that_was_cancelled_as_its_last_rank_came_is_whole(
    start_cluster: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = start_cluster(workers(1), step_timeout_s=5.0)
    leader = cluster.workers[TaskName("worker", 0)].env.collectives.leader
    arrive = leader.arrive
    cancelled: list[Arrival] = []

    def cancel_first(arrival: Arrival, done: Any) -> None:
        if not cancelled:
            cancelled.append(arrival)
            done.__self__.cancel()
        arrive(arrival, done)

    graph, sums = reducing(devices_of(1, 1), [[2]], hint="native")
    session = cluster.session(graph)
    assert session.run(sums[0], {"x0:0": torch.ones(2)}).tolist() == [1.0, 1.0]
    monkeypatch.setattr(leader, "arrive", cancel_first)
    with pytest.raises(StepError, match="cancelled"):
        session.run(sums[0], {"x0:0": torch.ones(2)})
    assert session.run(sums[0], {"x0:0": torch.ones(2)}).tolist() == [1.0, 1.0]


DEVICE = "/job:worker/replica:0/task:0/device:CPU:0"
ALONE = Collective("all_reduce", "n", (DEVICE,), 0, algorithm="native")


def test_a_turn_that_is_not_taken_ends_those_after_it_and_not_those_before() -> None:
    store = Store()
    native = NativeRank(ALONE, 1, store.port)
    told: queue.Queue[tuple[int, Any, Any]] = queue.Queue()

    def take(turn: int, *brought: torch.Tensor) -> None:
        execution = Execution(1, (7,), (2,), store.port, turn)
        native.run(execution, ALONE, list(brought), lambda x, error: told.put((turn, x, error)))

    take(2, torch.ones(2))
    take(1)
    take(0, torch.ones(2))
    first, second, third = (told.get(timeout=20) for _ in range(3))
    assert (first[0], first[1].tolist()) == (0, [1.0, 1.0])
    take(3, torch.ones(2))
    for turn, (number, result, error) in enumerate([second, third, told.get(timeout=20)], 1):
        assert (number, result, error.code) == (turn, None, "ABORTED")
        assert "rank 0 of group 1 gave up its turn" in error.message


def test_two_that_begin_at_once_are_the_same_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    home, got = Collectives(), []

    def begin() -> None:
        got.append(home.native(1, ALONE, 4321))

    second = threading.Thread(target=begin)

    class Slow:
        """While the first is made, the second begins."""

        port = 4321

        def __init__(self, *_: Any) -> None:
            if second.ident is None:
                second.start()
                second.join(0.1)

    monkeypatch.setattr(collectives_native, "NativeRank", Slow)
    begin()
    second.join(5)
    assert got[0] is got[1]
