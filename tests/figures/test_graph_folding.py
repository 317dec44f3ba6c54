"""Which nodes share a tile, what one may open or fold, and what their edges become."""

from tests.figures.test_graph_stage import PS, WORKER, row
from tracer.model.graph_table import NodeRow
from vizdist.analysis.node_measures import NOTHING_MEASURED, Measured, StepMeasures
from vizdist.analysis.scopes import group_id
from vizdist.figures.graph_facts import BundleFacts, facts_of
from vizdist.figures.graph_folding import Choice, FoldNode, fold, outer_scopes
from vizdist.figures.graph_stage import read_stage
from vizdist.figures.partitioned_graph import graph_payload


def fold_nodes(count: int, kind: str = "compute") -> list[FoldNode]:
    return [FoldNode(f"net/layer{i // 4}/n{i}", "d", "forward", kind, i) for i in range(count)]


def test_small_graphs_do_not_fold() -> None:
    groups, _ = fold(fold_nodes(20))
    assert [group.members for group in groups] == [(f"net/layer{i // 4}/n{i}",) for i in range(20)]


def test_large_graphs_fold_into_scopes_that_can_be_opened() -> None:
    nodes = fold_nodes(80)
    groups, _ = fold(nodes)
    assert len(groups) == 20
    opened, _ = fold(nodes, Choice(opened=frozenset({groups[0].id})))
    assert len(opened) == 23
    assert sorted(n for group in opened for n in group.members) == sorted(n.id for n in nodes)


def test_a_scope_of_a_small_graph_can_be_folded_and_is_whole_again_without_the_choice() -> None:
    nodes = fold_nodes(20)
    name = group_id("net", "d", "forward")
    (group,), _ = fold(nodes, Choice(folded=frozenset({name})))
    assert (group.id, len(group.members)) == (name, 20)
    assert fold(nodes, Choice())[0] == fold(nodes)[0]


def test_an_opened_scope_shows_the_scopes_inside_it_folded() -> None:
    names = [f"blocks/{i // 40}/{'qkvo'[i // 10 % 4]}/n{i}" for i in range(4000)]
    nodes = [FoldNode(name, "d", "forward", "compute", i) for i, name in enumerate(names)]
    groups, depth = fold(nodes)
    assert (depth, len(groups)) == (2, 100)
    opened, _ = fold(nodes, Choice(opened=frozenset({groups[3].id})))
    inside = [group.scope for group in opened if group.scope.startswith("blocks/3/")]
    assert inside == [f"blocks/3/{part}" for part in "qkvo"]
    within = outer_scopes(nodes, opened)
    assert {within[group.id] for group in opened if group.scope in inside} == {groups[3].id}


def test_variables_reads_and_updates_fold_with_their_like() -> None:
    kinds = ("variable", "read", "update")
    nodes = [
        FoldNode(f"layer{i}/{kind}{j}", "d", "read", kind, 100 * i + j)
        for i in range(9)
        for j in range(4)
        for kind in kinds
    ]
    groups, _ = fold(nodes)
    assert len(groups) == 9 * 3
    assert all(len(group.members) == 4 for group in groups)
    few, _ = fold([node for node in nodes if node.id < "layer2"])
    assert len(few) == 2 * 3 * 4


def folded_pairs() -> tuple[dict[str, list[NodeRow]], Choice]:
    """Four variables of one layer go to a worker; the layer is folded on both sides."""
    rows = []
    for i in range(4):
        name = f"fc/v{i}"
        key = {"tensor_name": f"edge_{i}", "send_device": PS, "recv_device": WORKER}
        rows += [
            row(name, "VarHandleOp", device=PS),
            row(f"{name}/Read", "ReadVariableOp", name, device=PS),
            row(f"s{i}", "_Send", f"{name}/Read", device=PS, **key, edge_kind="data"),
            row(f"r{i}", "_Recv", **key, edge_kind="data"),
            row(f"fc/mm{i}", "MatMul", f"r{i}", *([f"fc/mm{i - 1}"] if i else [])),
        ]
    folded = {group_id("fc", PS, "reads"), group_id("fc", WORKER, "forward")}
    return {"device": rows}, Choice(folded=frozenset(folded))


def test_pairs_between_folded_scopes_are_one_wire_that_holds_them_all() -> None:
    stages, choice = folded_pairs()
    waits = {f"r{i}": Measured(time=9, wait=i, bytes=10 * i, runs=1) for i in range(4)}
    payload = graph_payload(stages, "device", StepMeasures(waits), choice)
    (wire,) = payload["wires"]
    assert [part["recv"] for part in wire["parts"]] == ["r0", "r1", "r2", "r3"]
    assert (wire["bytes"], wire["wait"], wire["label"]) == (24 + 60, 3, "fc")
    assert [len(graph_payload(stages, "device")["wires"])] == [4]
    tags = {(link["src"][:1], link["dst"][:1]): link["count"] for link in payload["links"]}
    assert (tags["f", ">"], tags["<", "f"]) == (4, 4)


def test_a_bundle_of_pairs_tells_what_it_holds() -> None:
    stages, choice = folded_pairs()
    waits = {f"r{i}": Measured(time=9, wait=i, bytes=10 * i, runs=1) for i in range(4)}
    (wire,) = graph_payload(stages, "device", NOTHING_MEASURED, choice)["wires"]
    graph = read_stage("device", stages["device"])
    found = facts_of(graph, stages, StepMeasures(waits), [wire["id"]])
    assert isinstance(found, BundleFacts)
    assert (found.source, found.target, found.wait) == ("fc", "fc", 3)
    assert [pair.recv for pair in found.pairs] == ["r3", "r0", "r2", "r1"]


def test_a_tensor_that_many_nodes_of_a_scope_read_goes_there_once() -> None:
    split = row("split", "Split")._replace(
        specs=(("float32", (250,)), ("float32", (7,))), bytes=1000 + 28
    )
    readers = [row(f"fc/mm{i}", "MatMul", "split") for i in range(3)]
    choice = Choice(folded=frozenset({group_id("fc", WORKER, "forward")}))

    def held(*nodes: NodeRow) -> list[tuple[int, int]]:
        links = graph_payload({"device": nodes}, "device", choice=choice)["links"]
        return [(link["count"], link["bytes"]) for link in links]

    assert held(split, *readers) == [(3, 1000)]
    assert held(split, *readers, row("fc/last", "MatMul", "split:1")) == [(4, 1028)]


def test_before_the_cut_only_what_is_read_goes_over() -> None:
    split = row("split", "Split", device=PS)._replace(
        specs=(("float32", (250,)), ("float32", (7,))), bytes=1000 + 28
    )
    rows = [one._replace(partition="") for one in (split, row("a", "MatMul", "split:1"))]
    (pair,) = read_stage("placed", rows).pairs
    assert pair.num_bytes == 28


def fifty_layers() -> list[NodeRow]:
    """2,000 nodes in 50 layers on four devices, three inputs each."""
    devices = [f"/job:worker/replica:0/task:{i}/device:CPU:0" for i in range(4)]
    names = [f"net/layer{i // 40}/block{i // 8 % 5}/op:{i},a" for i in range(2000)]
    nearest = [[names[i - j] for j in (4, 8, 12) if i >= j] for i in range(2000)]
    return [row(name, "MatMul", *nearest[i], device=devices[i % 4]) for i, name in enumerate(names)]


def test_fifty_layers_on_four_devices_open_as_a_tile_each_and_unfold_to_every_node() -> None:
    stages = {"device": fifty_layers()}
    payload = graph_payload(stages, "device")
    assert len(payload["tiles"]) == 4 * 50
    assert sum(tile["count"] for tile in payload["tiles"]) == 2000
    every = frozenset(tile["id"] for tile in payload["tiles"])
    once = graph_payload(stages, "device", choice=Choice(opened=every))
    inside = frozenset(tile["id"] for tile in once["tiles"])
    twice = graph_payload(stages, "device", choice=Choice(opened=every | inside))
    assert {tile["count"] for tile in twice["tiles"]} == {1}
    assert sorted(tile["id"] for tile in twice["tiles"]) == sorted(r.name for r in stages["device"])
    assert graph_payload(stages, "device") == payload
