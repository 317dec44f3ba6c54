"""nested-while: a loop in a loop, the inner body on another device.

What to look at: every iteration of the outer loop opens a frame of the inner one, with a number of
its own, so that the same node runs under many tags `frame:iteration`. The worker follows with a
control loop for each of the two: the inner one is entered anew in each iteration of the outer one.
"""

from collections.abc import Callable
from typing import Annotated

from tracer.model.graph import Input
from tracer.model.graph_builder import GraphBuilder
from tracer.workloads.factory import AtLeast
from tracer.workloads.graph_workload import GraphWorkload, graph_workload

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"


def workload(
    outer: Annotated[int, AtLeast(0), "how often the outer body runs"] = 2,
    inner: Annotated[int, AtLeast(0), "how often the inner body runs in each"] = 2,
) -> GraphWorkload:
    """A while loop inside a while loop, the innermost sum on another device."""
    b = GraphBuilder()

    def below(most: int) -> Callable[[Input, Input], Input]:
        return lambda i, _: b.op("Less", i, b.const(most, "int32", name="less/y"), name="less")

    def plus_one(i: Input) -> Input:
        return b.op("AddV2", i, b.const(1, "int32", name="inc/y"), name="inc")

    def inner_body(j: Input, s: Input) -> list[Input]:
        with b.device(WORKER):
            total = b.op("AddV2", s, b.const(1.0, name="add/y"), name="add")
        return [plus_one(j), total]

    def outer_body(i: Input, s: Input) -> list[Input]:
        none_yet = b.const(0, "int32", name="j0")
        _, total = b.while_loop(below(inner), inner_body, [none_yet, s], name="inner")
        doubled = b.op("Mul", total, b.const(2.0, name="mul/y"), name="mul")
        return [plus_one(i), doubled]

    with b.device(PS):
        first = [b.const(0, "int32", name="i0"), b.const(1.0, name="s0")]
        _, result = b.while_loop(below(outer), outer_body, first, name="outer")
        b.op("Identity", result, name="out")
    return graph_workload(b.graph(), {"ps": 1, "worker": 1}, ["out:0"])
