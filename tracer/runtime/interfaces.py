"""What masters and workers are asked for, near or far.

The same Protocols are served in process (near) and over gRPC (far, `tracer.rpc`); tests run over
both. Methods and messages are named after TF's `worker_interface.h` and `master_interface.h`. Calls
that wait for values take a `done` callback, which runs on the thread that has the value; none
blocks a thread.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol

import torch

from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.collective import Arrival, Execution
from tracer.model.graph import Graph, Node
from tracer.model.step import SpanContext

_NO_TENSORS: Mapping[str, torch.Tensor] = MappingProxyType({})

TENSOR_LIMIT_BYTES = 1 << 31  #: of one tensor, in a task and on the wire


class StepError(Exception):
    """Why a call failed.

    `code` is a gRPC code name (`UNAVAILABLE`, `INVALID_ARGUMENT`, `ABORTED` …); `task` and `node`
    say where, empty if unknown; `derived` marks the echo of another failure, which is never
    reported first (TF `status.h`, derived statuses).
    """

    def __init__(
        self, code: str, message: str, *, task: str = "", node: str = "", derived: bool = False
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.task = task
        self.node = node
        self.derived = derived

    def as_derived(self) -> "StepError":
        return StepError(self.code, self.message, task=self.task, node=self.node, derived=True)


@dataclass(frozen=True, slots=True)
class DeviceAttributes:
    """A device as its task describes it. `physical` is the torch device behind it."""

    name: str
    incarnation: int
    physical: str = "cpu"


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """`is_finished`: the client of this task is done, or it never had one."""

    devices: tuple[DeviceAttributes, ...]
    pid: int = 0
    is_finished: bool = False


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """What a client asks of its session (TF `ConfigProto`).

    `device_filters` are partial names such as `/job:ps` or `/job:worker/task:0`: only tasks that
    one of them admits take part, and always the master's own. With `isolate_session_state` the
    session has variables of its own, which go with it. `client` is who asks; empty: one in the
    master's process.
    """

    device_filters: tuple[str, ...] = ()
    isolate_session_state: bool = False
    client: str = ""


SHARED = SessionOptions()

#: which call of a step this is; a partial run has several, all others are `whole`
Call = Literal["whole", "part", "last"]


class RunGraphRequest(NamedTuple):
    """One worker's part of a step. `feeds` and `fetch_keys` are by rendezvous key."""

    session: str
    graph_handle: str
    step_id: int
    context: SpanContext
    feeds: Mapping[str, torch.Tensor] = _NO_TENSORS
    fetch_keys: tuple[str, ...] = ()
    call: Call = "whole"


class RunGraphResult(NamedTuple):
    """Fetched tensors by rendezvous key, or the error that ended this part."""

    fetched: Mapping[str, torch.Tensor] = _NO_TENSORS
    error: StepError | None = None


class Received(NamedTuple):
    """What a recv gets: a tensor (None if dead) and the span that sent it, or an error.

    `wait_ns`: how long a request from another task waited there until the value existed, counted
    only where the request is sampled. `deferred`: it came before that task had heard of the step.
    """

    tensor: torch.Tensor | None = None
    is_dead: bool = False
    send_span: int = 0
    error: StepError | None = None
    wait_ns: int = 0
    deferred: bool = False


RunDone = Callable[[RunGraphResult], None]
RecvDone = Callable[[Received], None]
ExecutionDone = Callable[[Execution | StepError], None]


class WorkerInterface(Protocol):
    """A worker as masters and other workers see it (TF `worker_interface.h`)."""

    task: TaskName

    def get_status(self, context: SpanContext | None = None, /) -> WorkerStatus:
        """`context` is what the call belongs to, None: to the run."""
        ...

    def create_worker_session(
        self,
        session: str,
        cluster: ClusterSpec,
        isolated: bool = False,
        context: SpanContext | None = None,
    ) -> None:
        """`isolated`: with variables of its own. `context` as of `get_status`."""
        ...

    def delete_worker_session(self, session: str) -> None: ...

    def register_graph(
        self, session: str, graph: Graph, context: SpanContext, graph_id: str = ""
    ) -> str:
        """Takes this worker's partition, cuts it by device; returns its graph handle.

        `graph_id` names the client graph in the trace, the same for every worker.
        """
        ...

    def deregister_graph(self, session: str, graph_handle: str) -> None: ...

    def run_graph(self, request: RunGraphRequest, done: RunDone) -> None: ...

    def recv_tensor(
        self, step_id: int, key: str, request_id: int, context: SpanContext, done: RecvDone
    ) -> None:
        """Pulls one tensor; served when it exists, also if it is asked for before run_graph."""
        ...

    def complete_instance(
        self, arrival: Arrival, context: SpanContext, done: ExecutionDone
    ) -> None:
        """A rank of a collective that this task leads has arrived; `done` once all have."""
        ...

    def start_abort(self, step_id: int, error: StepError) -> None:
        """Ends a step there, or an execution of a collective, whose ids are longer."""
        ...

    def cleanup_graph(self, step_id: int) -> None:
        """Forgets the step's rendezvous; rides with the next message where it can."""
        ...

    def cleanup_all(self, containers: tuple[str, ...] = ()) -> None:
        """Empties resource containers; without names the default one."""
        ...


class ServedWorker(WorkerInterface, Protocol):
    """What a server asks of the worker that lives in its process."""

    def mark_recv_finished(self, request_id: int) -> None:
        """The answer to this RecvTensor arrived; it need not be kept."""
        ...

    def peer_was_lost(self, task: str, error: StepError) -> None:
        """The connection to another task broke."""
        ...


class RunStepRequest(NamedTuple):
    """One client request. Names are `node:port` for feeds and fetches, `node` for targets.

    `partial_run` is the handle of a partial run that this is a call of. `request_id` is new for
    each request that is sent, so that a master notices one that came twice; 0 where nothing is
    sent.
    """

    session: str
    feeds: Mapping[str, torch.Tensor]
    fetches: tuple[str, ...]
    targets: tuple[str, ...]
    context: SpanContext
    partial_run: str = ""
    request_id: int = 0


class RunCallableRequest(NamedTuple):
    """A step whose names the master knows by `handle`; feeds come in their order."""

    session: str
    handle: int
    feeds: tuple[torch.Tensor, ...]
    context: SpanContext
    request_id: int = 0


class RunStepResult(NamedTuple):
    """`was_made`: the master had the client graph of this request already."""

    fetched: Mapping[str, torch.Tensor]
    step_id: int
    was_made: bool = True


StepDone = Callable[[RunStepResult | StepError], None]


class RequestNames(NamedTuple):
    """What a kind of request feeds, fetches and only runs."""

    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    targets: tuple[str, ...]


class MasterInterface(Protocol):
    """A master as clients see it (TF `master_interface.h`)."""

    def create_session(
        self, graph: Graph, context: SpanContext, options: SessionOptions = SHARED
    ) -> str: ...

    def extend_session(self, session: str, nodes: tuple[Node, ...], version: int) -> int:
        """Adds nodes to the graph of this version (from 0); returns the next version."""
        ...

    def partial_run_setup(self, session: str, names: RequestNames, request_id: int = 0) -> str:
        """Begins a step whose feeds and fetches come in several `run_step`s; returns its handle."""
        ...

    def run_step(self, request: RunStepRequest) -> RunStepResult: ...

    def make_callable(self, session: str, names: RequestNames, request_id: int = 0) -> int:
        """Makes the client graph of these names now; returns the handle to run it by."""
        ...

    def run_callable(self, request: RunCallableRequest) -> RunStepResult: ...

    def release_callable(self, session: str, handle: int) -> None: ...

    def close_session(self, session: str) -> None: ...

    def list_devices(self, session: str) -> tuple[DeviceAttributes, ...]: ...

    def reset(self, containers: tuple[str, ...] = (), device_filters: tuple[str, ...] = ()) -> None:
        """Closes all sessions of this master and empties containers in the tasks it reaches."""
        ...


class ServedMaster(MasterInterface, Protocol):
    """What a server asks of the master that lives in its process.

    The same calls for a thread that must not wait; `done` runs where the step ends.
    """

    def start_step(self, request: RunStepRequest, done: StepDone) -> None: ...

    def start_callable(self, request: RunCallableRequest, done: StepDone) -> None: ...
