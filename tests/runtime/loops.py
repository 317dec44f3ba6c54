"""Small conds and loops over the tasks of `graphs.CLUSTER`."""

from collections.abc import Callable

from tests.runtime.graphs import PS_0, WORKER_0, WORKER_1
from tracer.model.cluster import TaskName
from tracer.model.graph import Graph, Input
from tracer.model.graph_builder import GraphBuilder

HERE = WORKER_0  #: where clients dial


def at(task: TaskName) -> str:
    return f"/job:{task.job}/task:{task.index}"


def doubling(
    parallel_iterations: int = 10,
    body_at: TaskName = HERE,
    body: str = "AddV2",
    loop_at: TaskName = HERE,
) -> Graph:
    """`i` counts to the fed `n` at `loop_at`; `s` begins at 1 and is doubled at `body_at`."""
    b = GraphBuilder()
    with b.device(at(loop_at)):
        n = b.placeholder([], "int32", name="n")

        def again(i: Input, s: Input) -> list[Input]:
            with b.device(at(body_at)):
                doubled = b.op(body, s, s, name="doubled", T="float32")
            return [b.op("AddV2", i, b.const(1, "int32"), T="int32"), doubled]

        start = [b.const(0, "int32"), b.const(1.0)]
        i, s = b.while_loop(
            lambda i, _: b.op("Less", i, n, T="int32"),
            again,
            start,
            parallel_iterations=parallel_iterations,
            name="loop",
        )
        b.op("Identity", i, name="i", T="int32")
        b.op("Identity", s, name="s", T="float32")
    return b.graph()


def table() -> Graph:
    """Two nested loops: `sum` of i·j for i below `n` and j below i; the product is made by ps:0."""
    b = GraphBuilder()

    def number(value: int) -> Input:
        return b.const(value, "int32")

    def add(x: Input, y: Input) -> Input:
        return b.op("AddV2", x, y, T="int32")

    with b.device(at(WORKER_0)):
        n = b.placeholder([], "int32", name="n")

        def row(i: Input, total: Input) -> list[Input]:
            def cell(j: Input, partial: Input) -> list[Input]:
                with b.device(at(PS_0)):
                    product = b.op("Mul", i, j, name="product", T="int32")
                return [add(j, number(1)), add(partial, product)]

            _, inner = b.while_loop(
                lambda j, _: b.op("Less", j, i, T="int32"), cell, [number(0), total], name="inner"
            )
            return [add(i, number(1)), inner]

        _, total = b.while_loop(
            lambda i, _: b.op("Less", i, n, T="int32"), row, [number(0), number(0)], name="outer"
        )
        b.op("Identity", total, name="sum", T="int32")
    return b.graph()


def choice(true: Callable[[GraphBuilder, Input], Input] | None = None) -> Graph:
    """`out` is -x, made by ps:0, or x + x, made by worker:1; a fed `pred` says which."""
    b = GraphBuilder()
    with b.device(at(HERE)):
        pred = b.placeholder([], "bool", name="pred")
        x = b.placeholder([2], name="x")

        def doubled() -> Input:
            with b.device(at(WORKER_1)):
                return true(b, x) if true else b.op("AddV2", x, x, name="doubled", T="float32")

        def negated() -> Input:
            with b.device(at(PS_0)):
                return b.op("Neg", x, name="negated", T="float32")

        (out,) = b.cond(pred, doubled, negated)
        b.op("Identity", out, name="out", T="float32")
    return b.graph()


def choice_of_loop() -> Graph:
    """As `choice`, but the branch that may be true is a loop: x is doubled three times."""

    def loop(b: GraphBuilder, x: Input) -> Input:
        _, doubled = b.while_loop(
            lambda i, _: b.op("Less", i, b.const(3, "int32"), T="int32"),
            lambda i, y: [
                b.op("AddV2", i, b.const(1, "int32"), T="int32"),
                b.op("AddV2", y, y, T="float32"),
            ],
            [b.const(0, "int32"), x],
            name="loop",
        )
        return doubled

    return choice(loop)
