"""bad-op: one op fails in one task, in one step, and every other task hears of it.

What to look at: `checked` on worker:1 finds an infinity in the third step. Its error is the *root*:
the run names task, node and step of it. worker:0 and ps:0 wait for what comes from it; their
receives end with *derived* errors, echoes that are never reported first. The Timeline shows how far
the abort travelled and how long it took.
"""

from typing import Annotated

from tracer.model.graph_builder import GraphBuilder
from tracer.workloads.factory import AtLeast
from tracer.workloads.graph_workload import GraphWorkload, graph_workload

PS, ASIDE, BAD = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"


def workload(
    fails_in: Annotated[int, AtLeast(1), "the step in which the op fails"] = 3,
) -> GraphWorkload:
    """A division by zero on worker:1, with two tasks that wait for its result."""
    b = GraphBuilder()
    with b.device(PS):
        counter = b.op("VarHandleOp", name="counter", dtype="float32", shape=[])
        zero, one = b.const(0.0, name="zero"), b.const(1.0, name="one")
        b.op("AssignVariableOp", counter, zero, name="init", dtype="float32")
        count = b.op("AssignAddVariableOp", counter, one, name="count", dtype="float32")
        with b.control_dependencies([count]):
            step = b.op("ReadVariableOp", counter, name="step", dtype="float32")
    with b.device(BAD):
        left = b.op("Sub", b.const(float(fails_in), name="last"), step, name="left")
        share = b.op("RealDiv", b.const(1.0, name="whole"), left, name="share")
        checked = b.op("CheckNumerics", share, name="checked", message="share = 1 / 0 steps left")
    with b.device(ASIDE):
        seen = b.op("Neg", checked, name="seen")
    with b.device(PS):
        b.op("AddV2", checked, seen, name="sum")
    devices = {"ps": 1, "worker": 2}
    return graph_workload(b.graph(), devices, ["sum:0"], init="init", steps=fails_in + 2)
