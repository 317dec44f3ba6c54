"""A partition made ready to run: kernels bound, recording sites and keys interned, values numbered.

Done once, when a graph is registered, so that a step looks nothing up.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from tracer.model.cluster import DeviceName, TaskName
from tracer.model.graph import HANDLES, REF_VARIABLE, Graph, Input, Node, Partition
from tracer.model.step import RendezvousKey
from tracer.ops.kernel import Kernel, OpContext, OpDef, OpError
from tracer.ops.registry import UnknownOp
from tracer.ops.variable import read
from tracer.runtime.devices import Device
from tracer.runtime.gpu_side import GpuSide
from tracer.runtime.interfaces import StepError
from tracer.runtime.worker_env import WorkerEnv


class Kind(Enum):
    KERNEL = auto()
    SEND = auto()
    RECV = auto()
    ARG = auto()  #: a feed of a task without cluster: taken from the call, not from a rendezvous
    RETVAL = auto()


KINDS: Mapping[str, Kind] = {
    "_Send": Kind.SEND,
    "_HostSend": Kind.SEND,
    "_Recv": Kind.RECV,
    "_HostRecv": Kind.RECV,
    "_Arg": Kind.ARG,
    "_Retval": Kind.RETVAL,
}


@dataclass(frozen=True, slots=True)
class PreparedNode:
    """`inputs` and `outputs` are value numbers; `after`: positions of nodes that must have ended.

    `variable` is the value number of the variable that the node reads or writes, -1 if none. `key`
    is the rendezvous key of a transfer, or the name of an argument or result; `source` the task
    that a `_Recv` pulls from, None if it is this one. A `_Recv`'s or `_Arg`'s kernel takes what
    came. A `_Send` or `_Retval` that `is_read` gets a ref variable: its kernel reads the value.

    On a GPU, `site` is that of a launch and `run_site` that of the op on its stream, 0 where there
    is nothing to launch. `sends` of a `_Send` is what hands a value of its GPU over.
    """

    name: str
    kind: Kind
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    after: tuple[int, ...]
    kernel: Kernel
    site: int
    variable: int = -1
    writes: bool = False
    key: str = ""
    key_number: int = 0
    source: TaskName | None = None
    is_read: bool = False
    run_site: int = 0
    sends: Kernel | None = None


@dataclass(frozen=True, slots=True)
class PreparedPartition:
    """Nodes in an order where inputs come first and a `_Send` follows its source."""

    device: Device
    task: str
    nodes: tuple[PreparedNode, ...]
    num_values: int
    site: int


#: (node, op, context) → kernel; stateful ones are shared by name in a session (TF's op segment)
Bind = Callable[[Node, OpDef, OpContext], Kernel]


def prepare(
    env: WorkerEnv, partition: Partition, bind: Bind, handle: str, graph_id: str
) -> PreparedPartition:
    """Raises StepError if a node cannot be bound."""
    device = next(d for d in env.devices if str(d.name) == partition.place)
    attributes = {
        **device.told,
        "vizdist.graph.handle": handle,
        "vizdist.graph.id": graph_id,
    }
    site = env.recorder.site(
        "partition.run",
        name=str(device.name.short),
        lane=f"partition {device.name.short}",
        attributes=attributes,
    )
    nodes, num_values = _Preparation(env, device, bind, partition.graph).nodes()
    return PreparedPartition(device, env.name, nodes, num_values, site)


def in_running_order(graph: Graph) -> list[str]:
    """Inputs first; of what could be next, `_Send`s first, so that values leave as they appear."""
    nodes = sorted(graph.nodes, key=lambda node: KINDS.get(node.op) is not Kind.SEND)
    return Graph(nodes).topological()


def rendezvous_key(node: Node) -> str:
    """The key of a `_Send` or `_Recv`; the tensor's name for `_Arg` and `_Retval`."""
    attrs = node.attrs
    if "send_device" not in attrs:
        return str(attrs["tensor_name"])
    return str(
        RendezvousKey(
            attrs["send_device"],
            int(attrs["send_device_incarnation"]),
            attrs["recv_device"],
            attrs["tensor_name"],
        )
    )


class _Preparation:
    def __init__(self, env: WorkerEnv, device: Device, bind: Bind, graph: Graph) -> None:
        self._env = env
        self._device = device
        self._bind = bind
        self._graph = graph
        self._context = OpContext(device.name, device.torch_device, env.resources, env.clock)
        self._order = in_running_order(graph)
        self._position = {name: i for i, name in enumerate(self._order)}
        self._first_value: dict[str, int] = {}
        self._num_values = 0
        self._gpu: GpuSide | None = None
        if device.gpu is not None:
            self._gpu = GpuSide(env.recorder, device, graph, self._op)

    def nodes(self) -> tuple[tuple[PreparedNode, ...], int]:
        return tuple(self._node(self._graph[name]) for name in self._order), self._num_values

    def _node(self, node: Node) -> PreparedNode:
        op = self._op(node)
        num_outputs, kernel = self._bound(node, op)
        self._first_value[node.name] = self._num_values
        outputs = tuple(range(self._num_values, self._num_values + num_outputs))
        self._num_values += num_outputs
        before = {*(i.node for i in node.inputs), *node.control_inputs}
        kind = KINDS.get(node.op, Kind.KERNEL)
        transfers = kind in (Kind.SEND, Kind.RECV)
        key = "" if kind is Kind.KERNEL else rendezvous_key(node)
        return PreparedNode(
            node.name,
            kind,
            tuple(map(self._value, node.inputs)),
            outputs,
            tuple(sorted(self._position[name] for name in before)),
            kernel,
            self._transfer_site(node, kind) if transfers else self._op_site(node, op),
            variable=self._variable_of(node, op),
            writes=op.writes,
            key=key,
            key_number=self._env.recorder.key(key) if transfers else 0,
            source=self._source(node) if kind is Kind.RECV else None,
            is_read=kind in (Kind.SEND, Kind.RETVAL) and kernel is read,
            run_site=self._gpu.run_site(node, op) if self._gpu else 0,
            sends=self._gpu.sender(node) if self._gpu and kind is Kind.SEND else None,
        )

    def _op(self, node: Node) -> OpDef:
        try:
            return self._env.lookup(node.op)
        except UnknownOp as error:
            raise self._wrong(node, str(error)) from error

    def _bound(self, node: Node, op: OpDef) -> tuple[int, Kernel]:
        """Attributes come from a person or off the wire, so anything may be wrong with them."""
        try:
            return op.outputs_of(node), self._kernel(node, op)
        except KeyError as error:
            raise self._wrong(node, f"{node.op} needs the attribute {error}") from error
        except Exception as error:
            reason = OpError.of(error)
            raise self._wrong(node, reason.message, reason.code) from error

    def _wrong(self, node: Node, message: str, code: str = "INVALID_ARGUMENT") -> StepError:
        return StepError(code, message, task=self._env.name, node=node.name)

    def _kernel(self, node: Node, op: OpDef) -> Kernel:
        ports = {
            port
            for port, source in enumerate(node.inputs)
            if port >= op.num_variables and self._graph[source.node].op == REF_VARIABLE
        }
        if KINDS.get(node.op) in (Kind.SEND, Kind.RETVAL):
            return read if ports else _as_is
        if op.is_transfer:
            return self._gpu.receiver(node) if self._gpu else _as_is
        kernel = self._bound_kernel(node, op)
        return _reading(kernel, ports) if ports else kernel

    def _bound_kernel(self, node: Node, op: OpDef) -> Kernel:
        if self._gpu is None:
            return self._bind(node, op, self._context)
        kernel = self._bind(node, op, self._gpu.context(node, self._context))
        return self._gpu.kernel(node, op, kernel)

    def _value(self, source: Input) -> int:
        return self._first_value[source.node] + source.port

    def _variable_of(self, node: Node, op: OpDef) -> int:
        if not node.inputs or op.is_transfer:
            return -1
        if op.reads or op.writes or self._graph[node.inputs[0].node].op in HANDLES:
            return self._value(node.inputs[0])
        return -1

    def _source(self, node: Node) -> TaskName | None:
        task = DeviceName.parse(node.attrs["send_device"]).task_name
        return None if task == self._env.task else task

    def _op_site(self, node: Node, op: OpDef) -> int:
        """On a GPU the host only launches what is more than a view."""
        attributes = {"vizdist.op": node.op, "vizdist.node": node.name, **self._device.told}
        if self._gpu is None:
            return self._site("op.run", node, "executor", attributes)
        kind = "op.run" if op.is_view else "op.launch"
        return self._site(kind, node, "launch", attributes)

    def _transfer_site(self, node: Node, kind: Kind) -> int:
        attributes = {
            "vizdist.node": node.name,
            "vizdist.edge.kind": node.attrs.get("edge_kind", "data"),
            **self._device.told,
        }
        if kind is Kind.SEND:
            lane = "executor" if self._gpu is None else "launch"
            return self._site("rendezvous.send", node, lane, attributes)
        return self._site("rendezvous.recv", node, "recv", attributes)

    def _site(self, kind: str, node: Node, lane: str, attributes: Mapping[str, Any]) -> int:
        return self._env.recorder.site(
            kind,
            name=node.name,
            lane=f"{lane} {self._device.name.short}",
            attributes=attributes,
        )


def _as_is(value: Any) -> Any:
    return value


def _reading(kernel: Kernel, ports: set[int]) -> Kernel:
    """The kernel for values in place of the ref variables at `ports`, each as it is now."""

    def call(*inputs: Any) -> Any:
        return kernel(*(read(x) if port in ports else x for port, x in enumerate(inputs)))

    return call
