"""A worker and a master without graphs: values wait in a real rendezvous, runs answer at once."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.collective import Arrival, Execution
from tracer.model.graph import Graph, Node
from tracer.model.step import SpanContext
from tracer.runtime.interfaces import (
    SHARED,
    DeviceAttributes,
    ExecutionDone,
    RecvDone,
    RequestNames,
    RunCallableRequest,
    RunDone,
    RunGraphRequest,
    RunGraphResult,
    RunStepRequest,
    RunStepResult,
    SessionOptions,
    StepDone,
    StepError,
    WorkerStatus,
)
from tracer.runtime.rendezvous import LocalRendezvous


@dataclass
class FakeWorker:
    task: TaskName
    tables: dict[int, LocalRendezvous] = field(default_factory=dict)
    sessions: dict[str, ClusterSpec] = field(default_factory=dict)
    isolated: list[str] = field(default_factory=list)
    emptied: list[str] = field(default_factory=list)
    graphs: dict[str, Graph] = field(default_factory=dict)
    aborted: dict[int, StepError] = field(default_factory=dict)
    cleaned: list[int] = field(default_factory=list)
    contexts: list[SpanContext] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)
    running: dict[int, RunDone] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)
    finished: list[int] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def table(self, step_id: int) -> LocalRendezvous:
        return self.tables.setdefault(step_id, LocalRendezvous())

    def get_status(self, _: SpanContext | None = None, /) -> WorkerStatus:
        return WorkerStatus((DeviceAttributes(str(self.task.device()), 2**64 - 1),), pid=7)

    def create_worker_session(
        self,
        session: str,
        cluster: ClusterSpec,
        isolated: bool = False,
        context: SpanContext | None = None,
    ) -> None:
        self.sessions[session] = cluster
        if isolated:
            self.isolated.append(session)

    def delete_worker_session(self, session: str) -> None:
        if session not in self.sessions:
            raise StepError("ABORTED", f"Session handle is not found: {session}", node="n")
        del self.sessions[session]

    def register_graph(
        self, session: str, graph: Graph, context: SpanContext, graph_id: str = ""
    ) -> str:
        self.graphs[graph_id] = graph
        self.contexts.append(context)
        return "handle"

    def deregister_graph(self, session: str, graph_handle: str) -> None:
        raise ValueError("a fault of the runtime")

    def run_graph(self, request: RunGraphRequest, done: RunDone) -> None:
        """Answers the feeds as fetches; `wait` waits for an abort."""
        self.contexts.append(request.context)
        self.threads.add(threading.current_thread().name)
        if request.graph_handle == "wait":
            self.running[request.step_id] = done
        elif request.graph_handle == "fail":
            raise StepError("INVALID_ARGUMENT", "no such graph", task="ps:0", node="add")
        else:
            done(RunGraphResult(dict(request.feeds)))

    def recv_tensor(
        self, step_id: int, key: str, request_id: int, context: SpanContext, done: RecvDone
    ) -> None:
        self.contexts.append(context)
        self.asked.append(request_id)
        self.table(step_id).recv(key, done)

    def mark_recv_finished(self, request_id: int) -> None:
        self.finished.append(request_id)

    def complete_instance(
        self, arrival: Arrival, context: SpanContext, done: ExecutionDone
    ) -> None:
        """Agrees with every rank at once, but for one that brings nothing."""
        self.contexts.append(context)
        if not arrival.dtype:
            raise StepError("INVALID_ARGUMENT", "no dtype", node=arrival.node)
        done(Execution(1 << 57 | arrival.instance_key, (arrival.incarnation,), arrival.shape))

    def peer_was_lost(self, task: str, error: StepError) -> None:
        self.lost.append(task)

    def start_abort(self, step_id: int, error: StepError) -> None:
        self.aborted[step_id] = error
        self.table(step_id).abort(error)
        if done := self.running.pop(step_id, None):
            done(RunGraphResult(error=error))

    def cleanup_graph(self, step_id: int) -> None:
        self.cleaned.append(step_id)
        self.tables.pop(step_id, None)

    def cleanup_all(self, containers: tuple[str, ...] = ()) -> None:
        self.emptied += containers


@dataclass
class FakeMaster:
    """Doubles its feeds; `on_step` may do something else."""

    on_step: Callable[[RunStepRequest, StepDone], None] | None = None
    requests: list[RunStepRequest] = field(default_factory=list)
    request_ids: list[int] = field(default_factory=list)
    released: list[int] = field(default_factory=list)
    emptied: list[str] = field(default_factory=list)

    def create_session(
        self, graph: Graph, context: SpanContext, options: SessionOptions = SHARED
    ) -> str:
        return " ".join((f"session of {len(graph)} nodes", *options.device_filters))

    def extend_session(self, session: str, nodes: tuple[Node, ...], version: int) -> int:
        return version + len(nodes)

    def partial_run_setup(self, session: str, names: RequestNames, request_id: int = 0) -> str:
        self.request_ids.append(request_id)
        return "/".join(names.feeds + names.fetches + names.targets)

    def make_callable(self, session: str, names: RequestNames, request_id: int = 0) -> int:
        self.request_ids.append(request_id)
        return len(names.feeds)

    def release_callable(self, session: str, handle: int) -> None:
        self.released.append(handle)

    def reset(self, containers: tuple[str, ...] = (), device_filters: tuple[str, ...] = ()) -> None:
        self.emptied += containers + device_filters

    def run_callable(self, request: RunCallableRequest) -> RunStepResult:
        raise NotImplementedError

    def start_callable(self, request: RunCallableRequest, done: StepDone) -> None:
        self.request_ids.append(request.request_id)
        feeds = {f"y{i}": 2 * value for i, value in enumerate(request.feeds)}
        done(RunStepResult(feeds, request.handle, was_made=False))

    def close_session(self, session: str) -> None:
        raise StepError("ABORTED", "Session was closed", task="worker:0")

    def list_devices(self, session: str) -> tuple[DeviceAttributes, ...]:
        return (DeviceAttributes(session, 1, "cpu"),)

    def run_step(self, request: RunStepRequest) -> RunStepResult:
        raise NotImplementedError

    def start_step(self, request: RunStepRequest, done: StepDone) -> None:
        self.requests.append(request)
        if self.on_step is not None:
            self.on_step(request, done)
        else:
            done(RunStepResult({name: 2 * value for name, value in request.feeds.items()}, 5))


def numbered(count: int) -> torch.Tensor:
    return torch.arange(count, dtype=torch.float32)
