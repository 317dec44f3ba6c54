"""No two tiles of a box, and no two wires, are called the same and are not."""

from tests.figures.golden_stages import device_rows
from tests.figures.test_graph_stage import PS, WORKER, row
from tracer.model.graph import CONTROL_LOOP
from vizdist.analysis.node_measures import NOTHING_MEASURED
from vizdist.figures.graph_facts import PairFacts, facts_of
from vizdist.figures.graph_labels import told_apart
from vizdist.figures.graph_stage import read_stage
from vizdist.figures.graph_tiles import tiles_of
from vizdist.figures.partitioned_graph import graph_payload


def test_names_that_are_alike_take_as_much_of_their_paths_as_tells_them_apart() -> None:
    names = [("Merge", "outer/Merge"), ("Merge", "outer/inner/Merge"), ("out", "loop/out")]
    assert told_apart(names) == ["outer/Merge", "inner/Merge", "out"]
    passes = [("fc1/t", "fc1/t"), ("fc1/t", "gradients/fc1/t"), ("fc1/t", "a/gradients/fc1/t")]
    assert told_apart(passes) == ["fc1/t", "gradients/fc1/t", "a/gradients/fc1/t"]


def test_things_of_one_path_and_those_without_a_name_stay_as_they_are() -> None:
    names = [("w", "fc/w"), ("w", "fc/w"), ("", "a"), ("", "b")]
    assert told_apart(names) == ["w", "w", "", ""]


def test_a_variable_and_its_read_say_which_is_the_read() -> None:
    stage = tiles_of(
        {
            "placed": [
                row("fc1/weight", "VarHandleOp", device=PS),
                row("fc1/weight/Read", "ReadVariableOp", "fc1/weight:0", device=PS),
                row("fc1/t", "aten.t.default", "fc1/weight/Read:0", device=PS),
                row("gradients/fc1/t", "aten.t.default", "fc1/t:0", device=PS),
                row("learning_rate/a", "Const", device=PS),
                row("of/learning_rate/a", "Const", device=PS),
            ]
        },
        "placed",
    )
    assert (stage.labels["fc1/weight"], stage.roles["fc1/weight"]) == ("fc1/weight", "")
    assert (stage.labels["fc1/weight/Read"], stage.roles["fc1/weight/Read"]) == (
        "fc1/weight",
        "read",
    )
    assert stage.labels["gradients/fc1/t"] == "gradients/fc1/t"
    assert "fc1/t" not in stage.roles
    assert stage.widths["fc1/weight/Read"] > stage.widths["fc1/weight"]


def test_wires_of_two_loops_are_told_apart() -> None:
    rows = [
        row("outer/LoopCond", "LoopCond", device=PS),
        row("outer/inner/LoopCond", "LoopCond", device=PS),
        row("outer/Switch", "Switch", "outer/LoopCond:0", device=WORKER),
        row("outer/inner/Switch", "Switch", "outer/inner/LoopCond:0", device=WORKER),
    ]
    uncut = [one._replace(partition="") for one in rows]
    wires = graph_payload({"placed": uncut}, "placed")["wires"]
    assert sorted(wire["label"] for wire in wires) == ["inner/LoopCond", "outer/LoopCond"]


def test_nodes_of_a_control_loop_keep_their_ops_as_names() -> None:
    names = [f"{CONTROL_LOOP}loop/{end}" for end in ("NextIteration_1", "NextIteration_2")]
    rows = [row(name, "Merge", device=PS) for name in (*names, "loop/Merge")]
    stage = tiles_of({"placed": rows}, "placed")
    assert [stage.labels[name] for name in names] == ["Merge", "Merge"]
    assert stage.labels["loop/Merge"] == "loop/Merge"


def test_a_span_of_what_carries_a_control_edge_leads_to_its_pair() -> None:
    rows = device_rows("viii_mlp_ref_2ps__grpc")
    graph = read_stage("device", rows)
    carried = [pair for pair in graph.pairs if pair.carriers]
    assert carried
    for pair in carried:
        found = facts_of(graph, {"device": rows}, NOTHING_MEASURED, [pair.carriers[1]])
        assert isinstance(found, PairFacts)
        assert found.recv == pair.recv
