"""A partition made ready to run: kernels bound, recording sites and keys interned, values numbered.

Done once, when a graph is registered, so that a step looks nothing up.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any, TypeVar

from tracer.model.cluster import DeviceName, TaskName
from tracer.model.graph import HANDLES, REFS, Graph, GraphError, Input, Node, Partition
from tracer.model.step import RendezvousKey
from tracer.ops.kernel import Kernel, OpContext, OpDef, OpError
from tracer.ops.registry import UnknownOp
from tracer.ops.variable import read
from tracer.passes.frames import CONTROL_FLOW, ENTERS, ROOT, Frame, Frames
from tracer.runtime.devices import Device
from tracer.runtime.gpu_side import GpuSide
from tracer.runtime.interfaces import StepError
from tracer.runtime.running_order import in_running_order
from tracer.runtime.worker_env import WorkerEnv

T = TypeVar("T")


class Kind(Enum):
    KERNEL = auto()
    SEND = auto()
    RECV = auto()
    ARG = auto()  #: a feed of a task without cluster: taken from the call, not from a rendezvous
    RETVAL = auto()
    ASYNC = auto()


class Flow(Enum):
    """How a node differs in what its inputs and its end bring about."""

    MERGE = auto()
    ENTER = auto()
    EXIT = auto()
    NEXT_ITERATION = auto()
    TRIGGER = auto()  #: is never dead


KINDS: Mapping[str, Kind] = {
    "_Send": Kind.SEND,
    "_HostSend": Kind.SEND,
    "_Recv": Kind.RECV,
    "_HostRecv": Kind.RECV,
    "_Arg": Kind.ARG,
    "_Retval": Kind.RETVAL,
}
FLOWS: Mapping[str, Flow] = {
    "Merge": Flow.MERGE,
    "Enter": Flow.ENTER,
    "RefEnter": Flow.ENTER,
    "Exit": Flow.EXIT,
    "NextIteration": Flow.NEXT_ITERATION,
    "ControlTrigger": Flow.TRIGGER,
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

    A kernel that `drops` returns whether it left out what it was given.

    `frame` is the loop in which it runs, `opens` the one that an Enter takes its value to, to every
    iteration if it `is_invariant`. `index` counts arguments and results.
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
    drops: bool = False
    key: str = ""
    key_number: int = 0
    source: TaskName | None = None
    is_read: bool = False
    run_site: int = 0
    sends: Kernel | None = None
    controls: tuple[int, ...] = ()
    flow: Flow | None = None
    frame: str = ROOT
    opens: str = ""
    is_invariant: bool = False
    index: int = 0


@dataclass(frozen=True, slots=True)
class PreparedFrame:
    """A loop, or the root; both sites are those of its recording."""

    name: str
    parallel_iterations: int = 1
    frame_site: int = 0
    iteration_site: int = 0


@dataclass(frozen=True, slots=True)
class PreparedPartition:
    """Its nodes in running order.

    One that `is_straight` has no control flow: it runs each node once. One that `is_async` has
    kernels that wait.
    """

    device: Device
    task: str
    nodes: tuple[PreparedNode, ...]
    num_values: int
    site: int
    is_straight: bool
    is_async: bool
    frames: Mapping[str, PreparedFrame]


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
    preparation = _Preparation(env, device, bind, partition.graph)
    nodes = preparation.nodes()
    return PreparedPartition(
        device,
        env.name,
        nodes,
        preparation.num_values,
        site,
        preparation.is_straight,
        preparation.is_async,
        preparation.frames(),
    )


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
        self._context = OpContext(
            device.name, device.torch_device, env.resources, env.clock, env.collectives
        )
        self._ops = {node.name: self._op(node) for node in graph.nodes}
        self._order = in_running_order(graph, self._ops)
        self._position = {name: i for i, name in enumerate(self._order)}
        self._first_value: dict[str, int] = {}
        self.num_values = 0
        for name in self._order:
            self._first_value[name] = self.num_values
            self.num_values += self._num_outputs(graph[name])
        self._frames = self._frames_of(graph)
        self._gpu: GpuSide | None = None
        if device.gpu is not None:
            self._gpu = GpuSide(env.recorder, device, graph, self._op)

    @property
    def is_straight(self) -> bool:
        return not any(op.is_control_flow for op in self._ops.values())

    @property
    def is_async(self) -> bool:
        return any(op.is_async for op in self._ops.values())

    def nodes(self) -> tuple[PreparedNode, ...]:
        return tuple(self._node(self._graph[name], self._ops[name]) for name in self._order)

    def frames(self) -> dict[str, PreparedFrame]:
        loops = {frame.name: self._frame(frame) for frame in self._frames or ()}
        return {ROOT: PreparedFrame(ROOT), **loops}

    def _frames_of(self, graph: Graph) -> Frames | None:
        if not any(node.op in CONTROL_FLOW for node in graph.nodes):
            return None
        try:
            return Frames(graph)
        except GraphError as error:
            raise StepError("INVALID_ARGUMENT", str(error), task=self._env.name) from error

    def _frame(self, frame: Frame) -> PreparedFrame:
        told: dict[str, Any] = {"vizdist.frame.name": frame.name, **self._device.told}
        site = partial(
            self._env.recorder.site,
            name=frame.name,
            lane=f"loops {self._device.name.short}",
        )
        width = {"vizdist.parallel_iterations": frame.parallel_iterations}
        return PreparedFrame(
            frame.name,
            frame.parallel_iterations,
            site("frame.run", attributes=told | width),
            site("iteration.run", attributes=told),
        )

    def _node(self, node: Node, op: OpDef) -> PreparedNode:
        kernel = self._bound(node, op)
        first = self._first_value[node.name]
        outputs = tuple(range(first, first + self._num_outputs(node)))
        before = {*(i.node for i in node.inputs), *node.control_inputs}
        kind = Kind.ASYNC if op.is_async else KINDS.get(node.op, Kind.KERNEL)
        transfers = kind in (Kind.SEND, Kind.RECV)
        key = rendezvous_key(node) if node.op in KINDS else ""
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
            drops=op.drops,
            key=key,
            key_number=self._env.recorder.key(key) if transfers else 0,
            source=self._source(node) if kind is Kind.RECV else None,
            is_read=kind in (Kind.SEND, Kind.RETVAL) and kernel is read,
            run_site=self._gpu.run_site(node, op, self._told(node)) if self._gpu else 0,
            sends=self._gpu.sender(node) if self._gpu and kind is Kind.SEND else None,
            controls=tuple(self._position[name] for name in node.control_inputs),
            flow=FLOWS.get(node.op),
            frame=self._frame_of(node),
            opens=self._frames.of(node.name) if self._frames and node.op in ENTERS else "",
            is_invariant=bool(node.attrs.get("is_constant")),
            index=int(node.attrs.get("index", 0)),
        )

    def _frame_of(self, node: Node) -> str:
        """The loop in which the node runs."""
        return self._frames.of_inputs(node.name) if self._frames else ROOT

    def _op(self, node: Node) -> OpDef:
        try:
            return self._env.lookup(node.op)
        except UnknownOp as error:
            raise self._wrong(node, str(error)) from error

    def _num_outputs(self, node: Node) -> int:
        return self._tried(node, lambda: self._ops[node.name].outputs_of(node))

    def _bound(self, node: Node, op: OpDef) -> Kernel:
        return self._tried(node, lambda: self._kernel(node, op))

    def _tried(self, node: Node, read: Callable[[], T]) -> T:
        """Attributes come from a person or off the wire, so anything may be wrong with them."""
        try:
            return read()
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
            if port >= op.num_variables and self._graph[source.node].op in REFS
        }
        if KINDS.get(node.op) in (Kind.SEND, Kind.RETVAL):
            return read if ports else _as_is
        if op.is_transfer:
            return self._gpu.receiver(node) if self._gpu else _as_is
        kernel = self._bound_kernel(node, op)
        # an asynchronous kernel is told first how it ends
        return _reading(kernel, {port + op.is_async for port in ports}) if ports else kernel

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
        attributes = {"vizdist.op": node.op, "vizdist.node": node.name, **self._told(node)}
        if self._gpu is None:
            return self._site("op.run", node, "executor", attributes)
        kind = "op.run" if op.is_view or op.is_async else "op.launch"
        return self._site(kind, node, "launch", attributes)

    def _transfer_site(self, node: Node, kind: Kind) -> int:
        attributes = {
            "vizdist.node": node.name,
            "vizdist.edge.kind": node.attrs.get("edge_kind", "data"),
            **self._told(node),
        }
        if kind is Kind.SEND:
            lane = "executor" if self._gpu is None else "launch"
            return self._site("rendezvous.send", node, lane, attributes)
        return self._site("rendezvous.recv", node, "recv", attributes)

    def _told(self, node: Node) -> dict[str, str]:
        """What spans say of where the node runs."""
        frame = self._frame_of(node)
        return self._device.told | ({"vizdist.frame.name": frame} if frame else {})

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
