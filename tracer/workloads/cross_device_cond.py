"""cross-device-cond: a cond whose branches lie on two workers; one runs, the other says it is dead.

What to look at: both workers get their partition and take part in every step, but on the one that
is not asked nothing runs: a dead tensor comes, goes through every node and goes back, and Merge
takes the one that is alive. Without that answer the parameter server would wait for ever.
"""

from typing import Annotated

from tracer.model.graph import Input
from tracer.model.graph_builder import GraphBuilder
from tracer.workloads.graph_workload import GraphWorkload, graph_workload

PS, IF_TRUE, IF_FALSE = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"


def workload(
    pred: Annotated[bool, "what is asked: true runs on worker:0, false on worker:1"] = True,
) -> GraphWorkload:
    """A cond with its branches on two workers: one runs, the other says it is dead."""
    b = GraphBuilder()

    def times_ten() -> Input:
        with b.device(IF_TRUE):
            return b.op("Mul", x, b.const(10.0, name="t_mul/y"), name="t_mul")

    def negated() -> Input:
        with b.device(IF_FALSE):
            return b.op("Neg", x, name="f_neg")

    with b.device(PS):
        asked = b.placeholder([], "bool", name="pred")
        x = b.const(3.0, name="x")
        [merged] = b.cond(asked, times_ten, negated)
        b.op("Identity", merged, name="out")
    return graph_workload(b.graph(), {"ps": 1, "worker": 2}, ["out:0"], fed={"pred:0": pred})
