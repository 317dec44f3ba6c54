"""What a trace tells of conds and loops: who was dead, which iteration of which frame, and when."""

import json
import threading
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch

from tests.clusters import GrpcTasks, TestCluster, running_cluster
from tests.fakes import SpanData
from tests.golden_cases import GOLDEN
from tests.runtime.graphs import CLUSTER, PS_0
from tests.runtime.loops import choice, doubling, table
from tests.runtime.test_control_flow import count, pred
from tracer.model.graph import Graph, Input, Node
from tracer.model.graph_builder import GraphBuilder
from tracer.model.graph_json import read_graph_file
from tracer.model.step import RendezvousKey
from tracer.model.trace_folder import Flag
from tracer.ops.kernel import Done, Kernel, OpContext, OpDef
from tracer.ops.registry import lookup
from tracer.record.keys import ITERATIONS

Start = Callable[..., TestCluster]


def place(span: SpanData) -> tuple[object, ...]:
    """Which loop a span was in, by all that is said of it."""
    names = ("vizdist.frame.name", "vizdist.frame.id", "vizdist.iteration")
    return tuple(span.attributes.get(name) for name in names)


def test_what_was_not_taken_is_recorded_as_dead_and_takes_no_time(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    cluster.session(choice()).run("out:0", pred(True))
    ops = {span.name: span for span in cluster.spans("op.run")}
    assert ops["cond/negated"].flags & Flag.DEAD
    assert ops["cond/negated"].start == ops["cond/negated"].end
    assert not ops["cond/doubled"].flags & Flag.DEAD
    recvs = [s for s in cluster.spans("rendezvous.recv") if s.flags & Flag.DEAD]
    sends = [s for s in cluster.spans("rendezvous.send") if s.flags & Flag.DEAD]
    assert {s.key for s in sends} == {r.key for r in recvs}
    assert len(sends) >= 2  # x to the branch that is not taken, and what it would have given
    assert not any(span.num_bytes for span in (*sends, *recvs))


def edge(name: str) -> str:
    """Without the number that each program counts for itself."""
    return name.split("_", 2)[2] if name.startswith("edge_") else name


def test_a_step_of_a_loop_has_the_transfers_of_tensorflows() -> None:
    """golden/e_rendezvous.json: every Send and Recv kernel of vi_while, by frame and iteration."""
    told = json.loads((GOLDEN / "e_rendezvous.json").read_text())
    (kernels,) = (value for name, value in told.items() if name.startswith("keys_of_one"))
    expected = Counter(
        (event["kernel"], edge(event["edge"]), int(event["frame"]), event["iteration"])
        for event in kernels["events"]
    )
    file = read_graph_file(GOLDEN / "vi_while__grpc.json")
    with running_cluster("near", file.cluster) as cluster:
        session = cluster.session(file.graph, file.client_device.task_name)
        assert session.run("out:0").item() == 8.0
        nodes = [
            ("Send" if span.kind == "rendezvous.send" else "Recv", RendezvousKey.parse(span.key))
            for span in (*cluster.spans("rendezvous.send"), *cluster.spans("rendezvous.recv"))
            if "vizdist.node" in span.attributes  # not the client's own end
        ]
    got = Counter((kind, edge(key.edge_name), key.frame, key.iteration) for kind, key in nodes)
    assert got == expected
    assert Counter(kind for kind, _ in nodes) == {"Send": 18, "Recv": 17}


def test_ops_transfers_and_control_loops_say_where_they_ran(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    cluster.session(doubling(body_at=PS_0)).run("s:0", count(3))
    ops = cluster.spans("op.run")
    name = "loop/while_context"
    (number,) = {str(place(span)[1]) for span in ops if place(span)[1]}
    doubled = [span for span in ops if span.name == "loop/doubled"]
    assert [(*place(s), bool(s.flags & Flag.DEAD)) for s in doubled] == [
        (name, number, 0, False),
        (name, number, 1, False),
        (name, number, 2, False),
        (name, number, 3, True),  # the predicate was false
    ]
    for span in (*cluster.spans("rendezvous.send"), *cluster.spans("rendezvous.recv")):
        in_loop = place(span)[0] is not None
        assert span.key.endswith(f";{number}:{place(span)[2]}" if in_loop else ";0:0")
    loops = [span for span in ops if span.name.startswith("_cloop")]
    turns = Counter((span.task, place(span)[2], span.attributes["vizdist.op"]) for span in loops)
    tasks = {task for task, _, _ in turns}
    assert "ps:0" in tasks
    for task in tasks:
        for op in ("Merge", "Switch", "NextIteration"):
            assert [turns[task, i, op] for i in range(5)] == [1, 1, 1, 1, 0]
        assert turns[task, None, "Enter"] == 1


def test_frames_and_iterations_lie_in_one_another(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    cluster.session(table()).run("sum:0", count(3))
    frames, iterations = cluster.spans("frame.run"), cluster.spans("iteration.run")
    by_id = {span.span: span for span in (*frames, *iterations, *cluster.spans("partition.run"))}
    of_worker = [frame for frame in frames if frame.task == "worker:0"]
    outer = [f for f in of_worker if f.attributes["vizdist.frame.name"] == "outer/while_context"]
    inner = [f for f in of_worker if f not in outer]
    assert [f.attributes["vizdist.iterations"] for f in outer] == [4]
    assert sorted(f.attributes["vizdist.iterations"] for f in inner) == [1, 1, 2, 3]
    assert all(by_id[f.parent].kind == "iteration.run" for f in inner)
    assert all(by_id[f.parent].kind == "partition.run" for f in outer)
    for iteration in iterations:
        assert by_id[iteration.parent].kind == "frame.run"
        assert place(by_id[iteration.parent])[:2] == place(iteration)[:2]


class Slow:
    """`Mul` waits until as many of it wait as are wanted; then all of them go on."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.most = 0
        self._waiting: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def lookup(self, name: str) -> OpDef:
        return OpDef(name, self.bind, is_async=True) if name == "Mul" else lookup(name)

    def bind(self, _node: Node, _context: OpContext) -> Kernel:
        def mul(done: Done, x: torch.Tensor, _: torch.Tensor) -> None:
            with self._lock:
                self._waiting.append(lambda: done(x))
                self.most = max(self.most, len(self._waiting))
                if len(self._waiting) < self.wanted:
                    return
                ready, self._waiting = self._waiting, []
            for go_on in ready:
                go_on()

        return mul


def busiest(spans: list[SpanData]) -> int:
    """How many of the spans overlapped at most."""
    moments = sorted([(s.start, 1) for s in spans] + [(s.end, -1) for s in spans])
    running = most = 0
    for _, step in moments:
        running += step
        most = max(most, running)
    return most


@pytest.mark.parametrize("width", [1, 4, 10])
def test_as_many_iterations_overlap_as_may(start_cluster: Start, width: int) -> None:
    """Each iteration has work that the next one does not wait for."""
    slow = Slow(width)
    cluster = start_cluster(CLUSTER, lookup=slow.lookup, step_timeout_s=20)
    cluster.session(side_work(width, times=40)).run("end")
    iterations = cluster.spans("iteration.run")
    assert slow.most == width
    assert busiest(iterations) == width
    assert len(iterations) == 41


def test_where_one_iteration_runs_at_a_time_all_but_the_first_are_deferred(
    start_cluster: Start,
) -> None:
    cluster = start_cluster(CLUSTER)
    cluster.session(doubling(parallel_iterations=1)).run("s:0", count(5))
    iterations = cluster.spans("iteration.run")
    deferred = {s.attributes["vizdist.iteration"]: s.flags & Flag.DEFERRED for s in iterations}
    assert [bool(deferred[i]) for i in range(6)] == [False, *[True] * 5]


def side_work(parallel_iterations: int, times: int) -> Graph:
    """`i` counts; what is made of each `i` beside that is read by nobody before the end."""
    b = GraphBuilder()
    with b.device("/job:worker/task:0"):

        def body(i: Input, _: Input) -> list[Input]:
            return [b.op("AddV2", i, b.const(1, "int32"), T="int32"), b.op("Mul", i, i, T="int32")]

        i, side = b.while_loop(
            lambda i, _: b.op("Less", i, b.const(times, "int32"), T="int32"),
            body,
            [b.const(0, "int32"), b.const(0, "int32")],
            parallel_iterations=parallel_iterations,
        )
        b.op("AddV2", i, side, name="end", T="int32")
    return b.graph()


def test_iterations_end_in_order(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    cluster.session(doubling(body_at=PS_0)).run("s:0", count(20))
    for task in ("ps:0", "worker:0"):
        spans = [s for s in cluster.spans("iteration.run") if s.task == task]
        spans.sort(key=lambda s: int(s.attributes["vizdist.iteration"]))
        assert len(spans) == 21
        assert all(one.end <= other.end for one, other in pairwise(spans))


def test_a_recorded_loop_tells_a_key_for_many_iterations_at_once(start_cluster: Start) -> None:
    """Each task knows as many texts as there are keys in the graph, however long the loop."""
    cluster = start_cluster(CLUSTER)
    session = cluster.session(doubling(body_at=PS_0))
    session.run("s:0", count(3))
    recorders = [worker.env.recorder for worker in cluster.workers.values()]
    before = [len(recorder._sites._keys) for recorder in recorders]
    session.run("s:0", count(2 * ITERATIONS))
    assert [len(recorder._sites._keys) for recorder in recorders] == before
    last = [s for s in cluster.spans("rendezvous.recv") if s.key.endswith(f":{2 * ITERATIONS}")]
    assert len(last) >= 2
    assert all(s.attributes["vizdist.iteration"] == 2 * ITERATIONS for s in last)


@pytest.mark.parametrize("detail", ["step", "rpc"])
def test_a_loop_whose_ops_are_not_recorded_leaves_no_spans_of_its_own(
    start_cluster: Start, detail: str
) -> None:
    cluster = start_cluster(CLUSTER, detail=detail)
    assert cluster.session(doubling(body_at=PS_0)).run("s:0", count(3)).item() == 8.0
    for kind in ("op.run", "frame.run", "iteration.run", "rendezvous.recv"):
        assert not cluster.spans(kind)
    rpcs = [span for span in cluster.spans("rpc.client") if span.name == "RecvTensor"]
    assert bool(rpcs) == (detail == "rpc" and isinstance(cluster.tasks, GrpcTasks))
