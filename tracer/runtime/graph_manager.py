"""A worker session's registered graphs: cut by device, made ready, run (TF `graph_mgr.cc`)."""

import random
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import torch

from tracer.model.cluster import LOCALHOST
from tracer.model.graph import Graph, GraphError, Node, Partition
from tracer.model.graph_table import chunks_of_graph
from tracer.model.step import SpanContext
from tracer.ops.kernel import Kernel, OpContext, OpDef
from tracer.passes.partition import partition_by_device
from tracer.record.open_span import OpenSpan
from tracer.record.recorder import Recorder
from tracer.runtime.executor import QueueExecutor
from tracer.runtime.generated_executor import GeneratedExecutor
from tracer.runtime.interfaces import (
    Received,
    RunDone,
    RunGraphRequest,
    RunGraphResult,
    StepError,
)
from tracer.runtime.prepared import KINDS, Kind, PreparedPartition, prepare, rendezvous_key
from tracer.runtime.remote_rendezvous import StepRendezvous
from tracer.runtime.step_run import Executor, StepRun, close_recv
from tracer.runtime.worker_env import WorkerEnv

_handles = random.SystemRandom()


class ClientEnd:
    """A feed or fetch of a registered graph, as it is recorded."""

    __slots__ = ("key_number", "site")

    def __init__(self, recorder: Recorder, node: Node, key: str) -> None:
        is_feed = KINDS[node.op] is Kind.RECV
        self.key_number = recorder.key(key)
        self.site = recorder.site(
            "rendezvous.send" if is_feed else "rendezvous.recv",
            name=node.attrs["tensor_name"],
            lane="feeds" if is_feed else "fetches",
            attributes={
                "vizdist.edge.kind": "feed" if is_feed else "fetch",
                "vizdist.device": node.device,
            },
        )


class RegisteredGraph:
    """`ends` are the client's ends by key; a graph of a task without cluster has none.

    `is_alone`: it has one partition there, so nothing is ever sent.
    """

    def __init__(
        self, executors: list[Executor], ends: Mapping[str, ClientEnd], *, is_alone: bool
    ) -> None:
        self.executors = executors
        self.ends = ends
        self.is_alone = is_alone


class GraphManager:
    def __init__(self, env: WorkerEnv) -> None:
        self._env = env
        self._graphs: dict[str, RegisteredGraph] = {}
        self._kernels: dict[tuple[str, str], Kernel] = {}  # the session's op segment

    def register(self, graph: Graph, context: SpanContext, graph_id: str) -> str:
        """Makes a worker's partition ready; returns its handle. Raises StepError."""
        handle = f"{_handles.getrandbits(64):016x}"
        recorder = self._env.recorder
        with recorder.span("graph.register", context, lane="worker") as span:
            span.set("vizdist.graph.id", graph_id)
            span.set("vizdist.graph.handle", handle)
            span.set("vizdist.graph.nodes", len(graph))
            parts = self._cut(graph, span.context, graph_id)
            executors = [
                self._executor(prepare(self._env, part, self._bind, handle, graph_id))
                for part in parts
            ]
            is_alone = self._env.task.job == LOCALHOST and len(parts) == 1
            self._graphs[handle] = RegisteredGraph(executors, self._ends(graph), is_alone=is_alone)
        return handle

    def _cut(self, graph: Graph, context: SpanContext, graph_id: str) -> list[Partition]:
        lives = {str(device.name): device.incarnation for device in self._env.devices}
        strange = next((node for node in graph.nodes if node.device not in lives), None)
        if strange is not None:
            raise StepError(
                "INVALID_ARGUMENT",
                f"node {strange.name!r} is placed on {strange.device!r}, which {self._env.name} "
                f"has not; it has {', '.join(lives)}",
                task=self._env.name,
                node=strange.name,
            )
        recorder = self._env.recorder
        try:
            with recorder.span("graph.partition", context, lane="worker") as span:
                parts = partition_by_device(graph, lives)
                tell_partition(span.set, "device", parts)
        except GraphError as error:
            raise StepError("INVALID_ARGUMENT", str(error), task=self._env.name) from error
        record_graph(recorder, context, graph_id, "device", parts, lane="worker")
        return parts

    def _executor(self, partition: PreparedPartition) -> Executor:
        if self._env.executor == "queue":
            return QueueExecutor(partition, self._env.recorder)
        return GeneratedExecutor(partition, self._env.recorder)

    def _bind(self, node: Node, op: OpDef, context: OpContext) -> Kernel:
        """A stateful kernel is one object for all graphs of the session that hold its node."""
        if not op.stateful:
            return op.bind(node, context)
        place = node.name, str(context.device)
        if place not in self._kernels:
            self._kernels[place] = op.bind(node, context)
        return self._kernels[place]

    def _ends(self, graph: Graph) -> dict[str, ClientEnd]:
        ends = {}
        for node in graph.nodes:
            if node.attrs.get("client_terminated"):
                key = rendezvous_key(node)
                ends[key] = ClientEnd(self._env.recorder, node, key)
        return ends

    def deregister(self, handle: str) -> None:
        self._find(handle)
        del self._graphs[handle]

    def _find(self, handle: str) -> RegisteredGraph:
        found = self._graphs.get(handle)
        if found is None:
            raise StepError(
                "ABORTED",
                f"Graph handle is not found: {handle}. Possibly, this worker just restarted.",
                task=self._env.name,
            )
        return found

    def is_alone(self, handle: str) -> bool:
        """Whether a step of this graph needs no rendezvous. Raises StepError if it is unknown."""
        return self._find(handle).is_alone

    def run(self, request: RunGraphRequest, rendezvous: StepRendezvous, done: RunDone) -> None:
        """Starts all executors; `done` is called when all have ended and the fetches are there.

        Raises StepError if the handle, or a key of the request, is unknown.
        """
        graph = self._find(request.graph_handle)
        if graph.ends and not graph.ends.keys() >= {*request.feeds, *request.fetch_keys}:
            strange = {*request.feeds, *request.fetch_keys} - graph.ends.keys()
            raise StepError(
                "INVALID_ARGUMENT",
                f"the graph has no feed or fetch of key {min(strange)}",
                task=self._env.name,
            )
        _GraphRun(self._env, graph, request, rendezvous, done).start()


def tell_partition(
    tell: Callable[[str, object], None], stage: str, parts: Iterable[Partition]
) -> None:
    """What a `graph.partition` span says of its cut."""
    nodes = [node for part in parts for node in part.graph.nodes]
    pairs = sum(node.op == "_Send" and not node.attrs.get("client_terminated") for node in nodes)
    tell("vizdist.graph.stage", stage)
    tell("vizdist.graph.partitions", len({node.device for node in nodes}))
    tell("vizdist.graph.pairs", pairs)


def record_graph(
    recorder: Recorder,
    context: SpanContext,
    graph_id: str,
    stage: str,
    parts: Graph | list[Partition],
    lane: str = "",
) -> None:
    """Lets the graph travel in the trace, at the stage it is in."""
    if not context.sampled:
        return
    for chunk in chunks_of_graph(graph_id, stage, parts):
        with recorder.span("graph.chunk", context, name=stage, lane=lane) as span:
            for name, value in chunk.items():
                span.set(name, value)


class _GraphRun:
    """One worker's part of one step: feeds in, executors, fetches out."""

    def __init__(
        self,
        env: WorkerEnv,
        graph: RegisteredGraph,
        request: RunGraphRequest,
        rendezvous: StepRendezvous,
        done: RunDone,
    ) -> None:
        self._env = env
        self._graph = graph
        self._request = request
        self._rendezvous = rendezvous
        self._done = done
        self._step = StepRun(rendezvous, request.context, request.feeds)
        self._keys = request.fetch_keys if graph.ends else ()
        self._left = list(
            range(len(graph.executors) + len(self._keys))
        )  # counts down, see executors
        self._fetched: dict[str, torch.Tensor] = {}
        self._error: StepError | None = None

    def start(self) -> None:
        if self._graph.ends:
            try:
                self._feed()
            except StepError as error:  # aborted before it began
                self._error = error
        if not self._left:
            self._finish()
        for key in self._keys:
            self._fetch(key)
        for executor in self._graph.executors:
            executor.run(self._step, self._ended)

    def _feed(self) -> None:
        send, context = self._rendezvous.local.send, self._request.context
        if not context.sampled:
            for key, tensor in self._request.feeds.items():
                send(key, tensor)
            return
        now, writer = self._env.recorder.now, self._env.recorder.writer()
        for key, tensor in self._request.feeds.items():
            end = self._graph.ends[key]
            start = now()
            span = writer.begin(end.site, context, start)
            send(key, tensor, False, span)
            writer.end(
                start,
                now(),
                num_bytes=tensor.nbytes,
                key=end.key_number,
            )

    def _fetch(self, key: str) -> None:
        end = self._graph.ends[key]
        span = self._env.recorder.open(end.site, self._request.context, end.key_number)
        self._rendezvous.local.recv(key, partial(self._received, key, span))

    def _received(self, key: str, span: OpenSpan, received: Received) -> None:
        if self._request.context.sampled:
            close_recv(self._env.recorder, span, received, is_remote=False)
        if received.error is not None:
            self._ended(received.error)
        elif received.tensor is None:
            self._ended(self._invalid(key))
        else:
            self._fetched[key] = received.tensor
            self._ended(None)

    def _invalid(self, key: str) -> StepError:
        return StepError(
            "INTERNAL",
            f"Failed to fetch outputs for step {self._request.step_id}. (Original error message: "
            f"The tensor returned for {key} was not valid.)",
            task=self._env.name,
        )

    def _ended(self, error: StepError | None) -> None:
        if error is not None and (self._error is None or self._error.derived):
            self._error = error
        if self._left.pop() == 0:
            self._finish()

    def _finish(self) -> None:
        if self._error is not None:
            self._done(RunGraphResult(error=self._error))
            return
        fetched = self._fetched if self._graph.ends else self._step.results
        self._done(RunGraphResult(fetched))
