"""Placement by a simulated step: where would each node end first?"""

import math
from dataclasses import replace
from typing import Any

import pytest

from tests.golden_cases import CONTROL_FLOW_CASES, GOLDEN
from tracer.model.cluster import TaskName
from tracer.model.graph import Graph, Input
from tracer.model.graph_builder import GraphBuilder
from tracer.model.graph_json import read_graph_file
from tracer.ops.registry import lookup
from tracer.passes.cost_model import Costs, CostsError
from tracer.passes.cost_placer import place_by_cost, predict_step_ns
from tracer.passes.describe import cut_graph_file
from tracer.passes.place import place
from tracer.passes.placer import Placer

HERE, THERE = TaskName("worker", 0).device(), TaskName("worker", 1).device()
PS = TaskName("ps", 0).device()
US = 1_000  #: ns


def costs(far_ns: int = 10 * US, **nodes_ns: int) -> Costs:
    """An op of which nothing is said takes no time."""
    ops = dict.fromkeys(("Neg", "AddV2", "Const", "Placeholder", "NoOp"), 0)
    return Costs({"CPU": nodes_ns}, {"CPU": ops}, far_ns=far_ns)


def two_chains() -> GraphBuilder:
    """x → a1 → a2 and x → b1 → b2, joined by `sum`; x is here."""
    b = GraphBuilder()
    with b.device(str(HERE)):
        x = b.placeholder([2], name="x")
    ends = []
    for chain in "ab":
        middle = b.op("Neg", x, name=f"{chain}1", T="float32")
        ends.append(b.op("Neg", middle, name=f"{chain}2", T="float32"))
    b.op("AddV2", *ends, name="sum", T="float32")
    return b


def placed(b: GraphBuilder, by: Costs) -> Graph:
    return place_by_cost(b.graph(), (PS, HERE, THERE), HERE, lookup, by)


def devices(graph: Graph) -> dict[str, str]:
    return {node.name: node.device for node in graph.nodes}


SLOW = {"a1": 50 * US, "a2": 50 * US, "b1": 50 * US, "b2": 50 * US}


def test_work_is_spread_where_transfers_are_cheap() -> None:
    graph = placed(two_chains(), costs(10 * US, **SLOW))
    found = devices(graph)
    assert found["a1"] == found["a2"] == str(HERE)
    assert found["b1"] == found["b2"] == str(PS)
    assert {node.reason for node in graph.nodes} == {"requested", "cost"}


def test_work_stays_together_where_transfers_are_dear() -> None:
    found = devices(placed(two_chains(), costs(500 * US, **SLOW)))
    assert set(found.values()) == {str(HERE)}


def test_the_prediction_is_the_end_of_the_last_node() -> None:
    by = costs(10 * US, **SLOW)
    spread, together = placed(two_chains(), by), place(two_chains().graph(), (HERE,), HERE, lookup)
    two_floats = 8  # bytes, at one a ns
    assert predict_step_ns(spread, by) == 10 * US + two_floats + 100 * US
    assert predict_step_ns(together, by) == 200 * US


def test_requests_classes_and_variables_bind_this_placer_too() -> None:
    b = two_chains()
    with b.device("/job:ps"):
        v = b.op("VarHandleOp", name="v", dtype="float32", shape=[2], shared_name="v")
    read = b.op("ReadVariableOp", v, name="read", dtype="float32")
    b.op("Neg", read, name="beside", T="float32", _class=["loc:@v"])
    graph = placed(b, costs(0, read=90 * US, beside=90 * US))
    assert {graph[n].device for n in ("v", "read", "beside")} == {str(PS)}
    assert [graph[n].reason for n in ("v", "read", "beside")] == [
        "requested",
        "resource",
        "colocated",
    ]


def test_a_source_goes_with_its_first_consumer() -> None:
    b = two_chains()
    constant = b.const([1.0, 2.0], name="c")
    b.op("AddV2", Input("b1"), constant, name="uses", T="float32")
    graph = placed(b, costs(10 * US, **SLOW))
    assert graph["c"].device == graph["uses"].device != str(HERE)


def test_what_is_measured_of_a_node_counts_more_than_of_its_op() -> None:
    node = two_chains().graph()["a1"]
    both = Costs({"CPU": {"a1": 7}}, {"CPU": {"Neg": 9}})
    assert both.node_ns(node, HERE, (), ()) == 7
    assert Costs({}, both.ops).node_ns(node, HERE, (), ()) == 9


def test_an_estimate_grows_with_the_work() -> None:
    b = GraphBuilder()
    for size in (10, 1_000):
        x = b.placeholder([size, size], name=f"x{size}")
        b.op("MatMul", x, x, name=f"m{size}", T="float32")
    times = []
    for size in (10, 1_000):
        part = Graph(node for node in b.graph().nodes if node.name.endswith(str(size)))
        alone = place_by_cost(part, (HERE,), HERE, lookup, Costs())
        times.append(predict_step_ns(alone, Costs()))
    small, large = times
    assert small < 20 * US
    assert large > 100_000 * US


@pytest.mark.parametrize("case", CONTROL_FLOW_CASES)
def test_control_flow_can_be_cut_however_it_was_placed(case: str) -> None:
    given = read_graph_file(GOLDEN / f"{case}__grpc.json")
    free = Graph(node.with_(requested_device="") for node in given.graph.nodes)
    unbound = replace(given, graph=free)
    graph, parts = cut_graph_file(unbound, placer=Placer("cost", Costs(far_ns=0)))
    assert len(parts) > 1
    assert predict_step_ns(graph, Costs()) > 0


@pytest.mark.parametrize(
    ("raw", "hint"),
    [
        ([], "costs are an object with any of nodes, ops, near_ns, far_ns, bytes_per_ns, step_ns"),
        ({"node": {}}, "costs are an object"),
        ({"nodes": {"MatMul": 3}}, 'nodes must be a table such as {"CPU": {"MatMul": 12000}}'),
        ({"ops": {"CPU": {"MatMul": -3}}}, "ops must be a table"),
        ({"far_ns": "long"}, r"far_ns must be a number from 0 to 1e\+18; it is 'long'"),
        ({"near_ns": True}, "near_ns must be a number"),
        ({"near_ns": math.nan}, "near_ns must be a number"),
        ({"far_ns": 10**400}, "far_ns must be a number"),
        ({"bytes_per_ns": 0}, r"bytes_per_ns must be a number from 1e-09 to 1e\+18; it is 0"),
        ({"bytes_per_ns": 1e-320}, "bytes_per_ns must be a number"),
    ],
)
def test_costs_of_another_form_are_refused(raw: Any, hint: str) -> None:
    with pytest.raises(CostsError, match=hint):
        Costs.from_json(raw)
