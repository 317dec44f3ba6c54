"""From a client's request to partitions that workers hold: prune, place, cut, register.

Follows TF `graph_execution_state.cc` and its `ReffedClientGraph`. Done once for each set of feeds,
fetches and targets; a step then only looks it up.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Self

from tracer.model.cluster import DeviceName, TaskName
from tracer.model.dtypes import num_outputs
from tracer.model.graph import Graph, GraphError, Partition
from tracer.model.step import SpanContext
from tracer.ops.infer import infer_specs
from tracer.ops.kernel import OpDef
from tracer.passes.optimize import Tell, optimize, optimize_cut, tell_change
from tracer.passes.partition import partition_by_worker
from tracer.passes.placer import BY_RULE, Placer
from tracer.passes.prune import is_direct, prune
from tracer.record.recorder import Recorder
from tracer.runtime.caches import tell_lookup
from tracer.runtime.graph_manager import record_graph, tell_partition
from tracer.runtime.interfaces import (
    TENSOR_LIMIT_BYTES,
    DeviceAttributes,
    RequestNames,
    StepError,
    WorkerInterface,
)
from tracer.runtime.prepared import KINDS, Kind, rendezvous_key


class Signature(NamedTuple):
    """What a request names, each part sorted: the key of its client graph."""

    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    targets: tuple[str, ...]
    is_partial: bool = False

    @classmethod
    def of(cls, names: RequestNames, *, is_partial: bool = False) -> Self:
        feeds, fetches, targets = (tuple(sorted(set(part))) for part in names)
        return cls(feeds, fetches, targets, is_partial)

    @property
    def graph_id(self) -> str:
        return hashlib.blake2b(repr(tuple(self)).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class ClientPart:
    """One worker's partition; `task` names it in errors.

    `feed_keys` are (name, rendezvous key), `fetch_keys` keys alone.
    """

    task: str
    worker: WorkerInterface
    handle: str
    feed_keys: tuple[tuple[str, str], ...]
    fetch_keys: tuple[str, ...]
    names: Mapping[str, str]  #: fetch key → name


@dataclass(frozen=True, slots=True)
class ClientGraph:
    graph_id: str
    parts: tuple[ClientPart, ...]


def with_specs(graph: Graph) -> Graph:
    """The graph with the dtypes and shapes that can be known before a step, for all who look at it.

    A captured graph knows its own; those of a hand-written one are found here.
    """
    if all(node.specs or not num_outputs(node) for node in graph.nodes):
        return graph
    specs = infer_specs(graph)
    return Graph(node.with_(specs=node.specs or specs[node.name]) for node in graph.nodes)


def _check_sizes(graph: Graph) -> None:
    """Raises StepError for a tensor that no task may make, before one tries."""
    for node in graph.nodes:
        for spec in node.specs:
            if spec.num_bytes > TENSOR_LIMIT_BYTES:
                raise StepError(
                    "RESOURCE_EXHAUSTED",
                    f"OOM when allocating tensor with shape {list(spec.shape)} and type "
                    f"{spec.dtype}: it has {spec.num_bytes:,} bytes, 2 GiB is the most",
                    node=node.name,
                )


@dataclass(frozen=True, slots=True)
class GraphMaker:
    """Makes client graphs of one session.

    Its spans lie in the run's trace, not in a step's: that a step is not sampled must not hide the
    graphs of those that are.
    """

    session: str
    graph: Graph
    devices: Sequence[DeviceAttributes]
    client_device: DeviceName
    workers: Mapping[TaskName, WorkerInterface]
    recorder: Recorder
    lookup: Callable[[str], OpDef]
    context: SpanContext
    passes: tuple[str, ...] = ()  #: optimizations that were switched on
    placer: Placer = BY_RULE
    label: str = ""  #: how a task without a cluster is called

    def make(self, signature: Signature) -> ClientGraph:
        """Raises StepError INVALID_ARGUMENT if the graph cannot serve the request."""
        graph_id = f"{self.session[:4]}-{signature.graph_id}"
        try:
            partitions = self._cut(signature, graph_id)
        except (GraphError, LookupError) as error:
            raise StepError("INVALID_ARGUMENT", str(error)) from error
        return ClientGraph(graph_id, self._register_all(partitions, graph_id))

    def _cut(self, signature: Signature, graph_id: str) -> list[Partition]:
        pruned = self._prune(signature)
        placed = self._place(pruned)
        with self.recorder.span("graph.partition", self.context) as span:
            lives = {device.name: device.incarnation for device in self.devices}
            for task in self.workers:
                # asked when the session was made
                tell_lookup(
                    *(self.recorder, span.context, "device_status", str(task)),
                    hit=True,
                    session=self.session,
                )
            partitions = partition_by_worker(placed, lives)
            tell_partition(span.set, "worker", partitions)
        if not signature.is_partial:  # else work may wait for a feed of a later call
            partitions = optimize_cut(placed, partitions, self.passes, self._optimizing)
        stages: dict[str, Graph | list[Partition]] = {
            "full": self.graph,
            "pruned": pruned,
            "placed": placed,
            "worker": partitions,
        }
        for stage, graph in stages.items():
            record_graph(self.recorder, self.context, graph_id, stage, graph)
        return partitions

    def _prune(self, signature: Signature) -> Graph:
        with self.recorder.span("graph.prune", self.context) as span:
            feeds, fetches, targets, is_partial = signature
            pruned = prune(
                self.graph, feeds, fetches, targets, self.client_device, is_partial=is_partial
            )
            _check_sizes(pruned)
            span.set("vizdist.graph.nodes_before", len(self.graph))
            span.set("vizdist.graph.nodes", len(pruned))
        return pruned

    def _place(self, pruned: Graph) -> Graph:
        with self.recorder.span("graph.place", self.context) as span:
            names = [DeviceName.parse(device.name) for device in self.devices]
            placed = self.placer.place(pruned, names, self.client_device, self.lookup)
            span.set("vizdist.graph.nodes", len(placed))
            span.set("vizdist.graph.devices", len({node.device for node in placed.nodes}))
            if (predicted_ns := self.placer.predicted_ns(placed)) is not None:
                span.set("vizdist.graph.predicted_ns", predicted_ns)
        return optimize(placed, self.passes, self.lookup, self._optimizing)

    @contextlib.contextmanager
    def _optimizing(self, name: str) -> Iterator[Tell]:
        """A span around a pass, which says what the pass did."""
        with self.recorder.span("graph.optimize", self.context, name=name) as span:
            yield partial(tell_change, span.set)

    def _register_all(
        self, partitions: Sequence[Partition], graph_id: str
    ) -> tuple[ClientPart, ...]:
        """At all workers at once. If one refuses its part, the others forget theirs."""
        if len(partitions) < 2:
            return tuple(self._register(part, graph_id) for part in partitions)
        with ThreadPoolExecutor(len(partitions), "register graph") as pool:
            tries = [pool.submit(self._register, part, graph_id) for part in partitions]
        refusal = next((error for one in tries if (error := one.exception())), None)
        made = tuple(one.result() for one in tries if one.exception() is None)
        if refusal is not None:
            self.deregister(ClientGraph(graph_id, made))
            raise refusal
        return made

    def _register(self, partition: Partition, graph_id: str) -> ClientPart:
        task = DeviceName.parse(next(iter(partition.graph.nodes)).device).task_name
        worker = self.workers[task]
        handle = worker.register_graph(self.session, partition.graph, self.context, graph_id)
        feeds: list[tuple[str, str]] = []
        names: dict[str, str] = {}
        for node in partition.graph.nodes:
            kind = KINDS.get(node.op)
            is_end = node.attrs.get("client_terminated") or is_direct(self.client_device)
            if kind in (Kind.RECV, Kind.ARG) and is_end:
                feeds.append((node.attrs["tensor_name"], rendezvous_key(node)))
            elif kind in (Kind.SEND, Kind.RETVAL) and is_end:
                names[rendezvous_key(node)] = node.attrs["tensor_name"]
        name = self.label or str(task)
        return ClientPart(name, worker, handle, tuple(feeds), tuple(names), names)

    def deregister(self, client_graph: ClientGraph) -> None:
        """A worker that is gone has nothing to forget."""
        for part in client_graph.parts:
            with contextlib.suppress(StepError):
                part.worker.deregister_graph(self.session, part.handle)
