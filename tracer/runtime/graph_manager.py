"""A worker session's registered graphs: cut by device, made ready, run (TF `graph_mgr.cc`)."""

import random
from collections.abc import Callable, Iterable
from functools import partial

from tracer.model.cluster import LOCALHOST
from tracer.model.graph import Graph, GraphError, Node, Partition
from tracer.model.graph_table import chunks_of_graph
from tracer.model.step import SpanContext
from tracer.ops.kernel import Kernel, OpContext, OpDef
from tracer.passes.keys import SENDS
from tracer.passes.partition import partition_by_device
from tracer.record.recorder import Recorder
from tracer.runtime.caches import Cache, Tally, tell_lookup
from tracer.runtime.copies import Copies
from tracer.runtime.executor import QueueExecutor
from tracer.runtime.generated_executor import GeneratedExecutor
from tracer.runtime.graph_run import ClientEnd, GraphRun, PartialRun, RegisteredGraph
from tracer.runtime.interfaces import RunDone, RunGraphRequest, StepError
from tracer.runtime.prepared import PreparedPartition, prepare, rendezvous_key
from tracer.runtime.remote_rendezvous import StepRendezvous
from tracer.runtime.step_run import Executor
from tracer.runtime.worker_env import WorkerEnv

_handles = random.SystemRandom()


class GraphManager:
    """`session` is the handle of the one whose graphs these are."""

    def __init__(self, env: WorkerEnv, session: str = "") -> None:
        self._env = env
        self._session = session
        self._graphs: dict[str, RegisteredGraph] = {}
        self._kernels: Cache[tuple[str, str], Kernel]  # the session's op segment
        self._kernels = Cache("kernel", env.recorder, " on ".join, session)
        self._handles = Tally("graph_handle")

    def register(self, graph: Graph, context: SpanContext, graph_id: str) -> str:
        """Makes a worker's partition ready; returns its handle. Raises StepError."""
        handle = f"{_handles.getrandbits(64):016x}"
        recorder = self._env.recorder
        with recorder.span("graph.register", context, lane="worker") as span:
            span.set("vizdist.graph.id", graph_id)
            span.set("vizdist.graph.handle", handle)
            span.set("vizdist.graph.nodes", len(graph))
            parts = self._cut(graph, span.context, graph_id)
            bind = partial(self._bind, span.context)
            prepared = [prepare(self._env, part, bind, handle, graph_id) for part in parts]
            executors = [self._executor(part) for part in prepared]
            ends = self._ends(graph)
            waits_for_nobody = len(parts) == 1 and not ends and _only_computes(prepared[0])
            is_alone = self._env.task.job == LOCALHOST and waits_for_nobody
            copies = Copies.of(recorder, self._env.resources, graph.nodes)
            self._graphs[handle] = RegisteredGraph(executors, ends, copies, is_alone=is_alone)
            self._handles.miss()
            session = self._session
            tell_lookup(recorder, span.context, "graph_handle", handle, hit=False, session=session)
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
        if self._env.executor == "queue" or not partition.is_straight:
            return QueueExecutor(partition, self._env.recorder)
        return GeneratedExecutor(partition, self._env.recorder)

    def _bind(self, span: SpanContext, node: Node, op: OpDef, context: OpContext) -> Kernel:
        """A stateful kernel is one object for all graphs of the session that hold its node."""
        if not op.stateful:
            return op.bind(node, context)
        place = node.name, str(context.device)
        return self._kernels.get(place, partial(op.bind, node, context), span)

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
        self._handles.hit()
        if request.call == "whole":
            GraphRun(self._env, graph, graph.executors, request, rendezvous, done).start()
        else:
            self._run_part(graph, request, rendezvous, done)

    def _run_part(
        self,
        graph: RegisteredGraph,
        request: RunGraphRequest,
        rendezvous: StepRendezvous,
        done: RunDone,
    ) -> None:
        """One call of a step that has several; the first one starts the executors."""
        whole = rendezvous.partial_run
        is_first = whole is None
        if whole is None:
            whole = rendezvous.partial_run = PartialRun(graph, request.context, rendezvous)
        waits_for = [whole] if request.call == "last" else []
        GraphRun(self._env, graph, waits_for, request, rendezvous, done).start()
        if is_first:
            whole.start()

    @property
    def tallies(self) -> tuple[Tally, ...]:
        return self._handles, self._kernels.tally


def _only_computes(partition: PreparedPartition) -> bool:
    return partition.is_straight and not partition.is_async


def tell_partition(
    tell: Callable[[str, object], None], stage: str, parts: Iterable[Partition]
) -> None:
    """What a `graph.partition` span says of its cut."""
    nodes = [node for part in parts for node in part.graph.nodes]
    pairs = sum(node.op in SENDS and not node.attrs.get("client_terminated") for node in nodes)
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
