"""diamond: one tensor goes to two workers, and what they make of it meets again.

What to look at: the smallest graph in which two tasks work at once. The parameter server sends
`top` twice, once to each worker; `left` and `right` are computed side by side, and `bottom` waits
for the later one. What you fetch goes to the master: that is the third tensor on the way to
worker:0.
"""

from typing import Annotated

from tracer.model.graph_builder import GraphBuilder
from tracer.workloads.factory import AtLeast
from tracer.workloads.graph_workload import GraphWorkload, graph_workload

PS, LEFT, RIGHT = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"


def workload(
    size: Annotated[int, AtLeast(1), "elements of the tensor that is sent"] = 3,
) -> GraphWorkload:
    """A graph of five nodes on three tasks: a tensor forks to two workers and joins again."""
    b = GraphBuilder()
    with b.device(PS):
        top = b.op(
            "Identity", b.const([float(i + 1) for i in range(size)], name="top_const"), name="top"
        )
    with b.device(LEFT):
        left = b.op("Square", top, name="left")
    with b.device(RIGHT):
        right = b.op("Neg", top, name="right")
    with b.device(PS):
        b.op("AddV2", left, right, name="bottom")
    return graph_workload(b.graph(), {"ps": 1, "worker": 2}, ["bottom:0"])
