"""Collectives among the ranks of a cluster: the sums are right, hop by hop, near and over gRPC."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.clusters import TestCluster
from tests.rpc.tasks import eventually
from tests.runtime.collective_graphs import cpus_of, devices_of, fed, names, reducing, workers
from tracer.model.graph import Input, Node
from tracer.model.graph_builder import GraphBuilder
from tracer.ops.kernel import Kernel, OpContext, OpDef
from tracer.ops.registry import lookup
from tracer.strategies.collective_nodes import CollectiveGroup, CollectiveKeys

Start = Callable[..., TestCluster]


def reduced(
    cluster: TestCluster, xs: list[torch.Tensor], tasks: int, **asked: Any
) -> list[torch.Tensor]:
    """What each rank gets of an all-reduce of `xs`."""
    graph, sums = reducing(devices_of(len(xs), tasks), [x.shape for x in xs], **asked)
    feeds = {f"x{rank}:0": x for rank, x in enumerate(xs)}
    results: list[torch.Tensor] = cluster.session(graph).run(sums, feeds)
    return results


def cluster_of(start: Start, ranks: int, tasks: int, **options: Any) -> TestCluster:
    return start(workers(tasks), devices=cpus_of(ranks, tasks), **options)


@pytest.mark.parametrize("hint", ["ring", "tree"])
@pytest.mark.parametrize(("ranks", "tasks"), [(1, 1), (2, 1), (2, 2), (3, 2), (5, 2)])
def test_every_rank_gets_the_sum(start_cluster: Start, hint: str, ranks: int, tasks: int) -> None:
    cluster = cluster_of(start_cluster, ranks, tasks)
    xs = [torch.randn(7, 3, generator=torch.Generator().manual_seed(r)) for r in range(ranks)]
    sums = reduced(cluster, xs, tasks, hint=hint)
    expected = torch.stack(xs).double().sum(0)
    for got in sums:
        assert torch.allclose(got.double(), expected, atol=1e-6)
        assert torch.equal(got, sums[0])  # the same bits on all ranks
    if ranks == 2:
        assert torch.equal(sums[0], xs[0] + xs[1])


@pytest.mark.parametrize(
    ("merge_op", "final_op", "expected"),
    [("Add", "Div", 3.0), ("Max", "Id", 5.0), ("Min", "Id", 1.0), ("Mul", "Id", 15.0)],
)
def test_what_is_merged_and_how_it_ends(
    start_cluster: Start, merge_op: str, final_op: str, expected: float
) -> None:
    cluster = cluster_of(start_cluster, 3, 2)
    xs = [torch.full((4,), value) for value in (1.0, 3.0, 5.0)]
    for hint in ("ring", "tree"):
        for got in reduced(cluster, xs, 2, hint=hint, merge_op=merge_op, final_op=final_op):
            assert torch.allclose(got, torch.full((4,), expected))


def test_strided_tensors_are_summed_as_they_look(start_cluster: Start) -> None:
    cluster = cluster_of(start_cluster, 2, 2)
    column = torch.arange(8.0).reshape(4, 2)[:, 1]
    transposed = torch.arange(6.0).reshape(2, 3).T
    expanded = torch.tensor([[1.0], [2.0]]).expand(2, 3)
    for x in (column, transposed, expanded):
        assert not x.is_contiguous()
        for got in reduced(cluster, [x, x.clone()], 2):
            assert torch.equal(got, 2 * x)


def test_a_rank_that_has_nothing_takes_part(start_cluster: Start) -> None:
    cluster = cluster_of(start_cluster, 3, 2)
    for hint in ("ring", "tree"):
        sums = reduced(cluster, [torch.zeros(0, 4) for _ in range(3)], 2, hint=hint)
        assert [got.shape for got in sums] == [(0, 4)] * 3


def test_rows_of_all_ranks_are_gathered_though_their_numbers_differ(start_cluster: Start) -> None:
    cluster = cluster_of(start_cluster, 3, 2)
    b, devices = GraphBuilder(), devices_of(3, 2)
    xs = [torch.arange(2.0 * rows).reshape(rows, 2) + 10 * rows for rows in (2, 0, 3)]
    inputs = [fed(b, d, r, xs[r].shape, "float32") for r, d in enumerate(devices)]
    gathered = CollectiveGroup(b, CollectiveKeys(), devices).all_gather(inputs, of="rows")
    feeds = {f"x{rank}:0": x for rank, x in enumerate(xs)}
    for got in cluster.session(b.graph()).run(names(gathered), feeds):
        assert torch.equal(got, torch.cat(xs))


def test_sparse_gradients_are_gathered_and_their_duplicates_summed_once(
    start_cluster: Start,
) -> None:
    cluster = cluster_of(start_cluster, 2, 2)
    b, devices = GraphBuilder(), devices_of(2, 2)
    rows = [torch.tensor([1, 1, 5]), torch.tensor([5, 7])]
    values = [torch.randn(3, 4), torch.randn(2, 4)]
    group = CollectiveGroup(b, CollectiveKeys(), devices)
    with b.name_scope("emb"):
        indices = [fed(b, d, r, rows[r].shape, "int64") for r, d in enumerate(devices)]
        given = [fed(b, d, r + 2, values[r].shape, "float32") for r, d in enumerate(devices)]
        all_values = group.all_gather(given, of="emb/values")
        all_rows = group.all_gather(indices, of="emb/indices")
    feeds = {f"{i.node}:0": x for i, x in zip([*indices, *given], [*rows, *values], strict=True)}
    fetches = [*names(all_rows), *names(all_values)]
    got_rows, _, got_values, _ = cluster.session(b.graph()).run(fetches, feeds)
    dense = torch.zeros(1000, 4).index_add_(0, torch.cat(rows), torch.cat(values))
    table = torch.zeros(1000, 4).index_add_(0, got_rows, got_values)
    assert torch.equal(table, dense)


@pytest.mark.parametrize("source", [0, 2])
def test_one_rank_gives_its_value_to_all(start_cluster: Start, source: int) -> None:
    cluster = cluster_of(start_cluster, 4, 2)
    b, devices = GraphBuilder(), devices_of(4, 2)
    x = torch.arange(8.0).reshape(4, 2).T
    given = fed(b, devices[source], source, x.shape, "float32")
    group = CollectiveGroup(b, CollectiveKeys(), devices)
    got = group.broadcast(given, x.shape, "float32", of="w", source=source)
    for value in cluster.session(b.graph()).run(names(got), {f"x{source}:0": x}):
        assert torch.equal(value, x)


def test_many_collectives_of_many_steps_keep_apart(start_cluster: Start) -> None:
    cluster = cluster_of(start_cluster, 3, 2)
    b, devices = GraphBuilder(), devices_of(3, 2)
    group = CollectiveGroup(b, CollectiveKeys(), devices)
    xs = [fed(b, d, r, [2], "float32") for r, d in enumerate(devices)]
    sums = xs
    for number in range(4):
        sums = group.all_reduce(sums, of=f"sum {number}")
    session = cluster.session(b.graph())
    for step in range(5):
        feeds = {f"x{rank}:0": torch.tensor([1.0, float(step)]) for rank in range(3)}
        for got in session.run(names(sums), feeds):
            assert got.tolist() == [81.0, 81.0 * step]


@pytest.mark.parametrize("hint", ["ring", "tree", "native"])
def test_what_others_hold_stays_as_it_was(start_cluster: Start, hint: str) -> None:
    """A variable, a constant and a fed tensor are summed again and again."""
    cluster = cluster_of(start_cluster, 2, 2)
    b, devices = GraphBuilder(), devices_of(2, 2)
    group = CollectiveGroup(b, CollectiveKeys(), devices, hint=hint)
    given: list[list[Input]] = [[], [], []]
    made = []
    for rank, device in enumerate(devices):
        with b.device(device):
            v = b.op("VarHandleOp", name=f"v{rank}", dtype="float32", shape=[2])
            ones = b.const([1.0, 1.0], name=f"c{rank}")
            made.append(b.op("AssignVariableOp", v, ones, name=f"init{rank}", dtype="float32"))
            given[0].append(b.op("ReadVariableOp", v, name=f"read{rank}", dtype="float32"))
            given[1].append(ones)
        given[2].append(fed(b, device, rank, [2], "float32"))
    fetches = [name for each in given for name in names(group.all_reduce(each, of="x"))]
    session = cluster.session(b.graph())
    session.run([each.node for each in made])
    feeds = {f"x{rank}:0": torch.ones(2) for rank in range(2)}
    for _ in range(3):
        assert [got.tolist() for got in session.run(fetches, feeds)] == [[2.0, 2.0]] * 6
    assert all(x.tolist() == [1.0, 1.0] for x in feeds.values())


def test_a_task_holds_nothing_of_collectives_that_are_over(start_cluster: Start) -> None:
    cluster = cluster_of(start_cluster, 4, 2)
    reduced(cluster, [torch.ones(9)] * 4, 2)
    for worker in cluster.workers.values():
        assert not worker.env.collectives.exchanges.running()


def test_nobody_holds_what_a_native_sum_was_made_of(start_cluster: Start) -> None:
    """Not even in a circle that only the garbage collector would find.

    So a sum that goes round a queue is alone when it is brought again. Whether it already is at
    that moment is up to the threads, which may still be leaving the calls that handed it on.
    """
    seen: list[weakref.ref[torch.Tensor]] = []

    def bind(_node: Node, _context: OpContext) -> Kernel:
        def kernel(x: torch.Tensor) -> torch.Tensor:
            seen.append(weakref.ref(x))
            return x

        return kernel

    def with_seen(name: str) -> OpDef:
        return OpDef(name, bind) if name == "Identity" else lookup(name)

    b, devices = GraphBuilder(), devices_of(2, 2)
    form: dict[str, Any] = {"component_types": ["float32"], "shapes": [[8]]}
    queues, taken, firsts, puts, heads = [], [], [], [], []
    for rank, device in enumerate(devices):
        with b.device(device):
            queue = b.op("FIFOQueueV2", name=f"queue{rank}", capacity=1, **form)
            ones = b.op("Fill", b.const([8], "int32"), b.const(1.0), T="float32")
            firsts.append(b.op("QueueEnqueueV2", queue, ones).node)
            head = b.op("QueueDequeueV2", queue, **form)
            heads.append(head.node)
            taken.append(b.op("Identity", head, T="float32"))
            queues.append(queue)
    sums = CollectiveGroup(b, CollectiveKeys(), devices, hint="native").all_reduce(taken, of="x")
    for queue, total, device in zip(queues, sums, devices, strict=True):
        with b.device(device):
            puts.append(b.op("QueueEnqueueV2", queue, total).node)
    session = start_cluster(workers(2), lookup=with_seen).session(b.graph())
    session.run(firsts)
    gc.disable()
    try:
        for _ in range(4):
            session.run(puts)
        session.run(heads)
        eventually(lambda: not any(tensor() is not None for tensor in seen), "all are let go")
    finally:
        gc.enable()
    assert len(seen) == 8
