"""One opened trace: rows, steps and spans as columns, and the questions every view asks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np

from tracer.model.trace_folder import Flag, Manifest
from vizdist.store.details import SpanDetail, detail_of, raw_spans
from vizdist.store.graphs import GraphTable, graph_of_step, read_graphs
from vizdist.store.index import path_id
from vizdist.store.otlp_spans import attributes_of
from vizdist.store.problems import Problem, TraceError
from vizdist.store.row_order import row_order
from vizdist.store.segments import Array, Segment
from vizdist.store.sources import OpenOptions, load_source
from vizdist.store.spans import Spans, join_segments
from vizdist.store.tiles import TileIndex, TileSet, cut_tiles, index_flagged, index_spans

ROOT_KIND = "session.run"


@dataclass(frozen=True, slots=True)
class RowInfo:
    """A row of the timeline; `id` is its place from the top and what the column `row` holds."""

    id: int
    task: str
    lane: str
    depth: int


class StepInfo(NamedTuple):
    """One client request. Where every worker runs its own loop, a number occurs once a worker.

    `start` and `end` are ns since the epoch; `span` is the root span, 0 if none was written. A step
    that was cut off or failed is not whole.
    """

    number: int
    trace_hi: int
    trace_lo: int
    start: int
    end: int
    task: str
    span: int
    is_whole: bool

    @property
    def duration(self) -> int:
        return self.end - self.start


class Link(NamedTuple):
    """A recorded relation between two spans: `data` (send to recv) or `rpc` (client to server)."""

    source: int
    target: int
    relation: str


class Relations(NamedTuple):
    source: Array
    target: Array
    is_rpc: Array


@dataclass(frozen=True, slots=True)
class Arrows:
    """Relations drawn on the timeline, by places in the trace's table; `total` before the limit."""

    source: Array
    target: Array
    is_rpc: Array
    total: int


class Trace:
    """What every view asks. Immutable but for indexes made on first use; safe from any thread."""

    def __init__(
        self,
        trace_id: str,
        path: Path,
        segments: Sequence[Segment],
        *,
        manifest: Manifest,
        problems: Iterable[Problem] = (),
        details_folder: Path | None = None,
    ) -> None:
        self.id = trace_id
        self.path = path
        self.title = path.name.removesuffix(".trace")
        self.manifest = manifest
        self.problems = tuple(problems)
        self.is_foreign = not manifest.run_id
        keys = sorted({row for segment in segments for row in segment.rows}, key=row_order)
        self.rows = tuple(RowInfo(index, *key) for index, key in enumerate(keys))
        self.all = join_segments(segments, tuple(keys))
        bounds = np.cumsum([0, *(len(segment) for segment in segments)])
        self._parts = [range(int(a), int(b)) for a, b in pairwise(bounds)]
        self._details_folder = path if details_folder is None else details_folder

    def __len__(self) -> int:
        return len(self.all)

    @cached_property
    def start(self) -> int:
        """The first instant of the trace, ns since the epoch; views count from here."""
        return int(self.all.start.min()) if len(self) else 0

    @cached_property
    def end(self) -> int:
        return int(self.all.end.max()) if len(self) else 0

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.task for row in self.rows))

    # steps

    @cached_property
    def steps(self) -> tuple[StepInfo, ...]:
        """All steps by number, then by task: every view begins with the same one."""
        roots = np.flatnonzero(self.all.is_kind(ROOT_KIND) & (self.all.step > 0))
        found = [self._step_of_root(int(root)) for root in roots]
        found += self._steps_without_root({step.trace_lo for step in found})
        rank = {task: place for place, task in enumerate(self.tasks)}
        return tuple(sorted(found, key=lambda one: (one.number, rank[one.task], one.start)))

    def _step_of_root(self, root: int) -> StepInfo:
        spans = self.all
        return StepInfo(
            int(spans.step[root]),
            int(spans.trace_hi[root]),
            int(spans.trace_lo[root]),
            int(spans.start[root]),
            int(spans.end[root]),
            self.rows[int(spans.row[root])].task,
            int(spans.span[root]),
            not spans.flags[root] & (Flag.ERROR | Flag.UNFINISHED),
        )

    def _steps_without_root(self, rooted: set[int]) -> Iterator[StepInfo]:
        """Steps whose root never came to be written: their client was killed."""
        spans = self.all
        ids, order = self._by_trace
        bounds = np.flatnonzero(np.diff(ids, prepend=0, append=0) != 0).tolist()
        for low, high in pairwise(bounds):
            own = order[low:high]
            number = int(spans.step[own].max())
            if number and int(ids[low]) not in rooted:
                first = int(own[np.argmin(spans.start[own])])
                yield StepInfo(
                    number,
                    int(spans.trace_hi[first]),
                    int(ids[low]),
                    int(spans.start[first]),
                    int(spans.end[own].max()),
                    self.rows[int(spans.row[first])].task,
                    span=0,
                    is_whole=False,
                )

    def step(self, number: int, task: str = "") -> StepInfo:
        """The step of this number (of this task); TraceError if there is none."""
        found = [s for s in self.steps if s.number == number and task in ("", s.task)]
        if not found:
            last = self.steps[-1].number if self.steps else 0
            raise TraceError(f"step {number} is not in this trace; it holds steps 1 to {last}")
        return found[0]

    @cached_property
    def _by_trace(self) -> tuple[Array, Array]:
        order = np.argsort(self.all.trace_lo, kind="stable")
        return self.all.trace_lo[order], order

    def step_places(self, step: StepInfo) -> Array:
        """Where the spans of one client request lie in the table."""
        sorted_ids, order = self._by_trace
        wanted = np.uint64(step.trace_lo)
        low, high = (np.searchsorted(sorted_ids, wanted, side) for side in ("left", "right"))
        places: Array = order[low:high]
        return places

    # spans

    def mask(
        self,
        *,
        window: tuple[int, int] | None = None,
        step: int | StepInfo | None = None,
        kinds: Sequence[str] = (),
        tasks: Sequence[str] = (),
    ) -> Array:
        """Which spans overlap the window, belong to the step, are of these kinds and tasks."""
        spans = self.all
        mask = np.ones(len(spans), np.bool_)
        if isinstance(step, StepInfo):
            mask &= (spans.trace_lo == step.trace_lo) & (spans.trace_hi == step.trace_hi)
        elif step is not None:
            mask &= spans.step == step
        if kinds:
            mask &= spans.is_kind(*kinds)
        if tasks:
            mask &= np.array([row.task in tasks for row in self.rows], np.bool_)[spans.row]
        if window is not None:
            mask &= (spans.start < window[1]) & (spans.end > window[0])
        return mask

    def spans(
        self,
        *,
        window: tuple[int, int] | None = None,
        step: int | StepInfo | None = None,
        kinds: Sequence[str] = (),
        tasks: Sequence[str] = (),
    ) -> Spans:
        return self.all.take(self.mask(window=window, step=step, kinds=kinds, tasks=tasks))

    @cached_property
    def _by_id(self) -> tuple[Array, Array]:
        order = np.argsort(self.all.span, kind="stable")
        return self.all.span[order], order

    def places(self, ids: Array) -> Array:
        """Where spans lie in the table by their ids, -1 for those that are not there."""
        sorted_ids, order = self._by_id
        if not len(order):
            return np.full(len(ids), -1)
        at = np.minimum(np.searchsorted(sorted_ids, ids), len(order) - 1)
        return np.where((sorted_ids[at] == ids) & (ids != 0), order[at], -1)

    def place(self, span_id: int | str) -> int:
        """The place of one span; hex text or number. TraceError if there is none."""
        try:
            number = int(span_id, 16) if isinstance(span_id, str) else span_id
            found = int(self.places(np.array([number], np.uint64))[0])
        except (ValueError, OverflowError):
            raise TraceError(f"{span_id!r} is not a span id; it has 16 hex digits") from None
        if found < 0:
            raise TraceError(f"span {number:016x} is not in trace {self.title}")
        return found

    def span(self, span_id: int | str) -> SpanDetail:
        """A span with its attributes, read from its file now."""
        return detail_of(self.all, self.place(span_id), self._details_folder)

    def attributes(self, places: Iterable[int]) -> dict[int, dict[str, Any]]:
        """Attributes of spans by place, read from their files now; those that are still there."""
        found = raw_spans(self.all, places, self._details_folder)
        return {place: attributes_of(raw.get("attributes")) for place, raw in found if raw}

    # relations

    @cached_property
    def relations(self) -> Relations:
        """Every recorded send → recv and client → server, by places in the table."""
        spans = self.all
        recv = np.flatnonzero(spans.link)
        send = self.places(spans.link[recv])
        server = np.flatnonzero(spans.is_kind("rpc.server") & (spans.parent != 0))
        client = self.places(spans.parent[server])
        known_client = np.append(spans.is_kind("rpc.client"), False)[client]
        data, rpc = send >= 0, known_client & (client >= 0)
        source = np.concatenate((send[data], client[rpc]))
        target = np.concatenate((recv[data], server[rpc]))
        is_rpc = np.repeat([False, True], [int(data.sum()), int(rpc.sum())])
        return Relations(source, target, is_rpc)

    @cached_property
    def _servers(self) -> tuple[Array, Array]:
        """Ids of RPC client spans in order, and the places of those that serve them."""
        source, target, is_rpc = self.relations
        asked = self.all.span[source[is_rpc]]
        order = np.argsort(asked, kind="stable")
        return asked[order], target[is_rpc][order]

    def served_by(self, clients: Array) -> Array:
        """Places of the server spans of some RPC client spans (by id); -1 where none is known."""
        asked, servers = self._servers
        if not len(asked):
            return np.full(len(clients), -1)
        at = np.minimum(np.searchsorted(asked, clients), len(asked) - 1)
        return np.where(asked[at] == clients, servers[at], -1)

    def links(self, ids: Iterable[int]) -> list[Link]:
        """The relations that begin or end at these spans, by span id."""
        source, target, is_rpc = self.relations
        wanted = self.places(np.fromiter(ids, np.uint64))
        at = np.flatnonzero(np.isin(source, wanted) | np.isin(target, wanted))
        ends = self.all.span
        return [
            Link(int(ends[source[i]]), int(ends[target[i]]), "rpc" if is_rpc[i] else "data")
            for i in at
        ]

    def arrows(self, start: int, end: int, limit: int = 2000) -> Arrows:
        """Relations that touch the window, the longest waits first when there are too many."""
        source, target, is_rpc = self.relations
        spans = self.all
        seen = np.flatnonzero((spans.start[source] < end) & (spans.end[target] > start))
        total = len(seen)
        if total > limit:
            length = spans.end[target[seen]] - spans.start[source[seen]]
            seen = np.sort(seen[np.argpartition(-length, limit)[:limit]])
        return Arrows(source[seen], target[seen], is_rpc[seen], total)

    # graphs

    @cached_property
    def graphs(self) -> tuple[GraphTable, ...]:
        """Every graph that was registered, by time."""
        return tuple(read_graphs(self.all, self._details_folder))

    def graph(self, step: StepInfo | int | None = None) -> GraphTable | None:
        """The graph that a step ran (None: the first one of the trace); None if there is none."""
        if step is None:
            return self.graphs[0] if self.graphs else None
        found = self.step(step) if isinstance(step, int) else step
        places = self.step_places(found)
        return graph_of_step(self.graphs, self.all, places, self._details_folder)

    # level of detail

    @cached_property
    def _tile_indexes(self) -> tuple[list[TileIndex], TileIndex]:
        return index_spans(self.all, self._parts), index_flagged(self.all)

    def tiles(
        self, start: int, end: int, width: int, rows: range | None = None, selected: int = 0
    ) -> TileSet:
        """What to draw of a window (ns since the epoch) that is `width` pixels wide.

        `selected` is a span id (0: none). Errors, unfinished spans and the selection are always
        there.
        """
        indexes, flagged = self._tile_indexes
        at = int(self.places(np.array([selected], np.uint64))[0]) if selected else -1
        every = range(len(self.rows)) if rows is None else rows
        return cut_tiles(self.all, indexes, flagged, (start, end), width, every, at)

    @cached_property
    def flag_counts(self) -> dict[str, int]:
        """How many spans carry each flag."""
        flags = self.all.flags
        return {
            name.lower(): int(np.count_nonzero(flags & value))
            for name, value in vars(Flag).items()
            if isinstance(value, int)
        }


def open_trace(path: Path, trace_id: str = "", **options: Unpack[OpenOptions]) -> Trace:
    """Opens a trace folder or a file of any known format.

    Raises TraceError if nothing in it can be read as a trace; what is merely missing or mended is
    told by `problems`.
    """
    source = load_source(path, **options)
    return Trace(
        trace_id or path_id(path),
        path,
        source.segments,
        manifest=source.manifest,
        problems=source.problems,
        details_folder=source.details_folder,
    )
