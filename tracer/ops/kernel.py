"""What an op is, and what it is handed.

An op is *bound* once, when its graph is registered: `OpDef.bind(node, context)` returns a plain
function of the input tensors, so that running a node costs one call. The Protocols are what kernels
may ask of the runtime, which implements them.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import torch

from tracer.model.cluster import DeviceName
from tracer.model.collective import Collective
from tracer.model.graph import Node, TensorSpec
from tracer.model.step import SpanContext

Resource = TypeVar("Resource")

#: (*inputs) → one tensor, a tuple of tensors for several outputs; ignored where an op has no output
Kernel = Callable[..., Any]

#: takes a wait back: the kernel then ends with CANCELLED, unless it has ended meanwhile
Cancel = Callable[[], None]

#: a Kernel that waits: (done, *inputs) → None, or how to take the wait back if the step fails
#: meanwhile; `done`: Done
AsyncKernel = Callable[..., Cancel | None]

#: (node, inputs as far as they are known) → the outputs' specs; see tracer.ops.shapes
Infer = Callable[[Node, list[Any]], tuple[TensorSpec, ...]]


class OpError(Exception):
    """Why a kernel failed: `code` is a gRPC code name, the text says what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @classmethod
    def of(cls, error: BaseException) -> "OpError":
        """Any exception of a kernel, with TF's code for it: wrong operands are INVALID_ARGUMENT."""
        match error:
            case OpError():
                return error
            case MemoryError() | torch.OutOfMemoryError():
                return cls("RESOURCE_EXHAUSTED", str(error))
            case RuntimeError() | ValueError() | TypeError() | IndexError():
                return cls("INVALID_ARGUMENT", str(error))
            case _:
                return cls("INTERNAL", f"{type(error).__name__}: {error}")


class Dead:
    """What stands for the value of a branch that was not taken; there is one, DEAD."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "DEAD"


DEAD: Final = Dead()


class Done(Protocol):
    """How an asynchronous kernel ends: once, on any thread, perhaps before its call has returned.

    `result` is what a kernel would return, `error` why there is none.
    """

    def __call__(self, result: Any = None, error: Exception | None = None) -> None: ...


class StepDone(Done, Protocol):
    """The same for a kernel that must know what it is part of, as collectives must.

    `step` is the runtime's side of the step; `context` is what the kernel's spans lie under.
    """

    @property
    def step(self) -> Any: ...

    @property
    def context(self) -> SpanContext: ...


#: (done, what the rank brings, group key, instance key) → how to take the wait back
JoinCollective = Callable[[StepDone, torch.Tensor, int, int], Cancel]


class CollectiveExecutor(Protocol):
    """Runs collectives among the devices of a cluster (TF `CollectiveExecutorMgr`)."""

    @property
    def is_native(self) -> bool:
        """All collectives run in torch.distributed, whatever their nodes say."""
        ...

    def rank(self, collective: Collective) -> JoinCollective:
        """What one rank's node is run by."""
        ...


class _NoCollectives:
    is_native = False

    def rank(self, collective: Collective) -> JoinCollective:
        raise OpError("FAILED_PRECONDITION", f"{collective.node} runs in a task only")


_NO_COLLECTIVES: Final = _NoCollectives()


class Clock(Protocol):
    def now_ns(self) -> int:
        """ns since the epoch; never goes back."""
        ...


class Event(Protocol):
    """A point in a stream's work."""

    def synchronize(self) -> None:
        """Waits until the stream has come to it."""
        ...

    def elapsed_time(self, end_event: Any) -> float:
        """ms by the device's own clock from here to `end_event`; both must have come."""
        ...


class Stream(Protocol):
    """A GPU's queue of work: what is launched on it runs later, in order."""

    def current(self) -> AbstractContextManager[object]:
        """What this thread launches inside goes on this stream."""
        ...

    def record(self) -> Event:
        """Marks the end of what was launched so far."""
        ...

    def wait(self, event: Event) -> None:
        """What is launched from here on runs after `event`; the host goes on."""
        ...

    def hold(self, tensor: torch.Tensor) -> None:
        """Nobody gets the tensor's memory before this stream is done with what it was given."""
        ...

    def pinned(self, like: torch.Tensor) -> torch.Tensor:
        """Host memory for a copy of the tensor, which a GPU can write by itself."""
        ...

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        """A host tensor, brought into memory that a GPU can read by itself."""
        ...

    def to_host(self, tensor: torch.Tensor, pinned: torch.Tensor) -> None:
        """Launches a copy into pinned memory."""
        ...

    def to_device(self, pinned: torch.Tensor) -> torch.Tensor:
        """Launches a copy out of pinned memory."""
        ...


class Variable(Protocol):
    """A mutable tensor that lives in a task, not in a session.

    Updates replace `value` (never write into it), so that a tensor once read is a snapshot.
    `version` counts assignments.
    """

    name: str
    value: torch.Tensor | None
    version: int

    def update(self, change: Callable[[torch.Tensor | None], torch.Tensor]) -> torch.Tensor:
        """Sets `value = change(value)` under the variable's lock, counts a version."""
        ...


class ResourceManager(Protocol):
    @property
    def checkpoints(self) -> Path | None:
        """The only folder in which tensors are saved and looked for; None: there is none."""
        ...

    def variable(self, container: str, name: str) -> Variable:
        """The variable of that name, made (without a value) on first use."""
        ...

    def resource(self, container: str, name: str, make: Callable[[], Resource]) -> Resource:
        """Whatever else ops keep in a task (a queue), made on first use.

        Raises OpError if what has that name is of another kind.
        """
        ...


@dataclass(frozen=True, slots=True)
class OpContext:
    """What a kernel is bound to: where it runs and whom it may ask."""

    device: DeviceName
    torch_device: torch.device
    resources: ResourceManager
    clock: Clock
    collectives: CollectiveExecutor = _NO_COLLECTIVES


@dataclass(frozen=True, slots=True)
class OpDef:
    """One row of the registry.

    `num_outputs` is a number or a function of the node. `infer` gives the output specs; None: the
    kernel is run on meta tensors. `reads` / `writes` say whether the op reads or assigns the
    variable behind its input 0, which makes it go with that variable; its first `num_variables`
    inputs are variables themselves, all others values.
    `is_transfer` marks `_Send`/`_Recv`, which the executor runs itself. `is_view`: its outputs are
    there without work for a GPU, since they are its inputs or share their memory. `host_inputs` and
    `host_outputs` are the ports that hold values for the host (shapes, axes), also where the kernel
    runs on a GPU (TF's `HostMemory`); -1 is the last one.
    `is_async`: it binds to an AsyncKernel, which waits without a thread (a queue that is empty):
    its call returns at once and `done` ends the node. `is_control_flow`: it gives or takes DEAD,
    and is never computed ahead of a step.
    `drops`: it may leave out what it was given; its kernel returns whether it did, which its span
    tells.
    `device_types` are those that have a kernel for it; without any, all have.
    `alike` picks the inputs that must be of one dtype.
    """

    name: str
    bind: Callable[[Node, OpContext], Kernel]
    num_outputs: int | Callable[[Node], int] = 1
    infer: Infer | None = None
    stateful: bool = False
    reads: bool = False
    writes: bool = False
    num_variables: int = 0
    is_transfer: bool = False
    is_view: bool = False
    is_async: bool = False
    is_control_flow: bool = False
    drops: bool = False
    says: str = ""
    host_inputs: tuple[int, ...] = ()
    host_outputs: tuple[int, ...] = ()
    device_types: tuple[str, ...] = ()
    alike: slice | None = None

    def outputs_of(self, node: Node) -> int:
        return self.num_outputs if isinstance(self.num_outputs, int) else self.num_outputs(node)


def direct(name: str, kernel: Kernel, **fields: Any) -> OpDef:
    """An op whose kernel needs neither attributes nor context."""
    return OpDef(name, lambda _node, _context: kernel, **fields)
