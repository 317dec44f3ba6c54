"""What the trace says of a collective: who came when, who waited, which piece went where."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from tests.clusters import TestCluster, running_cluster
from tests.fakes import FakeClock, SpanData
from tests.runtime.collective_graphs import cpus_of, devices_of, reducing, workers
from tracer.model.collective import is_execution
from tracer.model.graph import Graph, Node
from tracer.model.step import RendezvousKey
from tracer.ops.kernel import Done, Kernel, OpContext, OpDef
from tracer.ops.registry import lookup
from tracer.record.clock import SystemClock
from tracer.runtime import turn
from tracer.runtime.collectives_schedule import chunk_bounds

Start = Callable[..., TestCluster]
RANK = "vizdist.collective.rank"


def delayed(graph: Graph) -> Graph:
    """The graph with a `Square` between each fed value and its collective."""
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op != "CollectiveReduceV2":
            nodes.append(node)
            continue
        fed, device = node.inputs[0], node.requested_device
        late, attrs = f"late_{fed.node}", {"T": "float32"}
        nodes.append(Node(late, "Square", (fed,), attrs=attrs, requested_device=device))
        nodes.append(node.with_(inputs=(fed._replace(node=late), *node.inputs[1:])))
    return Graph(nodes)


class Arrivals:
    """`Square` hands its input on when its rank's time has come, in ns after the step began."""

    def __init__(self, clock: FakeClock, times: list[int]) -> None:
        self.clock = clock
        self.times = times
        self.here: list[tuple[int, Done, torch.Tensor]] = []

    def lookup(self, name: str) -> OpDef:
        return OpDef("Square", self.bind, is_async=True) if name == "Square" else lookup(name)

    def bind(self, node: Node, _context: OpContext) -> Kernel:
        rank = int(node.name.removeprefix("late_x"))

        def wait(done: Done, x: torch.Tensor) -> None:
            self.here.append((self.times[rank], done, x))
            if len(self.here) == len(self.times):
                self.let_go()

        return wait

    def let_go(self) -> None:
        here, self.here = sorted(self.here, key=lambda each: each[0]), []
        turn.run(partial(self._give, here, 0))

    def _give(self, here: list[tuple[int, Done, torch.Tensor]], now: int) -> None:
        """What one lets run is over before the clock moves on."""
        (time, done, x), *later = here
        self.clock.advance(time - now)
        done(x)
        if later:
            turn.run(partial(self._give, later, time))


class Ticking(FakeClock):
    """Every reading takes 7 ns."""

    def now_ns(self) -> int:
        self.advance(7)
        return super().now_ns()


def of_rank(spans: list[SpanData], rank: int) -> list[SpanData]:
    return [span for span in spans if span.attributes[RANK] == rank]


def run(cluster: TestCluster, ranks: int, tasks: int, size: int = 10, **asked: Any) -> None:
    graph, sums = reducing(devices_of(ranks, tasks), [[size]] * ranks, **asked)
    cluster.session(graph).run(sums, {f"x{r}:0": torch.ones(size) for r in range(ranks)})


@pytest.mark.parametrize("hint", ["ring", "tree"])
@pytest.mark.parametrize("clock", [SystemClock, Ticking])
def test_wait_and_hops_of_a_rank_are_all_of_its_time(
    start_cluster: Start, hint: str, clock: Callable[[], Any]
) -> None:
    cluster = start_cluster(workers(2), devices=cpus_of(5, 2), clock=clock())
    run(cluster, 5, 2, hint=hint)
    wholes, hops = cluster.spans("collective.all_reduce"), cluster.spans("collective.hop")
    assert len(wholes) == 5
    for whole in wholes:
        own = [hop for hop in hops if hop.parent == whole.span]
        waited = whole.attributes["vizdist.wait_ns"]
        assert whole.end - whole.start == waited + sum(hop.end - hop.start for hop in own)
        at = whole.start + waited
        for hop in own:
            assert hop.start == at
            assert 0 <= hop.attributes["vizdist.wait_ns"] <= hop.end - hop.start
            at = hop.end


def test_a_rank_tells_who_it_is_and_what_it_is_part_of(start_cluster: Start) -> None:
    cluster = start_cluster(workers(2), devices=cpus_of(3, 2))
    run(cluster, 3, 2)
    spans = cluster.spans("collective.all_reduce")
    executions = {span.attributes["vizdist.collective.execution"] for span in spans}
    assert len(executions) == 1
    assert is_execution(int(executions.pop(), 16))
    assert sorted(span.attributes[RANK] for span in spans) == [0, 1, 2]
    for span in spans:
        told = span.attributes
        assert told["vizdist.collective.group"] == "1"
        assert told["vizdist.collective.instance"] == "100"
        assert told["vizdist.collective.algorithm"] == "ring"
        assert told["vizdist.collective.op"] == "Add Id"
        assert told["vizdist.collective.num_ranks"] == 3
        assert told["vizdist.tensor.bytes"] == 40
        assert span.name == told["vizdist.collective.of"] == "x"
    ops = {s.span: s for s in cluster.spans("op.run")}
    assert {ops[s.parent].attributes["vizdist.op"] for s in spans} == {"CollectiveReduceV2"}


@pytest.mark.parametrize("size", [12, 10, 2])
def test_counted_bytes_are_those_of_the_ring_to_the_byte(start_cluster: Start, size: int) -> None:
    """Also where chunks are uneven, or some are empty."""
    cluster = start_cluster(workers(2), devices=cpus_of(4, 2))
    run(cluster, 4, 2, size)
    chunks = [4 * (last - first) for first, last in chunk_bounds(size, 4)]
    wholes, hops = cluster.spans("collective.all_reduce"), cluster.spans("collective.hop")
    for rank in range(4):
        (whole,) = of_rank(wholes, rank)
        never_sent = chunks[(rank + 1) % 4] + chunks[(rank + 2) % 4]
        assert whole.num_bytes == 2 * 4 * size - never_sent
        received = [hop.num_bytes for hop in of_rank(hops, rank)]
        assert sum(received) == 2 * 4 * size - chunks[rank] - chunks[(rank + 1) % 4]
    assert sum(hop.num_bytes for hop in hops) == 2 * 3 * 4 * size


def test_hops_say_which_chunk_came_from_whom(start_cluster: Start) -> None:
    cluster = start_cluster(workers(2), devices=cpus_of(3, 2))
    run(cluster, 3, 2)
    told = [
        tuple(hop.attributes[f"vizdist.collective.{what}"] for what in ("phase", "chunk", "sender"))
        for hop in of_rank(cluster.spans("collective.hop"), 1)
    ]
    assert told == [
        ("reduce_scatter", 0, 0),
        ("reduce_scatter", 2, 0),
        ("all_gather", 1, 0),
        ("all_gather", 0, 0),
    ]


def test_a_hop_has_the_key_under_which_its_piece_is_asked_for(start_cluster: Start) -> None:
    cluster = start_cluster(workers(2), devices=cpus_of(3, 2))
    run(cluster, 3, 2)
    devices = devices_of(3, 2)
    for rank in range(3):
        keys = [RendezvousKey.parse(s.key) for s in of_rank(cluster.spans("collective.hop"), rank)]
        assert [(key.src_device, key.dst_device) for key in keys] == [
            (devices[rank - 1], devices[rank])
        ] * 4
        assert keys[0].edge_name == f"collective_1_100_reduce_scatter_{rank - 1 if rank else 2}"


def test_what_goes_between_tasks_is_a_recv_tensor_under_its_hop(start_cluster: Start) -> None:
    cluster = start_cluster(workers(2), devices=cpus_of(2, 2))
    run(cluster, 2, 2)
    calls = [s for s in cluster.spans("rpc.client") if s.name == "RecvTensor"]
    if not calls:  # near: the same hops without a wire
        assert len(cluster.spans("collective.hop")) == 4
        return
    hops = {hop.span: hop for hop in cluster.spans("collective.hop")}
    pulled = [call for call in calls if call.parent in hops]
    assert len(pulled) == len(hops) == 4
    for call in pulled:
        assert call.num_bytes == hops[call.parent].num_bytes == 20
        assert call.key == hops[call.parent].key
    (told,) = (s for s in cluster.spans("rpc.server") if s.name == "CompleteInstance")
    (asked,) = (s for s in cluster.spans("rpc.client") if s.name == "CompleteInstance")
    assert told.parent == asked.span


def test_a_straggler_is_seen_as_the_wait_of_the_others_and_not_its_own() -> None:
    times = [1_000_000, 21_000_000, 0, 2_000_000]
    spans = arrived(times)
    waits = {span.attributes[RANK]: span.attributes["vizdist.wait_ns"] for span in spans}
    assert waits == {rank: max(times) - time for rank, time in enumerate(times)}


def arrived(times: list[int]) -> list[SpanData]:
    """The spans of an all-reduce to which ranks come at these times, by a clock of its own."""
    clock = FakeClock()
    arrivals = Arrivals(clock, times)
    ranks = len(times)
    with running_cluster(
        "near", workers(1), devices=cpus_of(ranks, 1), clock=clock, lookup=arrivals.lookup
    ) as cluster:
        graph, sums = reducing(devices_of(ranks, 1), [[4]] * ranks)
        cluster.session(delayed(graph)).run(sums, {f"x{r}:0": torch.ones(4) for r in range(ranks)})
        return cluster.spans("collective.all_reduce")
