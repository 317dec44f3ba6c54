"""Segments: what needs the same recvs runs together, early, and lets go of what it read."""

import gc
import weakref
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.clusters import running_cluster
from tests.runtime.graphs import CLUSTER, PS_0
from tracer.model.graph import Graph, Input, Node, Partition
from tracer.model.graph_builder import GraphBuilder
from tracer.ops.kernel import Kernel, OpContext, OpDef
from tracer.ops.registry import lookup
from tracer.runtime.devices import make_devices
from tracer.runtime.prepared import PreparedPartition, prepare
from tracer.runtime.running_order import in_running_order
from tracer.runtime.segments import cut_into_segments
from tracer.runtime.session import DirectSession
from tracer.runtime.worker_env import WorkerEnv
from tracer.strategies.collective_nodes import CollectiveGroup, CollectiveKeys

CPU = str(PS_0.device())
ENV = WorkerEnv(PS_0, make_devices(PS_0, ["cpu:0"]))


def transfer(kind: str, name: str, incarnation: int = 1) -> dict[str, Any]:
    """Attributes of a `_Send` or `_Recv` between ps:0 and worker:0."""
    here, there = CPU, "/job:worker/replica:0/task:0/device:CPU:0"
    send, recv = (here, there) if kind == "_Send" else (there, here)
    return {
        "tensor_name": name,
        "send_device": send,
        "recv_device": recv,
        "send_device_incarnation": incarnation,
        "edge_kind": "data",
    }


def parameter_server() -> Graph:
    """Two variables, read and sent; two gradients and one rate come; two updates; one last op."""
    b = GraphBuilder()
    rate = b.op("_Recv", name="rate", **transfer("_Recv", "rate"))
    updates = []
    for i in "12":
        variable = b.op("VarHandleOp", name=f"v{i}", dtype="float32", shape=[2])
        read = b.op("ReadVariableOp", variable, name=f"read{i}", dtype="float32")
        b.op("_Send", read, name=f"send{i}", **transfer("_Send", f"r{i}"))
        gradient = b.op("_Recv", name=f"g{i}", **transfer("_Recv", f"g{i}"))
        op = "ResourceApplyGradientDescent"
        updates.append(b.op(op, variable, rate, gradient, name=f"update{i}", T="float32"))
    with b.control_dependencies(updates):
        b.op("NoOp", name="train")
    return b.graph()


def prepared(graph: Graph) -> PreparedPartition:
    placed = Graph(node.with_(device=CPU) for node in graph.nodes)
    bind = lambda node, op, context: op.bind(node, context)  # noqa: E731
    return prepare(ENV, Partition(CPU, placed), bind, "h", "g")


def test_a_parameter_server_reads_and_sends_first_and_applies_each_gradient_as_it_comes() -> None:
    nodes = prepared(parameter_server()).nodes
    cut = cut_into_segments(nodes)
    told = [
        ([nodes[at].name for at in segment.nodes], segment.num_needs) for segment in cut.segments
    ]
    assert told == [
        (["v1", "read1", "send1", "v2", "read2", "send2"], 0),
        (["update1"], 3),  # the rate, its gradient, the segment that has the variable
        (["update2"], 3),
        (["train"], 2),
    ]
    waiting = {nodes[at].name: segments for at, segments in cut.waiting.items()}
    assert waiting == {"rate": (1, 2), "g1": (1,), "g2": (2,)}


def queues() -> Graph:
    """What is taken from one queue goes into another, and so does a constant."""
    b = GraphBuilder()
    form: dict[str, Any] = {"component_types": ["float32"], "shapes": [[]]}
    first, second = (b.op("FIFOQueueV2", name=name, capacity=2, **form) for name in "ab")
    taken = b.op("QueueDequeueV2", first, name="take", **form)
    twice = b.op("AddV2", taken, taken, name="twice", T="float32")
    put = b.op("QueueEnqueueV2", second, twice, name="put")
    one = b.op("Neg", b.const(1.0, name="c"), name="one", T="float32")
    b.op("QueueEnqueueV2", first, one, name="give")
    with b.control_dependencies([put]):
        b.op("NoOp", name="end")
    return b.graph()


def test_an_asynchronous_kernel_is_begun_by_a_segment_and_awaited_by_others() -> None:
    nodes = prepared(queues()).nodes
    cut = cut_into_segments(nodes)
    told = [
        (sorted(nodes[at].name for at in segment.nodes), segment.num_needs)
        for segment in cut.segments
    ]
    assert told == [
        (["a", "take"], 0),
        (["b", "c", "give", "one"], 1),
        (["put", "twice"], 2),  # what was taken, and the segment that has the queue
        (["end"], 1),
    ]
    waiting = {nodes[at].name: segments for at, segments in cut.waiting.items()}
    assert waiting == {"take": (2,), "give": (), "put": (3,)}


def test_a_segment_ends_where_it_has_begun_asynchronous_kernels() -> None:
    b = GraphBuilder()
    form: dict[str, Any] = {"component_types": ["float32"], "shapes": [[]]}
    queue = b.op("FIFOQueueV2", name="queue", capacity=2, **form)
    for name in ("take", "more"):
        b.op("QueueDequeueV2", queue, name=name, **form)
    first = b.op("Neg", b.op("Neg", b.const(1.0, name="c"), name="n1", T="float32"), name="n2")
    b.op("Neg", first, name="n3", T="float32")
    nodes = prepared(b.graph()).nodes
    cut = cut_into_segments(nodes)
    told = [([nodes[at].name for at in one.nodes], one.successors) for one in cut.segments]
    assert told == [(["queue", "take", "more"], ()), (["c", "n1", "n2", "n3"], ())]


def test_what_is_packed_for_a_collective_is_given_before_all_else_is_computed() -> None:
    b = GraphBuilder()
    x = b.op("Neg", b.const([1.0, 2.0], name="c"), name="x", T="float32")
    first = b.op("Neg", x, name="first", T="float32")
    second = b.op("Neg", first, name="second", T="float32")
    shape = b.const([2], "int32", name="shape")
    flat = b.op("Reshape", first, shape, name="flat", T="float32")
    CollectiveGroup(b, CollectiveKeys(), [CPU]).all_reduce([flat], of="first")
    b.op("Neg", second, name="third", T="float32")
    graph = b.graph()
    names = in_running_order(graph, {node.name: lookup(node.op) for node in graph.nodes})
    [given] = [name for name in names if graph[name].op == "CollectiveReduceV2"]
    assert names.index("first") < names.index("flat") < names.index(given) < names.index("second")


def test_a_value_is_let_go_by_the_segment_that_reads_it_last() -> None:
    nodes = prepared(parameter_server()).nodes
    cut = cut_into_segments(nodes)
    value = {node.name: node.outputs[0] for node in nodes if node.outputs}
    first, second = cut.segments[1:3]
    assert value["g1"] in first.frees
    assert value["v2"] in second.frees
    assert value["rate"] not in first.frees | second.frees  # neither comes surely after the other


def test_names_and_keys_of_a_graph_never_get_into_the_code() -> None:
    hostile = "x'); raise SystemExit('''\n#"
    b = GraphBuilder()
    value = b.op("_Recv", name=hostile, **transfer("_Recv", hostile))
    negated = b.op("Neg", value, name=f"{hostile}2", T="float32")
    b.op("_Send", negated, name=f"{hostile}3", **transfer("_Send", hostile))
    cut = cut_into_segments(prepared(b.graph()).nodes)
    assert len(cut.segments) == 1
    session = DirectSession(_direct(hostile))
    assert session.run(f"{hostile}:0").item() == 2.0
    session.close()


def _direct(name: str) -> Graph:
    b = GraphBuilder()
    b.const(2.0, name=name)
    return b.graph()


class Watched:
    """Keeps weak references to what `Neg` returned."""

    def __init__(self) -> None:
        self.alive: list[int] = []
        self.refs: list[weakref.ref[torch.Tensor]] = []

    def lookup(self, name: str) -> OpDef:
        op = lookup(name)
        return OpDef(name, self.bind, infer=op.infer) if name == "Neg" else op

    def bind(self, node: Node, context: OpContext) -> Kernel:
        def neg(x: torch.Tensor) -> torch.Tensor:
            self.alive.append(sum(ref() is not None for ref in self.refs))
            value = torch.neg(x)
            self.refs.append(weakref.ref(value))
            return value

        return neg


@pytest.mark.parametrize("executor", ["generated", "queue"])
def test_a_chain_holds_two_values_at_a_time(executor: str) -> None:
    b = GraphBuilder()
    with b.device("/job:worker/task:0"):
        value = b.const([1.0], name="c")
        for i in range(8):
            value = b.op("Neg", value, name=f"n{i}", T="float32")
    watched = Watched()
    with running_cluster("near", CLUSTER, executor=executor, lookup=watched.lookup) as cluster:
        session = cluster.session(b.graph())
        watched.alive.clear()
        watched.refs.clear()
        session.run("n7:0")
        assert max(watched.alive) <= 1
        gc.collect()
        assert not any(ref() is not None for ref in watched.refs)


@st.composite
def spread_graphs(draw: st.DrawFn) -> tuple[Graph, dict[str, torch.Tensor]]:
    """A random graph over three tasks, and what each node computes."""
    b = GraphBuilder()
    expected: dict[str, torch.Tensor] = {}
    made: list[Input] = []
    devices = ("/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1")
    for number in range(draw(st.integers(2, 14))):
        with b.device(draw(st.sampled_from(devices))):
            if not made or (draw(st.booleans()) and number < 3):
                made.append(b.const([float(number)], name=f"n{number}"))
                expected[f"n{number}"] = torch.tensor([float(number)])
                continue
            left, right = draw(st.sampled_from(made)), draw(st.sampled_from(made))
            before = [draw(st.sampled_from(made))] if draw(st.booleans()) else []
            op, torch_op = draw(st.sampled_from([("AddV2", torch.add), ("Sub", torch.sub)]))
            with b.control_dependencies(before):
                made.append(b.op(op, left, right, name=f"n{number}", T="float32"))
            expected[f"n{number}"] = torch_op(expected[left.node], expected[right.node])
    return b.graph(), expected


@settings(max_examples=25, deadline=None)
@given(spread_graphs(), st.data())
def test_both_executors_compute_what_the_graph_says(
    spread: tuple[Graph, dict[str, torch.Tensor]], data: st.DataObject
) -> None:
    graph, expected = spread
    names = data.draw(st.lists(st.sampled_from(sorted(expected)), min_size=1, unique=True))
    for executor in ("generated", "queue"):
        with running_cluster("near", CLUSTER, executor=executor, trace=False) as cluster:
            values = cluster.session(graph).run([f"{name}:0" for name in names])
        assert [v.tolist() for v in values] == [expected[name].tolist() for name in names]
