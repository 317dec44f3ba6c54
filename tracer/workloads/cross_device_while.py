"""cross-device-while: a loop that counts on the parameter server and multiplies on a worker.

What to look at: the worker owns no part of the loop's decision, so it gets a small loop of its own
(the `_cloop` nodes Enter, Merge, Switch, NextIteration) that follows the predicate sent to it. Each
edge of the loop that crosses is sent once more than the body runs: the last time it carries a dead
tensor. With parallel_iterations=1 an iteration begins when the one before is over; with 10 the
counter runs ahead of the products.
"""

from typing import Annotated

from tracer.model.graph import Input
from tracer.model.graph_builder import GraphBuilder
from tracer.workloads.factory import AtLeast
from tracer.workloads.graph_workload import GraphWorkload, graph_workload

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"


def workload(
    iterations: Annotated[int, AtLeast(0), "how often the body runs"] = 3,
    parallel_iterations: Annotated[int, AtLeast(1), "most that are in flight at once"] = 10,
) -> GraphWorkload:
    """A while loop over two devices: dead tensors, control loops, iterations in flight."""
    b = GraphBuilder()

    def goes_on(i: Input, _: Input) -> Input:
        return b.op("Less", i, b.const(iterations, "int32", name="less/y"), name="less")

    def body(i: Input, s: Input) -> list[Input]:
        with b.device(WORKER):
            product = b.op("Mul", s, b.const(2.0, name="body_mul/y"), name="body_mul")
        one = b.const(1, "int32", name="body_inc/y")
        return [b.op("AddV2", i, one, name="body_inc"), product]

    with b.device(PS):
        first = [b.const(0, "int32", name="i0"), b.const(1.0, name="s0")]
        _, result = b.while_loop(
            goes_on, body, first, parallel_iterations=parallel_iterations, name="loop"
        )
        b.op("Identity", result, name="out")
    return graph_workload(b.graph(), {"ps": 1, "worker": 1}, ["out:0"])
