"""Small graphs over a parameter server and two workers."""

from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.graph import Graph, Node, TensorSpec
from tracer.model.graph_builder import GraphBuilder

CLUSTER = ClusterSpec.of_counts(ps=1, worker=2)
PS_0, WORKER_0, WORKER_1 = TaskName("ps", 0), TaskName("worker", 0), TaskName("worker", 1)


def counter() -> Graph:
    """`v` on ps:0 is 1.0 after `init`; `add` adds the fed `x`; `twice` on worker:1 doubles it."""
    b = GraphBuilder()
    with b.device("/job:worker/task:0"):
        x = b.placeholder([2], name="x")
    with b.device("/job:ps/task:0"):
        v = b.op("VarHandleOp", name="v", dtype="float32", shape=[2])
        one = b.const([1.0, 1.0], name="one")
        b.op("AssignVariableOp", v, one, name="init", dtype="float32")
        b.op("AssignAddVariableOp", v, x, name="add", dtype="float32")
        read = b.op("ReadVariableOp", v, name="read", dtype="float32")
    with b.device("/job:worker/task:1"):
        b.op("AddV2", read, read, name="twice", T="float32")
    return b.graph()


def failing() -> Graph:
    """`bad` on ps:0 always fails; `after` on worker:1 waits for it, `fine` on worker:0 does not."""
    b = GraphBuilder()
    with b.device("/job:ps/task:0"):
        bad = b.op(
            "MatMul", b.const([[1.0, 2.0]]), b.const([[1.0, 2.0, 3.0]]), name="bad", T="float32"
        )
    with b.device("/job:worker/task:1"):
        b.op("Neg", bad, name="after", T="float32")
    with b.device("/job:worker/task:0"):
        b.op("Neg", b.const([1.0]), name="fine", T="float32")
    return b.graph()


def lost_recv(incarnation: int) -> Graph:
    """`lost` on worker:0 receives what ps:0 never sends."""
    attrs = {
        "tensor_name": "edge_0_nothing",
        "send_device": str(PS_0.device()),
        "recv_device": str(WORKER_0.device()),
        "send_device_incarnation": incarnation,
        "client_terminated": False,
        "tensor_type": "float32",
        "edge_kind": "data",
    }
    specs = (TensorSpec("float32", ()),)
    lost = Node("lost", "_Recv", requested_device="/job:worker/task:0", attrs=attrs, specs=specs)
    b = GraphBuilder()
    with b.device("/job:ps/task:0"):
        b.const(1.0, name="one")
    return Graph([lost, *b.graph().nodes])
