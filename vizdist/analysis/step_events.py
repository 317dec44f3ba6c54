"""A step as instants and what each of them awaited: the order that its spans prove.

Every span has three instants. Of an op they are ready, start, end; of a recv: asked for, request
arrived, value there; of any other span the first two are its start. An instant awaits

- the start of its span's parent, and a span's end the ends of what lies in it;
- of an op's readiness: its inputs' ends, as the graph names them, and what the executor saw end;
  of what a GPU runs, the start: its inputs on the card, see `gpu_order`;
- of an op's start: what its thread ran before, of a recv's too if the task has but one;
- of a recv's end: its Send; from another task a value leaves when the sending thread lets go,
  after all that it ran without a pause;
- of a Send's end: the recv that it called, where one waited in the same process;
- of a call, and of work on the graph: what was done before, where one came after the other.

What lies between an instant and the last one that it awaited is its own time, of one class.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracer.model.schema import SPAN_KINDS
from tracer.model.trace_folder import Flag
from vizdist.analysis.gpu_order import gpu_order
from vizdist.analysis.graph_inputs import inputs_of, last_before
from vizdist.analysis.kept import kept
from vizdist.analysis.precedence import Precedence, tie_levels
from vizdist.analysis.recv_parts import recv_parts
from vizdist.analysis.step_spans import ON_THREADS, PREPARING, ordered_places
from vizdist.analysis.step_split import is_wait, op_mask
from vizdist.analysis.thread_order import Ops, Threads, threads_of
from vizdist.analysis.waiting import task_numbers
from vizdist.store.segments import Array
from vizdist.store.spans import Spans
from vizdist.store.trace import StepInfo, Trace

BEGIN, MID, END = range(3)

_IN_SEQUENCE = frozenset(
    kind.name
    for kind in SPAN_KINDS.values()
    if kind.relation == "nested" and kind.name not in ON_THREADS
) | {"rpc.client"}

_Edges = tuple[Array, Array]


@dataclass(frozen=True)
class StepEvents:
    """`order` numbers instants so that each awaits lower numbers only: 0 is the step's start.

    `instant[layer, span]` is the number of one of a span's instants, `last` that of the step's end.
    Of every instant: `times` in ns from the step's start, `span` a place in `spans` (-1: none),
    `layer` BEGIN, MID or END. Of every span: `parent`, and of a recv its Send as `sender`, as
    places in `spans`, -1 for none.
    """

    spans: Spans
    places: Array
    order: Precedence
    times: Array
    instant: Array
    span: Array
    layer: Array
    last: int
    parent: Array
    sender: Array

    @cached_property
    def path(self) -> list[int]:
        return self.order.path(self.last)

    @cached_property
    def slack(self) -> Array:
        """By how much each instant may come later before the step ends later."""
        return self.order.slack(self.last)


@kept(most=4)
def step_events(trace: Trace, step: StepInfo) -> StepEvents | None:
    """None where the step has no ops."""
    places = ordered_places(trace, step)
    spans = trace.all.take(places)
    return _Builder(trace, step, spans, places).build() if spans.is_kind("op.run").any() else None


class _Builder:
    """Instants while they are numbered by layer: 0, then all BEGIN, MID, END, then the last."""

    def __init__(self, trace: Trace, step: StepInfo, spans: Spans, places: Array) -> None:
        self.trace, self.step, self.spans, self.places = trace, step, spans, places
        self.count = len(spans)
        self.last = 1 + 3 * self.count
        self.parts = recv_parts(trace, trace.all.take(trace.step_places(step)))
        self.parent = self._places_of(spans.parent)
        self._adopt()
        self.root = int(self._places_of(np.array([step.span], np.uint64))[0])
        self.times = self._times()

    def _places_of(self, ids: Array) -> Array:
        """Where spans lie by their ids; -1: not here."""
        if not len(ids):
            return np.empty(0, np.int64)
        order = self._by_id
        at = np.minimum(np.searchsorted(self.spans.span[order], ids), self.count - 1)
        found = order[at]
        return np.where((self.spans.span[found] == ids) & (ids != 0), found, -1)

    def _adopt(self) -> None:
        """Takes preparation as a part of what ran the graph then."""
        orphans = np.flatnonzero(self.spans.is_kind(*PREPARING) & (self.parent < 0))
        runs = self.spans.is_kind("partition.run") | self.spans.has_word("name", "RunGraph")
        for task in np.unique(self.spans.task[orphans].astype(str)):
            own = np.flatnonzero(runs & (self.spans.task == task) & (self.parent >= 0))
            if len(own):
                first = own[self.spans.start[own].argmin()]
                self.parent[orphans[self.spans.task[orphans] == task]] = self.parent[first]

    @cached_property
    def _by_id(self) -> Array:
        return np.argsort(self.spans.span, kind="stable")

    def at(self, layer: int, span: Array) -> Array:
        return 1 + layer * self.count + span

    def _times(self) -> Array:
        """ns from the step's start; what lies outside the step is drawn to its edges."""
        spans = self.spans
        begin, mid = spans.start.astype(np.int64), spans.start.astype(np.int64)
        is_asked = (spans.ready > 0) & (spans.ready < spans.start)
        begin[is_asked] = spans.ready[is_asked]
        recvs = self._places_of(self.parts.recvs.span)
        mid[recvs] = self.parts.served
        end = self.step.end
        every = np.concatenate(([self.step.start], begin, mid, spans.end, [end]))
        times: Array = np.clip(every, self.step.start, end) - self.step.start
        return times

    def build(self) -> StepEvents:
        hard = [*self._nesting(), *self._data(), *self._values(), *self._sequence()]
        threads = self._threads(tie_levels(*_joined(hard), self.times))
        edges = [*hard, *self._thread_edges(threads), *self._flushes(threads)]
        return self._numbered(*_joined(edges))

    def _numbered(self, sources: Array, targets: Array) -> StepEvents:
        """What would await what came later is no cause: clocks differ, or it was not awaited."""
        times = self.times
        is_cause = times[sources] <= times[targets]
        sources, targets = sources[is_cause], targets[is_cause]
        levels = tie_levels(sources, targets, times)
        levels[0] = -1
        levels[self.last] = len(times)
        order = np.lexsort((levels, times))
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        sources, targets = number[sources], number[targets]
        forward = sources < targets
        sources, targets = sources[forward], targets[forward]
        layers = np.repeat([BEGIN, MID, END], self.count)
        every = np.tile(np.arange(self.count), 3)
        return StepEvents(
            spans=self.spans,
            places=self.places,
            order=Precedence.of_ends(times[order], sources, targets),
            times=times[order],
            instant=number[1 : self.last].reshape(3, self.count),
            span=np.concatenate(([-1], every, [-1]))[order],
            layer=np.concatenate(([END], layers, [END]))[order],
            last=int(number[self.last]),
            parent=self.parent,
            sender=self._sender,
        )

    # what awaits what

    def _nesting(self) -> Iterator[_Edges]:
        """Of each span its own instants; its parent, or the step itself."""
        every = np.arange(self.count)
        yield self.at(BEGIN, every), self.at(MID, every)
        yield self.at(MID, every), self.at(END, every)
        has_parent = self.parent >= 0
        inner, outer = every[has_parent], self.parent[has_parent]
        yield self.at(MID, outer), self.at(BEGIN, inner)
        yield self.at(END, inner), self.at(END, outer)
        launched = every[self._is_on_gpu & has_parent & (self.parent[self.parent] >= 0)]
        yield self.at(END, launched), self.at(END, self.parent[self.parent[launched]])
        alone = every[~has_parent]
        yield np.zeros_like(alone), self.at(BEGIN, alone)
        if self.root < 0:
            yield self.at(END, alone), np.full_like(alone, self.last)
            return
        others = alone[alone != self.root]
        yield self.at(END, others), self.at(END, np.full_like(others, self.root))
        yield self.at(END, np.array([self.root])), np.array([self.last])

    def _data(self) -> Iterator[_Edges]:
        """Inputs of ops, in the order of the host; and of what a GPU runs, in that of the GPU."""
        graph, is_on_gpu = self.trace.graph(self.step), self._is_on_gpu
        names = self.spans.codes("name")
        begun, started, ended = (
            self.times[self.at(layer, self._every)] for layer in (BEGIN, MID, END)
        )
        where = np.where(is_on_gpu, -1, self._partition)
        producer, consumer = inputs_of(graph, self.spans, names, where, begun, ended)
        yield self.at(END, producer), self.at(BEGIN, consumer)
        known = np.where(self.parent >= 0, begun[self.parent], 0)
        np.maximum.at(known, consumer, ended[producer])
        yield self._seen(ended, known)
        parts = is_on_gpu, self._partition, self.parent, self._sender
        before, behind = gpu_order(graph, self.spans, *parts, (started, ended))
        yield self.at(END, before), self.at(MID, behind)

    @cached_property
    def _every(self) -> Array:
        return np.arange(self.count)

    @cached_property
    def _is_on_gpu(self) -> Array:
        """Kernels and copies that another span launched."""
        spans, parent = self.spans, self.parent
        launches = spans.is_kind("op.launch")[parent] & (parent >= 0)
        mask: Array = spans.is_kind("copy.run") | (spans.is_kind("op.run") & launches)
        return mask

    @cached_property
    def _partition(self) -> Array:
        """A number for all nodes of one partition in the step, -1 for what is no node."""
        up = np.where(self._is_on_gpu & (self.parent >= 0), self.parent[self.parent], self.parent)
        nodes = self.spans.is_kind(*ON_THREADS, "rendezvous.recv", "copy.run")
        tasks = task_numbers(self.trace)[self.spans.row]
        return np.where(nodes, (up + 1) * len(self.trace.tasks) + tasks, -1)

    def _seen(self, ended: Array, known: Array) -> _Edges:
        """What had just ended in its partition when the executor called an op ready.

        Only where that is later than all that the graph and the parent say, at `known`.
        """
        here = np.flatnonzero((self._partition >= 0) & ~self._is_on_gpu)
        asks = np.flatnonzero(self.spans.is_kind(*ON_THREADS)[here])
        limit = self.times[self.at(BEGIN, here[asks])]
        partition = self._partition[here]
        at = last_before(partition, ended[here], partition[asks], limit, asks)
        seen, asks = here[at[at >= 0]], here[asks[at >= 0]]
        is_later = ended[seen] > known[asks]
        return self.at(END, seen[is_later]), self.at(BEGIN, asks[is_later])

    def _values(self) -> Iterator[_Edges]:
        """From Sends, and their copies to the host, to recvs."""
        recvs, sends = self._linked
        yield self.at(MID, sends), self.at(END, recvs)
        sent, asked, came = (
            self.times[self.at(*which)] for which in ((MID, sends), (BEGIN, recvs), (END, recvs))
        )
        is_called = (asked < sent) | (sent < came)  # from within the Send, if it is over by then
        yield self.at(END, recvs[is_called]), self.at(END, sends[is_called])
        copies = np.flatnonzero(self.spans.is_kind("copy.run") & (self.parent >= 0))
        order = np.argsort(sends, kind="stable")
        if len(order):
            at = np.minimum(np.searchsorted(sends[order], self.parent[copies]), len(order) - 1)
            is_sent = sends[order][at] == self.parent[copies]
            yield self.at(END, copies[is_sent]), self.at(END, recvs[order][at][is_sent])

    @cached_property
    def _linked(self) -> _Edges:
        recvs = np.flatnonzero(self.spans.is_kind("rendezvous.recv") & (self.spans.link != 0))
        sends = self._places_of(self.spans.link[recvs])
        return recvs[sends >= 0], sends[sends >= 0]

    @cached_property
    def _sender(self) -> Array:
        """Of every recv its Send, -1 for none."""
        found = np.full(self.count, -1)
        found[self._linked[0]] = self._linked[1]
        return found

    def _sequence(self) -> Iterator[_Edges]:
        """What a client or master does after it has done something else."""
        own = np.flatnonzero(self.spans.is_kind(*_IN_SEQUENCE) & (self.parent >= 0))
        parent = self.parent[own]
        begun, ended = self.times[self.at(BEGIN, own)], self.times[self.at(END, own)]
        before = last_before(parent, ended, parent, begun, np.arange(len(own)))
        known = before >= 0
        yield self.at(END, own[before[known]]), self.at(BEGIN, own[known])

    # threads

    def _threads(self, levels: Array) -> Threads:
        spans = self.spans
        waits = op_mask(spans, is_wait) & spans.is_kind("op.run")
        feeds = (spans.flags & Flag.CLIENT_EDGE != 0) & (spans.ready == 0)
        own = np.flatnonzero(spans.is_kind(*ON_THREADS) & ~waits & ~feeds)
        ready, start, end = (self.times[self.at(layer, own)] for layer in (BEGIN, MID, END))
        level = levels[self.at(MID, own)]
        return threads_of(Ops(own, ready, start, end, self._devices[own], level), self._processes)

    @cached_property
    def _devices(self) -> Array:
        """A number a device; a GPU's own, and that of the host which launches for it."""
        lanes = [f"{row.task}\n{row.lane}" for row in self.trace.rows]
        _, lane = np.unique(lanes, return_inverse=True)
        numbers: Array = lane[self.spans.row] * 2 + self._is_on_gpu
        return numbers

    @cached_property
    def _processes(self) -> dict[int, int]:
        """By device; every GPU is one of its own."""
        pids = {task.task: task.pid for task in self.trace.manifest.tasks}
        known = {task: pids.get(task) or -1 - at for at, task in enumerate(self.trace.tasks)}
        tasks = [known[row.task] for row in self.trace.rows]
        found = {}
        for device in np.unique(self._devices).tolist():
            at = int(np.argmax(self._devices == device))
            task = tasks[int(self.spans.row[at])]
            found[device] = -(1 << 32) - device if device % 2 else task
        return found

    def _thread_edges(self, threads: Threads) -> Iterator[_Edges]:
        """What a thread ran one after another; what it ran before it asked for a value."""
        before, behind = threads.pairs
        yield self.at(END, before), self.at(MID, behind)
        asks = np.flatnonzero(self.spans.is_kind("rendezvous.recv", "partition.run"))
        tasks = task_numbers(self.trace)[self.spans.row]
        alone = threads.alone(tasks)[tasks[asks]]
        lasting = threads.take(threads.ops.start < threads.ops.end)  # others may have come after
        begun = self.times[self.at(BEGIN, asks)]
        last = last_before(lasting.thread, lasting.ops.end, alone, begun)
        known = (alone >= 0) & (last >= 0)
        yield self.at(END, lasting.ops.place[last[known]]), self.at(BEGIN, asks[known])

    def _flushes(self, threads: Threads) -> Iterator[_Edges]:
        recvs, sends = self._linked
        is_sent = self.times[self.at(END, sends)] < self.times[self.at(END, recvs)]
        is_sent &= (self.spans.flags[recvs] & Flag.REMOTE) != 0
        recvs, sends = recvs[is_sent], sends[is_sent]
        last = threads.last_of_run(sends, self.times[self.at(END, recvs)])
        yield self.at(END, last[last >= 0]), self.at(END, recvs[last >= 0])


def _joined(edges: Iterable[_Edges]) -> _Edges:
    sources, targets = (np.concatenate(ends) for ends in zip(*edges, strict=True))
    return sources, targets
