"""Small graphs over a parameter server and two workers."""

from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.graph import Graph, Input, Node, TensorSpec
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


def transfer(edge: str, incarnation: int, source: TaskName, target: TaskName) -> dict[str, object]:
    """The attributes of a `_Send` or `_Recv` that somebody wrote by hand."""
    return {
        "tensor_name": edge,
        "send_device": str(source.device()),
        "recv_device": str(target.device()),
        "send_device_incarnation": incarnation,
        "client_terminated": False,
        "tensor_type": "float32",
        "T": "float32",
        "edge_kind": "data",
    }


def recv(name: str, attrs: dict[str, object], task: TaskName) -> Node:
    device = f"/job:{task.job}/task:{task.index}"
    specs = (TensorSpec("float32", ()),)
    return Node(name, "_Recv", requested_device=device, attrs=attrs, specs=specs)


def send(name: str, attrs: dict[str, object], task: TaskName, value: str) -> Node:
    device = f"/job:{task.job}/task:{task.index}"
    return Node(name, "_Send", (Input(value),), requested_device=device, attrs=attrs)


def lost_recv(incarnation: int) -> Graph:
    """`lost` on worker:0 receives what ps:0 never sends."""
    lost = recv("lost", transfer("edge_0_nothing", incarnation, PS_0, WORKER_0), WORKER_0)
    b = GraphBuilder()
    with b.device("/job:ps/task:0"):
        b.const(1.0, name="one")
    return Graph([lost, *b.graph().nodes])


def lost_send(incarnation: int) -> Graph:
    """`kept` on ps:0 sends `one` to worker:0, where nobody receives it."""
    b = GraphBuilder()
    with b.device("/job:ps/task:0"):
        b.const(1.0, name="one")
    attrs = transfer("edge_0_one", incarnation, PS_0, WORKER_0)
    return Graph([*b.graph().nodes, send("kept", attrs, PS_0, "one")])


def deadlock(of_worker_0: int, of_worker_1: int) -> Graph:
    """Each worker sends what it makes of the other's value: `first` and `second` wait for ever."""
    to_1 = transfer("edge_0_first", of_worker_0, WORKER_0, WORKER_1)
    to_0 = transfer("edge_1_second", of_worker_1, WORKER_1, WORKER_0)
    return Graph(
        [
            recv("first", to_0, WORKER_0),
            recv("second", to_1, WORKER_1),
            send("first_send", to_1, WORKER_0, "first"),
            send("second_send", to_0, WORKER_1, "second"),
        ]
    )
