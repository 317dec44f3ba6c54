"""In which loop a node runs, and what is no loop."""

from collections.abc import Callable

import pytest

from tests.golden_cases import GOLDEN
from tracer.model.graph import Graph, GraphError, Input, Node
from tracer.model.graph_json import read_graph_file
from tracer.passes.frames import ROOT, Frame, Frames

INNER, OUTER = "outer/inner/while_context", "outer/while_context"


def nested() -> Graph:
    return read_graph_file(GOLDEN / "vii_nested_while__grpc.json").graph


def test_frames_nest_and_know_who_decides() -> None:
    assert list(Frames(nested())) == [
        Frame(OUTER, ROOT, 10, "outer/LoopCond"),
        Frame(INNER, OUTER, 10, "outer/inner/LoopCond"),
    ]


def test_a_node_runs_in_the_frame_of_its_inputs() -> None:
    frames = Frames(nested())
    assert frames.of("s0") == frames.of("out") == ROOT
    assert frames.of("outer/j0") == frames.of("outer/outer_mul") == OUTER
    assert frames.of("outer/inner/inner_add_on_B") == INNER


def test_an_enter_and_an_exit_stand_between_two_frames() -> None:
    frames = Frames(nested())
    enter, exit_ = "outer/inner/Enter", "outer/inner/Exit_1"
    assert frames.of(enter) == frames.of(exit_) == INNER
    assert frames.of_inputs(enter) == frames.of_outputs(exit_) == OUTER
    assert frames.of_outputs(enter) == frames.of_inputs(exit_) == INNER


def test_a_loop_whose_result_nobody_uses_is_fine() -> None:
    graph = Graph(node for node in nested().nodes if node.name not in ("outer/Exit_1", "out"))
    assert Frames(graph).of("outer/Switch_1") == OUTER


def nameless(node: Node) -> Node:
    return node.with_(attrs={**node.attrs, "frame_name": ""})


def waits_for_root(node: Node) -> Node:
    return node.with_(control_inputs=("i0",), source="model.py:7")


def from_root(node: Node) -> Node:
    return node.with_(inputs=(Input("i0"),))


@pytest.mark.parametrize(
    ("name", "change", "hint"),
    [
        (
            "outer/outer_mul",
            waits_for_root,
            r"Mul node 'outer/outer_mul' \(model.py:7\) has inputs from different frames. The "
            "input 'i0' is in the root frame, another is in frame 'outer/while_context'",
        ),
        ("outer/Enter", nameless, "Enter node 'outer/Enter' must have a frame_name"),
        (
            "outer/inner/Enter",
            from_root,
            "enters frame 'outer/inner/while_context' from .* a frame has one parent",
        ),
        ("outer/Exit", from_root, "Exit node 'outer/Exit' is in no loop"),
    ],
)
def test_what_is_no_loop_is_refused_with_the_node(
    name: str, change: Callable[[Node], Node], hint: str
) -> None:
    graph = nested()
    with pytest.raises(GraphError, match=hint):
        Frames(Graph([change(n) if n.name == name else n for n in graph.nodes]))


def test_a_second_predicate_in_a_loop_is_refused() -> None:
    extra = Node("more", "LoopCond", (Input("outer/outer_less"),))
    with pytest.raises(GraphError, match="more than one LoopCond: 'outer/LoopCond' and 'more'"):
        Frames(Graph([*nested().nodes, extra]))


def test_the_counter_of_a_gradient_may_share_its_loops_frame() -> None:
    extra = Node("f_count/LoopCounter", "LoopCond", (Input("outer/outer_less"),))
    assert Frames(Graph([*nested().nodes, extra]))[OUTER].loop_cond == extra.name
