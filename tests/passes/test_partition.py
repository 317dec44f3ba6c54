"""The two cuts: what must hold of any graph on any devices."""

from collections import Counter

import pytest
from hypothesis import given, settings

from tests.passes.placed_graphs import DEVICES, SPEC, control_flow_graphs, placed_graphs
from tracer.model.cluster import TaskName
from tracer.model.graph import Graph, GraphError, Input, Node, Partition, TensorSpec
from tracer.model.graph_builder import GraphBuilder
from tracer.passes.control_flow import add_control_loops
from tracer.passes.frames import ROOT, Frames
from tracer.passes.keys import RECVS, SENDS, key_of
from tracer.passes.partition import check_partitions, partition_by_device, partition_by_worker

INCARNATIONS = {str(device): 100 + i for i, device in enumerate(DEVICES)}


def cut(graph: Graph) -> tuple[list[Partition], list[Partition]]:
    by_worker = partition_by_worker(graph, INCARNATIONS)
    by_device = [d for w in by_worker for d in partition_by_device(w.graph, INCARNATIONS)]
    return by_worker, by_device


def nodes_of(partitions: list[Partition]) -> list[Node]:
    return [node for part in partitions for node in part.graph.nodes]


@settings(max_examples=40)
@given(placed_graphs())
def test_each_node_is_in_one_partition_and_keys_pair(graph: Graph) -> None:
    for partitions in cut(graph):
        check_partitions(graph, partitions)


@settings(max_examples=40)
@given(placed_graphs())
def test_a_partition_holds_the_nodes_of_its_place(graph: Graph) -> None:
    by_worker, by_device = cut(graph)
    for part in by_worker:
        assert {n.device.rpartition("/")[0] for n in part.graph.nodes} == {part.place}
    for part in by_device:
        assert {n.device for n in part.graph.nodes} == {part.place}


@settings(max_examples=40)
@given(placed_graphs())
def test_an_output_goes_to_a_partition_once(graph: Graph) -> None:
    for partitions in cut(graph):
        place_of = {node.name: part.place for part in partitions for node in part.graph.nodes}
        recv_place = {key_of(n): place_of[n.name] for n in nodes_of(partitions) if n.op in RECVS}
        sent = Counter(
            (node.inputs[0], recv_place[key_of(node)])
            for node in nodes_of(partitions)
            if node.op in SENDS
        )
        assert all(times == 1 for times in sent.values())


@settings(max_examples=40)
@given(placed_graphs())
def test_only_edges_that_cross_are_sent(graph: Graph) -> None:
    by_worker, _ = cut(graph)
    task = {n.name: n.device.rpartition("/")[0] for n in add_control_loops(graph).nodes}
    crossing = {
        (edge.src, edge.src_port, task[edge.dst])
        for edge in add_control_loops(graph).edges()
        if task[edge.src] != task[edge.dst]
    }
    assert len(crossing) == sum(node.op in SENDS for node in nodes_of(by_worker))


@settings(max_examples=40)
@given(placed_graphs())
def test_all_partitions_together_can_run(graph: Graph) -> None:
    _, partitions = cut(graph)
    senders = {key_of(node): node.name for node in nodes_of(partitions) if node.op in SENDS}
    joined = [
        node.with_(control_inputs=(senders[key_of(node)],)) if node.op in RECVS else node
        for node in nodes_of(partitions)
    ]
    assert len(Graph(joined).topological()) == len(joined)


@settings(max_examples=40)
@given(placed_graphs())
def test_every_node_still_gets_the_same_inputs(graph: Graph) -> None:
    _, partitions = cut(graph)
    nodes = {node.name: node for node in nodes_of(partitions)}
    send_of = {key_of(node): node for node in nodes.values() if node.op in SENDS}

    def origin(output: Input) -> Input:
        node = nodes[output.node]
        return origin(send_of[key_of(node)].inputs[0]) if node.op in RECVS else output

    def waited_for(name: str) -> str:
        node = nodes[name]
        if name in graph:
            return name
        source = origin(node.inputs[0]) if node.inputs else Input(name)
        return waited_for(nodes[source.node].control_inputs[0])

    for node in graph.nodes:
        assert tuple(map(origin, nodes[node.name].inputs)) == node.inputs
        assert tuple(map(waited_for, nodes[node.name].control_inputs)) == node.control_inputs


@settings(max_examples=40)
@given(control_flow_graphs())
def test_every_node_runs_in_the_loop_it_ran_in(graph: Graph) -> None:
    whole, (_, partitions) = Frames(graph), cut(graph)
    for part in partitions:
        frames = Frames(part.graph)
        assert all(frames.of(n) == whole.of(n) for n in part.graph if n in graph)
        for node in part.graph.nodes:
            if node.op in RECVS and frames.of(node.name) != ROOT:
                (start,) = node.control_inputs
                assert part.graph[start].op == "Merge"


def test_three_consumers_on_two_devices_of_a_worker_cost_one_transfer() -> None:
    """TF's own answer: one Send to worker:0, one to worker:1, and a local hop to CPU:1."""
    b = GraphBuilder()
    source = b.const([1.0], name="b")
    where = {"b": DEVICES[0], "c1": DEVICES[2], "c2": DEVICES[2], "c3": DEVICES[3], "d": DEVICES[4]}
    for name in ("c1", "c2", "c3", "d"):
        b.op("Neg", source, name=name, T="float32")
    placed = Graph(node.with_(device=str(where[node.name])) for node in b.graph().nodes)
    by_worker, by_device = cut(placed)
    assert sum(node.op == "_Send" for node in nodes_of(by_worker)) == 2
    assert sum(node.op == "_Send" for node in nodes_of(by_device)) == 3
    hop = next(n for n in nodes_of(by_device) if n.name == "b_S1_G0")
    assert hop.attrs["tensor_name"].endswith("_b_S1")
    recv = next(n for n in nodes_of(by_worker) if n.name == "b_S1")
    assert recv.attrs["recv_device"] == str(DEVICES[2])
    assert recv.attrs["send_device_incarnation"] == INCARNATIONS[str(DEVICES[0])]
    assert recv.specs == (TensorSpec("float32", (1,)),)


def test_a_generated_name_avoids_the_names_of_the_graph() -> None:
    nodes = [
        Node("a", "Const", device=str(DEVICES[0]), specs=(SPEC,)),
        Node("a_S0", "Neg", (Input("a"),), device=str(DEVICES[2])),
    ]
    by_worker, _ = cut(Graph(nodes))
    assert {node.name for node in nodes_of(by_worker)} == {"a", "a_S0", "a_S1", "a_S2"}


def test_an_unknown_incarnation_is_said() -> None:
    nodes = [
        Node("a", "Const", device=str(DEVICES[0]), specs=(SPEC,)),
        Node("b", "Neg", (Input("a"),), device=str(DEVICES[2])),
    ]
    with pytest.raises(GraphError, match=r"incarnation of .*ps.* is unknown"):
        partition_by_worker(Graph(nodes), {str(TaskName("worker", 0).device()): 1})


def test_partitions_that_lost_a_node_are_refused() -> None:
    graph = Graph([Node("a", "NoOp"), Node("b", "NoOp")])
    with pytest.raises(GraphError, match="exactly once"):
        check_partitions(graph, [Partition("/job:ps", Graph([graph["a"]]))])


def test_a_send_without_its_recv_is_refused() -> None:
    nodes = [
        Node("a", "Const", device=str(DEVICES[0]), specs=(SPEC,)),
        Node("b", "Neg", (Input("a"),), device=str(DEVICES[2])),
    ]
    by_worker = partition_by_worker(Graph(nodes), INCARNATIONS)
    alone = [
        Partition(p.place, Graph(n for n in p.graph.nodes if n.op != "_Send")) for p in by_worker
    ]
    with pytest.raises(GraphError, match="pair one to one"):
        check_partitions(Graph(nodes), alone)
