"""recv-dedup: many nodes of a worker read one tensor, and it travels once.

What to look at: `a` has four consumers on worker:0 and one on worker:1, and the parameter server
sends it twice: a cut makes one Send/Recv pair for each tensor and place, not for each edge. The two
outputs of `u` are two tensors, so each has a pair of its own.
"""

from tracer.model.graph import Input
from tracer.model.graph_builder import GraphBuilder
from tracer.workloads.graph_workload import GraphWorkload, graph_workload

PS, NEAR, FAR = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"


def workload() -> GraphWorkload:
    """A graph in which one tensor has five readers on two workers, and is sent twice."""
    b = GraphBuilder()
    with b.device(PS):
        a = b.op("Identity", b.const([1.0, 2.0], name="a_const"), name="a")
        pair = b.op("Pack", a, b.const([3.0, 4.0], name="b"), name="s", N=2, axis=0)
        first = b.op("Unpack", pair, name="u", axis=0, num=2)
    with b.device(NEAR):
        p = b.op("AddV2", a, b.const(1.0, name="p/y"), name="p")
        q = b.op("Mul", a, p, name="q")
        same = b.op("AddV2", a, a, name="same")
        two_ports = b.op("AddV2", first, Input(first.node, 1), name="two_ports")
        b.op("AddN", q, same, two_ports, name="out", N=3)
    with b.device(FAR):
        b.op("Neg", a, name="r_on_C")
    return graph_workload(b.graph(), {"ps": 1, "worker": 2}, ["out:0", "r_on_C:0"])
