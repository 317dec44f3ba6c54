"""A node through the stages: what was added, out of what, what went and why; loops as scopes."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.figures.golden_stages import client_rows, device_rows, golden
from tests.figures.test_graph_stage import PS, WORKER, ends, row
from tracer.cli import main as tracer
from tracer.model.graph_table import NodeRow
from vizdist.analysis.node_measures import Measured, StepMeasures
from vizdist.analysis.scopes import FRAME, group_id
from vizdist.figures.graph_facts import NodeFacts, PairFacts, ScopeFacts, facts_of
from vizdist.figures.graph_folding import Choice
from vizdist.figures.graph_frames import frames_of
from vizdist.figures.graph_identity import identity_of
from vizdist.figures.graph_stage import read_stage
from vizdist.figures.partitioned_graph import graph_payload, graph_payloads
from vizdist.figures.step_graph import step_graph
from vizdist.store.trace import open_trace

WHILE, NESTED = "vi_while__grpc", "vii_nested_while__grpc"
GPU = WORKER.replace("CPU", "GPU")


def stages_of(case: str) -> dict[str, list[NodeRow]]:
    return {"full": client_rows(case), "device": device_rows(case)}


def fed_step() -> dict[str, list[NodeRow]]:
    """x is fed, y fetched, z needed by nobody."""
    client: dict[str, Any] = {"client_terminated": True}
    full = [row("x", "Placeholder"), row("y", "MatMul", "x"), row("z", "MatMul", "y")]
    pruned = [
        row("_recv_x_0", "_Recv", tensor_name="x:0", **client),
        row("y", "MatMul", "_recv_x_0"),
        row("_send_y_0", "_Send", "y", tensor_name="y:0", **client),
    ]
    return {"full": full, "pruned": pruned}


def test_what_nothing_needs_goes_and_what_is_fed_gives_way_to_the_client() -> None:
    stages = fed_step()
    full = identity_of(read_stage("full", stages["full"]), stages)
    assert full.going == {"x": "fed", "z": "unneeded"}
    pruned = identity_of(read_stage("pruned", stages["pruned"]), stages)
    assert pruned.coming == {"_recv_x_0": "client", "_send_y_0": "client"}
    assert pruned.origins == {"_recv_x_0": "x", "_send_y_0": "y"}
    facts = facts_of(read_stage("full", stages["full"]), stages, StepMeasures(), ["z"])
    assert isinstance(facts, NodeFacts)
    assert facts.going == "unneeded"


def test_everything_in_a_golden_loop_is_the_clients_or_was_added_for_the_cut() -> None:
    stages = stages_of(WHILE)
    graph = read_stage("device", stages["device"])
    found = identity_of(graph, stages)
    client = {node["name"] for node in golden(WHILE)["client_graph"]}
    assert set(graph.tiles) - set(found.coming) <= client
    assert {found.origins[name] for name in found.coming} <= client


def test_a_trace_that_lacks_the_first_stage_says_nothing_of_what_was_added() -> None:
    stages = {"device": device_rows(WHILE)}
    assert identity_of(read_stage("device", stages["device"]), stages).coming == {}


def test_all_of_a_loop_is_one_frame_on_both_of_its_devices() -> None:
    graph = read_stage("device", device_rows(WHILE))
    found = frames_of(graph)
    inside = {n for n in graph.tiles if n.startswith(("loop/", "_cloop"))}
    outer = {n for n in inside if graph.nodes[n].op == "Const" and not graph.nodes[n].inputs}
    assert set(found) == inside - outer
    assert set(found.values()) == {("loop",)}
    assert len({graph.band_of[name] for name in found}) == 2


def test_a_loop_in_a_loop_lies_in_its_frame() -> None:
    graph = read_stage("device", device_rows(NESTED))
    chains = set(frames_of(graph).values())
    (outer,) = min(chains, key=len)
    assert chains == {(outer,), (outer, max(chains, key=len)[1])}


def test_a_loop_folds_to_a_tile_on_each_device_and_counts_its_iterations() -> None:
    rows = device_rows(WHILE)
    nodes = {r.name: Measured(runs=4, dead=1) for r in rows if r.op == "NextIteration"}
    opened = graph_payload({"device": rows}, "device")
    within = {tile["within"] for tile in opened["tiles"] if "/* frame @ " in tile["within"]}
    assert len(within) == 2
    folded = graph_payload(
        {"device": rows}, "device", StepMeasures(nodes), Choice(folded=frozenset(within))
    )
    loops = [tile for tile in folded["tiles"] if tile["iterations"]]
    assert [(tile["label"], tile["iterations"]) for tile in loops] == [("loop", 3), ("loop", 3)]
    facts = facts_of(
        read_stage("device", rows), {"device": rows}, StepMeasures(nodes), [loops[0]["id"]]
    )
    assert isinstance(facts, ScopeFacts)
    assert (facts.iterations, len(facts.members)) == (3, loops[0]["count"])


def test_a_loop_that_holds_another_counts_its_own_turns_alone() -> None:
    rows = device_rows(NESTED)
    runs = {"outer": 2, "inner": 7}
    nodes = {
        r.name: Measured(runs=runs["inner" if "inner" in r.name else "outer"])
        for r in rows
        if r.op == "NextIteration" and not r.name.startswith("_cloop")
    }
    graph = read_stage("device", rows)
    outer = next(chain[0] for chain in frames_of(graph).values())
    band = next(iter(graph.bands))
    facts = facts_of(graph, {"device": rows}, StepMeasures(nodes), [group_id(outer, band, FRAME)])
    assert isinstance(facts, ScopeFacts)
    assert facts.iterations == 2


def test_two_stages_over_one_another_have_one_x_for_what_is_in_both() -> None:
    rows = device_rows("viii_mlp_ref_2ps__grpc")
    ends_of_pairs = {r.name for r in rows if r.op in ("_Send", "_Recv")}
    kept = [r for r in rows if r.name not in ends_of_pairs]
    upper, lower = graph_payloads({"placed": kept, "device": rows}, ["placed", "device"])
    places = {tile["id"]: tile["x"] for tile in lower["tiles"]}
    both = [tile for tile in upper["tiles"] if tile["id"] in places]
    assert len(both) > 20
    assert all(tile["x"] == places[tile["id"]] for tile in both)


def test_a_transfer_that_several_inputs_share_says_how_many_there_would_be() -> None:
    rows = [
        row("v", "MatMul", device=PS),
        row("s", "_Send", "v", device=PS, **ends("v", WORKER)),
        row("r", "_Recv", **ends("v", WORKER)),
        row("a", "MatMul", "r", "r"),
        row("b", "Relu", "r", "^a"),
    ]
    facts = facts_of(read_stage("device", rows), {"device": rows}, StepMeasures(), ["r"])
    assert isinstance(facts, PairFacts)
    assert (facts.consumers, facts.num_uses) == (("a", "b"), 3)


@pytest.mark.parametrize("kind", ["data", "control"])
def test_a_tensor_that_goes_on_to_a_second_device_of_the_task_keeps_its_source(kind: str) -> None:
    onward = {**ends("v", GPU, kind=kind), "tensor_name": "edge_2_r", "send_device": WORKER}
    rows = [
        row("v", "MatMul", device=PS),
        row("s", "_Send", "v", device=PS, **ends("v", WORKER)),
        row("r", "_Recv", **ends("v", WORKER)),
        row("a", "MatMul", "r"),
        row("s2", "_Send", "r", **onward),
        row("r2", "_Recv", device=GPU, **onward),
        row("b", "MatMul", "r2", "r2", device=GPU),
    ]
    first, second = read_stage("device", rows).pairs
    assert (first.src, first.dsts, first.num_uses - second.num_uses) == ("v", ["a"], 1)
    assert (second.src, second.dsts, second.via) == ("v", ["b"], "r")
    payload = graph_payload({"device": rows}, "device")
    assert [wire["parts"][0]["src"] for wire in payload["wires"]] == ["v", "v"]


def test_optimizations_say_what_they_did_and_their_nodes_are_told_as_gone_and_changed(
    tmp_path: Path,
) -> None:
    passes = "fold_constants,merge_common_subexpressions"
    run = ["run", "diamond", "--passes", passes, "--in-process", "--out", str(tmp_path / "t")]
    assert tracer(run) == 0
    trace = open_trace(tmp_path / "t")
    found = step_graph(trace, 1)
    assert [one.name for one in found.passes] == passes.split(",")
    pruned = read_stage("pruned", found.stages["pruned"])
    gone = identity_of(pruned, found.stages).going
    assert len(gone) == sum(one.removed for one in found.passes) > 0
    assert set(gone.values()) == {"pass"}
    placed = identity_of(read_stage("placed", found.stages["placed"]), found.stages)
    assert len(placed.changed) == sum(one.changed for one in found.passes)


def test_stages_over_one_another_are_lower_and_keep_rows_and_order() -> None:
    rows = device_rows("viii_mlp_ref_2ps__grpc")
    alone = graph_payloads({"device": rows}, ["device"])[0]
    _, low = graph_payloads({"placed": rows, "device": rows}, ["placed", "device"])
    assert low["height"] < 0.85 * alone["height"]
    high_y = {tile["id"]: tile["y"] for tile in alone["tiles"]}
    low_y = {tile["id"]: tile["y"] for tile in low["tiles"]}
    band = {tile["id"]: tile["band"] for tile in low["tiles"]}
    for one, two in itertools.combinations(low_y, 2):
        before, now = high_y[two] - high_y[one], low_y[two] - low_y[one]
        assert now == pytest.approx(before, abs=0.2) if band[one] == band[two] else now * before > 0
    edges = {y for box in low["boxes"] for y in (box["y"], box["y"] + box["h"])}
    for wire in (wire for wire in low["wires"] if wire["isPair"]):
        for _, y in (wire["points"][0], wire["points"][-1]):
            assert min(abs(y - edge) for edge in edges) < 0.2
