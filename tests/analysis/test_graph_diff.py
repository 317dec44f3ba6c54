"""Two graphs beside each other, checked against set differences that networkx takes."""

import random
from typing import Any

import networkx as nx  # type: ignore[import-untyped]
import pytest

from tracer.model.graph_table import NodeRow
from vizdist.analysis.graph_diff import EdgeKey, NodeKey, PairKey, differing, graph_diff
from vizdist.store.graphs import GraphTable

DEVICES = tuple(f"/job:worker/replica:0/task:{index}/device:CPU:0" for index in range(3))
TITLES = tuple(f"worker:{index} CPU:0" for index in range(3))


def row(name: str, op: str, *inputs: str, device: str = DEVICES[0], **attrs: object) -> NodeRow:
    return NodeRow(name, op, inputs, "", device, "", "", (), 0, "", attrs)


def table(rows: list[NodeRow], cut: list[NodeRow] | None = None) -> GraphTable:
    stages = {"placed": tuple(rows)} | ({"device": tuple(cut)} if cut is not None else {})
    return GraphTable("g", "worker:0", 0, stages)


def drawn(chance: random.Random) -> list[NodeRow]:
    """A random graph whose names many graphs share."""
    names = chance.sample([f"n{number}" for number in range(12)], chance.randint(1, 12))
    rows = []
    for at, name in enumerate(names):
        sources = chance.sample(names[:at], min(at, 2))
        inputs = [f"^{s}" if chance.random() < 0.2 else s for s in sources]
        op, device = chance.choice(("MatMul", "Add")), chance.choice(DEVICES)
        rows.append(row(name, op, *inputs, device=device))
    return rows


def as_networkx(rows: list[NodeRow]) -> Any:
    found = nx.DiGraph()
    places = dict(zip(DEVICES, TITLES, strict=True))
    for one in rows:
        found.add_node((one.name, one.op), device=places[one.device])
    for one in rows:
        found.add_edges_from((text, one.name) for text in one.inputs)
    return found


@pytest.mark.parametrize("seed", range(50))
def test_what_is_in_one_graph_only_is_what_networkx_says(seed: int) -> None:
    chance = random.Random(seed)
    ours = drawn(chance), drawn(chance)
    found = graph_diff([table(rows) for rows in ours])
    first, second = map(as_networkx, ours)
    edges = [set(map(tuple, one.edges)) for one in (first, second)]
    nodes = [{key for key in one.nodes if isinstance(key, tuple)} for one in (first, second)]
    for only, other, place in ((0, 1, 1), (1, 0, 0)):
        assert {k for k, w in found.nodes.items() if w[place] is None} == nodes[only] - nodes[other]
        assert {k for k, w in found.edges.items() if w[place] is None} == edges[only] - edges[other]
    both = nodes[0] & nodes[1]
    moved = {k for k in both if first.nodes[k]["device"] != second.nodes[k]["device"]}
    assert set(found.moved) == moved
    assert found.num_alike == len(both)


def test_a_graph_differs_from_itself_in_nothing() -> None:
    one = table(drawn(random.Random(7)))
    assert graph_diff([one, one]).none
    assert graph_diff([one, one, one]).none


def test_a_node_of_the_same_name_that_does_something_else_is_another_one() -> None:
    found = graph_diff([table([row("y", "MatMul")]), table([row("y", "Add")])])
    assert found.nodes == {
        NodeKey("y", "MatMul"): (TITLES[0], None),
        NodeKey("y", "Add"): (None, TITLES[0]),
    }
    assert not found.moved


def test_a_node_placed_elsewhere_is_told_with_both_places() -> None:
    found = graph_diff([table([row("y", "Add")]), table([row("y", "Add", device=DEVICES[1])])])
    assert found.moved == {NodeKey("y", "Add"): TITLES[:2]}
    assert not found.nodes


def test_the_first_output_is_the_same_with_and_without_its_number() -> None:
    source = row("x", "Const")
    found = graph_diff(
        [table([source, row("y", "Add", "x:0")]), table([source, row("y", "Add", "x")])]
    )
    assert found.none
    found = graph_diff(
        [table([source, row("y", "Add", "x:1")]), table([source, row("y", "Add", "^x")])]
    )
    assert found.edges == {EdgeKey("x:1", "y"): ("", None), EdgeKey("^x", "y"): (None, "")}


def test_what_the_client_feeds_and_fetches_is_no_part_of_the_graph() -> None:
    fed = [row("_arg_x_0_0", "_Arg"), row("y", "Square", "_arg_x_0_0")]
    received = [
        row("_recv_x_0", "_Recv", client_terminated=True), row("y", "Square", "_recv_x_0")
    ]  # fmt: skip
    assert graph_diff([table(fed), table(received)]).none


def test_pairs_are_compared_by_what_crosses_and_not_by_their_numbers() -> None:
    def send(number: int, to: str) -> NodeRow:
        return row(
            f"x_S{number}", "_Send", "x", tensor_name=f"edge_{number}_x", edge_kind="data",
            send_device=DEVICES[0], recv_device=to,
        )  # fmt: skip

    cut = [send(1, DEVICES[1])], [send(9, DEVICES[1]), send(10, DEVICES[2])]
    found = graph_diff([table([], rows) for rows in cut])
    assert found.pairs == {PairKey("x", TITLES[0], TITLES[2], False): (None, "")}


def test_of_three_tables_every_one_is_asked() -> None:
    assert differing([{"a": 1, "b": 2}, {"a": 1}, {"a": 1, "b": 2}]) == {"b": (2, None, 2)}
