"""`cond` and `while_loop` of the builder make the nodes that TensorFlow makes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.golden_cases import GOLDEN
from tracer.model.graph import Graph, GraphError, Input, Node
from tracer.model.graph_builder import GraphBuilder
from tracer.model.graph_json import read_graph_file

A, B, C = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"


def golden(name: str) -> Graph:
    return read_graph_file(Path(GOLDEN / f"{name}__grpc.json")).graph


def essence(node: Node) -> tuple[object, ...]:
    """All that runs; dtypes (T, N) are for TensorFlow's kernels only."""
    kept = ("frame_name", "is_constant", "parallel_iterations", "_class")
    attrs = {name: node.attrs[name] for name in kept if name in node.attrs}
    return (node.op, node.inputs, node.control_inputs, node.requested_device, attrs)


def on(b: GraphBuilder, device: str, op: str, *inputs: Input, name: str) -> Input:
    with b.device(device):
        return b.op(op, *inputs, name=name)


def constant(b: GraphBuilder, device: str, value: float, dtype: str, name: str) -> Input:
    with b.device(device):
        return b.const(value, dtype, name=name)


def v_cond() -> GraphBuilder:
    b = GraphBuilder()
    with b.device(A):
        pred, x = b.placeholder([], "bool", name="pred"), b.const(3.0, name="x")
        (merged,) = b.cond(
            pred,
            lambda: on(b, B, "Mul", x, constant(b, B, 10.0, "float32", "t_mul/y"), name="t_mul"),
            lambda: on(b, C, "Neg", x, name="f_neg"),
        )
        b.op("Identity", merged, name="out")
    return b


def counted_loop(
    b: GraphBuilder, less: str, limit: int, start: Input, step: Callable[[Input], Input], inc: str
) -> Callable[[Input, str], Input]:
    """A loop over a counter and one variable."""

    def loop(first: Input, name: str) -> Input:
        _, result = b.while_loop(
            lambda i, _: b.op("Less", i, b.const(limit, "int32", name=f"{less}/y"), name=less),
            lambda i, s: [step_of(i), step(s)],
            [start, first],
            name=name,
        )
        return result

    def step_of(i: Input) -> Input:
        return b.op("AddV2", i, b.const(1, "int32", name=f"{inc}/y"), name=inc)

    return loop


def vi_while() -> GraphBuilder:
    b = GraphBuilder()
    with b.device(A):
        i0, s0 = b.const(0, "int32", name="i0"), b.const(1.0, name="s0")

        def step(s: Input) -> Input:
            name = "body_mul_on_B"
            return on(b, B, "Mul", s, constant(b, B, 2.0, "float32", f"{name}/y"), name=name)

        result = counted_loop(b, "less", 3, i0, step, "body_inc_on_A")(s0, "loop")
        b.op("Identity", result, name="out")
    return b


def vi_while_invariant() -> GraphBuilder:
    b = GraphBuilder()
    with b.device(B):
        w = b.op("Identity", b.const(2.0, name="w_const"), name="w_on_B")
    with b.device(A):
        k, i0 = b.const(0.5, name="k_on_A"), b.const(0, "int32", name="i0")
        s0 = b.const(1.0, name="s0")

        def step(s: Input) -> Input:
            product = on(b, B, "Mul", s, w, name="mul_w_on_B")
            return b.op("AddV2", product, k, name="add_k_on_A")

        result = counted_loop(b, "less", 3, i0, step, "inc")(s0, "loop")
        b.op("Identity", result, name="out")
    return b


def vii_nested_while() -> GraphBuilder:
    b = GraphBuilder()
    with b.device(A):
        i0, s0 = b.const(0, "int32", name="i0"), b.const(1.0, name="s0")

        def inner_step(s: Input) -> Input:
            name = "inner_add_on_B"
            return on(b, B, "AddV2", s, constant(b, B, 1.0, "float32", f"{name}/y"), name=name)

        def outer_step(s: Input) -> Input:
            j0 = b.const(0, "int32", name="j0")
            inner = counted_loop(b, "inner_less", 2, j0, inner_step, "inner_inc")(s, "inner")
            return b.op("Mul", inner, b.const(2.0, name="outer_mul/y"), name="outer_mul")

        result = counted_loop(b, "outer_less", 2, i0, outer_step, "outer_inc")(s0, "outer")
        b.op("Identity", result, name="out")
    return b


@pytest.mark.parametrize("build", [v_cond, vi_while, vi_while_invariant, vii_nested_while])
def test_the_builder_makes_what_tensorflow_makes(build: Callable[[], GraphBuilder]) -> None:
    ours, theirs = build().graph(), golden(build.__name__)
    assert {name: essence(node) for name, node in ours.items()} == {
        name: essence(node) for name, node in theirs.items()
    }


def test_a_branch_may_hand_on_what_was_made_before() -> None:
    b = GraphBuilder()
    x, pred = b.const(1.0, name="x"), b.const(True, "bool", name="pred")
    (merged,) = b.cond(pred, lambda: x, lambda: b.op("Neg", x))
    graph = b.graph()
    taken = graph[graph[merged.node].inputs[1].node]
    assert (taken.op, taken.inputs[0]) == ("Switch", x)
    assert graph[merged.node].inputs[1].port == 1


def test_what_depends_on_loop_invariants_only_runs_in_every_iteration() -> None:
    b = GraphBuilder()
    k, limit = b.const(2.0, name="k"), b.const(9.0, name="limit")
    b.while_loop(lambda x: b.op("Less", x, limit), lambda x: b.op("Square", k), [k], name="loop")
    assert b.graph()["loop/Square"].control_inputs == ("loop/Identity",)


def test_a_value_comes_into_a_loop_once() -> None:
    b = GraphBuilder()
    k = b.const(2.0, name="k")
    b.while_loop(
        lambda x: b.op("Less", x, k), lambda x: b.op("Mul", b.op("Add", x, k), k), [k], name="loop"
    )
    entered = [node for node in b.graph().nodes if node.attrs.get("is_constant")]
    assert [node.inputs for node in entered] == [(k,)]


def test_two_loops_of_one_name_have_frames_of_their_own() -> None:
    b = GraphBuilder()
    k = b.const(2.0, name="k")
    for _ in range(2):
        b.while_loop(lambda x: b.op("Less", x, k), lambda x: x, [k], name="loop")
    frames = {node.attrs["frame_name"] for node in b.graph().nodes if node.op == "Enter"}
    assert frames == {"loop/while_context", "loop_1/while_context"}


def test_a_control_input_from_outside_comes_into_the_loop_as_a_value() -> None:
    b = GraphBuilder()
    first, k = b.const(0.0, name="first"), b.const(2.0, name="k")
    with b.control_dependencies([first]):
        b.while_loop(lambda x: b.op("Less", x, k), lambda x: b.op("Neg", x), [k], name="loop")
    (control,) = b.graph()["loop/Neg"].control_inputs
    assert b.graph()[control].inputs == (first,)


def test_branches_must_give_as_many_values_and_a_body_as_many_as_it_takes() -> None:
    b = GraphBuilder()
    k, pred = b.const(2.0, name="k"), b.const(True, "bool", name="pred")
    with pytest.raises(GraphError, match="the branches of 'cond' give 1 and 2 values"):
        b.cond(pred, lambda: k, lambda: [k, k])
    with pytest.raises(GraphError, match="the body of 'loop' takes 1 values and gives 2"):
        b.while_loop(lambda x: b.op("Less", x, k), lambda x: [x, x], [k], name="loop")
