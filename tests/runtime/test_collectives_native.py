"""Collectives by torch.distributed: the same results as hop by hop, behind the same checks."""

from collections.abc import Callable

import pytest
import torch

from tests.clusters import TestCluster
from tests.runtime.collective_graphs import cpus_of, devices_of, fed, names, reducing, workers
from tracer.model.graph_builder import GraphBuilder
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
