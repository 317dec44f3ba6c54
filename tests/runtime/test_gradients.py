"""Gradients of conds and loops, run as steps: as torch's autograd finds them, unrolled."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.clusters import TestCluster
from tests.golden_cases import GOLDEN as FILES
from tests.runtime.graphs import CLUSTER
from tracer.model.graph import Graph, Input
from tracer.model.graph_builder import GraphBuilder
from tracer.model.graph_json import read_graph_file
from tracer.passes.gradients import gradients
from tracer.passes.optimize import OPTIMIZATIONS

Start = Callable[..., TestCluster]
Feeds = Mapping[str, Tensor]

HERE, ELSEWHERE = "/job:worker/task:0", "/job:worker/task:1"
_DRAWS = torch.Generator().manual_seed(5)
X, W, H = (torch.randn(*shape, generator=_DRAWS) for shape in ((2, 4), (4, 4), (2, 4)))


class Model:
    """A loss over `x`, `w`, `h` in two writings: as nodes, and as eager torch."""

    def __init__(
        self,
        build: Callable[[GraphBuilder, Input, Input, Input], Input],
        eager: Callable[[Tensor, Tensor, Tensor], Tensor],
    ) -> None:
        self._build = build
        self._eager = eager

    def graph(self, body: str) -> tuple[Graph, list[str]]:
        """Branches and bodies that ask for nothing else run on `body`."""
        b = GraphBuilder()
        with b.device(HERE):
            x, w, h = (
                b.placeholder(t.shape, name=n) for n, t in zip("xwh", (X, W, H), strict=True)
            )
            b.placeholder([], "int32", name="n")
            with b.device(body):
                result = self._build(b, x, w, h)
            loss = b.op("Sum", b.op("Square", result), b.const([0, 1], "int32"), name="loss")
        graph, grads = gradients(b.graph(), [loss], [x, w, h])
        return graph, ["loss:0", *(f"{g.node}:{g.port}" for g in grads if g)]

    def expected(self) -> list[Tensor]:
        leaves = [tensor.clone().requires_grad_() for tensor in (X, W, H)]
        loss = self._eager(*leaves).square().sum()
        found = torch.autograd.grad(loss, leaves, allow_unused=True)
        return [loss.detach(), *(grad for grad in found if grad is not None)]


def times(
    b: GraphBuilder, n: Input | int, step: Callable[[Input, Input], Input], start: Input
) -> Input:
    """`for i in range(n): value = step(i, value)`."""
    limit = b.const(n, "int32") if isinstance(n, int) else n
    _, result = b.while_loop(
        lambda i, _: b.op("Less", i, limit),
        lambda i, value: [b.op("AddV2", i, b.const(1, "int32")), step(i, value)],
        [b.const(0, "int32"), start],
        parallel_iterations=4,
        name="loop",
    )
    return result


def recur(b: GraphBuilder, x: Input, w: Input, h: Input) -> Input:
    return b.op("Tanh", b.op("AddV2", b.op("MatMul", h, w), x))


def eager_recur(x: Tensor, w: Tensor, h: Tensor) -> Tensor:
    return torch.tanh(h @ w + x)


def eager_loop(count: int) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def run(x: Tensor, w: Tensor, h: Tensor) -> Tensor:
        for _ in range(count):
            h = eager_recur(x, w, h)
        return h

    return run


def is_first_below(b: GraphBuilder, value: Input, bound: float) -> Input:
    zero, one = b.const([0, 0], "int32"), b.const([1, 1], "int32")
    first = b.op("Slice", value, zero, one)
    return b.op("Less", b.op("Reshape", first, b.const([], "int32")), b.const(bound))


def branches(bound: float) -> Model:
    """One branch uses x, the other w and a constant of its own; the cond is on a value of h."""

    def build(b: GraphBuilder, x: Input, w: Input, h: Input) -> Input:
        (result,) = b.cond(
            is_first_below(b, h, bound),
            lambda: b.op("Mul", h, x),
            lambda: b.op("MatMul", b.op("Mul", h, b.const(3.0)), w),
        )
        return result

    def eager(x: Tensor, w: Tensor, h: Tensor) -> Tensor:
        taken = bool(h[0, 0] < bound)
        return h * x + 0 * w.sum() if taken else (h * 3) @ w + 0 * x.sum()

    return Model(build, eager)


def branches_in_branches() -> Model:
    def build(b: GraphBuilder, x: Input, w: Input, h: Input) -> Input:
        def inner() -> list[Input]:
            return b.cond(
                is_first_below(b, x, -99.0), lambda: b.op("Exp", h), lambda: b.op("Mul", h, x)
            )

        (result,) = b.cond(is_first_below(b, h, 99.0), inner, lambda: b.op("MatMul", h, w))
        return result

    return Model(build, lambda x, w, h: h * x + 0 * w.sum())


def loop(count: int) -> Model:
    return Model(
        lambda b, x, w, h: times(b, count, lambda _, value: recur(b, x, w, value), h),
        lambda x, w, h: eager_loop(count)(x, w, h) + 0 * (x.sum() + w.sum()),
    )


def loop_with_branches() -> Model:
    """Even iterations multiply by x, odd ones recur; so one branch's stack is left out in turns."""

    def build(b: GraphBuilder, x: Input, w: Input, h: Input) -> Input:
        def step(i: Input, value: Input) -> Input:
            two = b.const(2, "int32")
            is_odd = b.op("Equal", b.op("FloorMod", i, two), b.const(1, "int32"))
            (result,) = b.cond(
                is_odd,
                lambda: recur(b, x, w, value),
                lambda: b.op("Mul", b.op("Sin", value), b.op("AddV2", x, value)),
            )
            return result

        return times(b, 5, step, h)

    def eager(x: Tensor, w: Tensor, h: Tensor) -> Tensor:
        for i in range(5):
            h = eager_recur(x, w, h) if i % 2 else torch.sin(h) * (x + h)
        return h

    return Model(build, eager)


def loop_in_loop() -> Model:
    """Iteration i of the outer loop runs the inner one i + 1 times."""

    def build(b: GraphBuilder, x: Input, w: Input, h: Input) -> Input:
        def step(i: Input, value: Input) -> Input:
            count = b.op("AddV2", i, b.const(1, "int32"))
            scaled = b.op("Mul", value, b.op("Cos", value))
            return times(
                b, count, lambda _, inner: recur(b, b.op("Mul", x, scaled), w, inner), value
            )

        return times(b, 3, step, h)

    def eager(x: Tensor, w: Tensor, h: Tensor) -> Tensor:
        for i in range(3):
            scaled = h * h.cos()
            for _ in range(i + 1):
                h = eager_recur(x * scaled, w, h)
        return h

    return Model(build, eager)


def loop_in_a_branch(bound: float) -> Model:
    def build(b: GraphBuilder, x: Input, w: Input, h: Input) -> Input:
        (result,) = b.cond(
            is_first_below(b, h, bound),
            lambda: times(b, 3, lambda _, value: recur(b, x, w, value), h),
            lambda: b.op("Mul", h, x),
        )
        return result

    def eager(x: Tensor, w: Tensor, h: Tensor) -> Tensor:
        return eager_loop(3)(x, w, h) if h[0, 0] < bound else h * x + 0 * w.sum()

    return Model(build, eager)


def two_variables() -> Model:
    """One variable is used only through the other, and one starts as an invariant of the loop."""

    def build(b: GraphBuilder, x: Input, w: Input, h: Input) -> Input:
        limit = b.const(3, "int32")
        _, _, result = b.while_loop(
            lambda i, *_: b.op("Less", i, limit),
            lambda i, side, value: [
                b.op("AddV2", i, b.const(1, "int32")),
                b.op("Mul", side, x),
                b.op("AddV2", b.op("MatMul", value, w), side),
            ],
            [b.const(0, "int32"), x, h],
            name="loop",
        )
        return result

    def eager(x: Tensor, w: Tensor, h: Tensor) -> Tensor:
        side = x
        for _ in range(3):
            side, h = side * x, h @ w + side
        return h

    return Model(build, eager)


def forgotten_start() -> Model:
    """What the loop begins with has no influence after the first iteration."""
    return Model(
        lambda b, x, w, h: times(b, 3, lambda _, _value: b.op("MatMul", x, w), h),
        lambda x, w, h: x @ w + 0 * h,
    )


MODELS: Mapping[str, Model] = {
    "a_branch": branches(99.0),
    "the_other_branch": branches(-99.0),
    "branches_in_branches": branches_in_branches(),
    "a_loop": loop(4),
    "a_loop_of_no_iteration": loop(0),
    "a_loop_with_branches": loop_with_branches(),
    "a_loop_in_a_loop": loop_in_loop(),
    "a_loop_in_a_branch": loop_in_a_branch(99.0),
    "a_loop_in_a_branch_not_taken": loop_in_a_branch(-99.0),
    "two_variables": two_variables(),
    "a_forgotten_start": forgotten_start(),
}


def assert_equal(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("body", ["", ELSEWHERE], ids=["here", "elsewhere"])
def test_gradients_through_control_flow_are_those_of_the_unrolled_program(
    start_cluster: Start, body: str
) -> None:
    cluster = start_cluster(CLUSTER)
    for name, model in MODELS.items():
        graph, names = model.graph(body)
        found = cluster.session(graph).run(names, {"x:0": X, "w:0": W, "h:0": H})
        try:
            assert_equal(found, model.expected())
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


#: graph, input, feeds, gradient of `out` by the input
GOLDEN: tuple[tuple[str, str, dict[str, Tensor], float], ...] = (
    ("v_cond", "x", {"pred:0": torch.tensor(True)}, 10.0),
    ("v_cond", "x", {"pred:0": torch.tensor(False)}, -1.0),
    ("vi_while", "s0", {}, 8.0),  # s = 2 s, three times
    ("vi_while_invariant", "s0", {}, 8.0),  # s = w s + k, with w = 2 and k = 0.5
    ("vi_while_invariant", "w_on_B", {}, 14.5),  # 3 w² s0 + (2 w + 1) k
    ("vi_while_invariant", "k_on_A", {}, 7.0),  # w² + w + 1
    ("vii_nested_while", "s0", {}, 4.0),  # s = 2 (s + 1 + 1), twice
)


@pytest.mark.parametrize("passes", [(), tuple(OPTIMIZATIONS)], ids=["as_it_is", "optimized"])
def test_graphs_of_tensorflow_are_differentiated_from_their_nodes_alone(
    start_cluster: Start, passes: tuple[str, ...]
) -> None:
    cluster = start_cluster(CLUSTER, passes=passes)
    for name, x, feeds, expected in GOLDEN:
        given = read_graph_file(Path(FILES / f"{name}__grpc.json")).graph
        graph, (gradient,) = gradients(given, [Input("out")], [Input(x)])
        assert gradient is not None
        (found,) = cluster.session(graph).run([f"{gradient.node}:{gradient.port}"], feeds)
        assert (name, found.item()) == (name, pytest.approx(expected))
