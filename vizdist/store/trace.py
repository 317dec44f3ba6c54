"""One opened trace: rows, steps and spans as columns, and the questions every view asks."""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from tracer.model.trace_folder import Flag, Manifest
from vizdist.store.details import SpanDetail, detail_of, message_of, raw_spans
from vizdist.store.graphs import CHUNK_KIND, GraphTable, graph_of_step, read_graphs
from vizdist.store.index import path_id
from vizdist.store.otlp_spans import attributes_of
from vizdist.store.problems import NoStep, Problem, TraceError
from vizdist.store.relations import RELATIONS, Arrows, Link, Relations
from vizdist.store.row_order import row_order
from vizdist.store.segments import NEVER, ROOT_KIND, Array, Segment
from vizdist.store.shelf import Shelf
from vizdist.store.sources import OpenOptions, load_source
from vizdist.store.spans import Spans, join_segments
from vizdist.store.steps import StepInfo, find_steps, places_of_request
from vizdist.store.tiles import Part, TileSet, cut_tiles, flagged_part, part_of_segment

__all__ = (
    "RELATIONS", "ROOT_KIND", "Arrows", "Link", "Relations", "RowInfo", "StepInfo", "Trace",
    "open_trace", "reopen_trace",
)  # fmt: skip

MOST_TOLD = 1 << 14  #: spans whose attributes are remembered


@dataclass(frozen=True, slots=True)
class RowInfo:
    """A row of the timeline; `id` is its place from the top and what the column `row` holds."""

    id: int
    task: str
    lane: str
    depth: int


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
        self.segments = tuple(segments)
        self.all = join_segments(self.segments, tuple(keys))
        self._registered: tuple[frozenset[int], tuple[GraphTable, ...]] = frozenset(), ()
        self._told: dict[tuple[int, int], dict[str, Any]] = {}  #: by id and start
        self._firsts = list(accumulate(map(len, self.segments), initial=0))
        self.details_folder = path if details_folder is None else details_folder

    def __len__(self) -> int:
        return self._firsts[-1]

    def holds(self, segments: Sequence[Segment]) -> bool:
        """Whether these very segments are the whole trace."""
        return list(map(id, self.segments)) == list(map(id, segments))

    def retold(self, manifest: Manifest, problems: Iterable[Problem]) -> "Trace":
        """The same spans and all that was found of them under another manifest."""
        other = copy(self)
        other.manifest, other.problems = manifest, tuple(problems)
        return other

    @cached_property
    def start(self) -> int:
        """The first instant of the trace, ns since the epoch; views count from here."""
        return min((segment.start for segment in self.segments), default=0)

    @cached_property
    def end(self) -> int:
        return max((segment.end for segment in self.segments), default=0)

    @cached_property
    def extents(self) -> tuple[Array, Array, Array]:
        """Of every row the first start, the last end, and whether a span of it is of a step."""
        first = np.full(len(self.rows), NEVER, np.int64)
        last = np.full(len(self.rows), -NEVER, np.int64)
        is_stepped = np.zeros(len(self.rows), np.bool_)
        for segment, row in zip(self.segments, self._rows_of_segments, strict=True):
            begins, ends, steps = segment.extents
            first[row] = np.minimum(first[row], begins)
            last[row] = np.maximum(last[row], ends)
            is_stepped[row] |= steps
        return first, last, is_stepped

    @cached_property
    def _rows_of_segments(self) -> list[Array]:
        """What the rows of each segment are in this trace."""
        place = {(row.task, row.lane, row.depth): row.id for row in self.rows}
        return [np.array([place[r] for r in one.rows], np.int64) for one in self.segments]

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.task for row in self.rows))

    # steps

    @cached_property
    def steps(self) -> tuple[StepInfo, ...]:
        """All steps by number, then by task: every view begins with the same one."""
        rank = {task: place for place, task in enumerate(self.tasks)}
        found = find_steps(self.all, self.segments)
        return tuple(sorted(found, key=lambda one: (one.number, rank[one.task], one.start)))

    def step(self, number: int, task: str = "") -> StepInfo:
        """The step of this number (of this task); TraceError if there is none."""
        found = [s for s in self.steps if s.number == number and task in ("", s.task)]
        if not found:
            numbers = [s.number for s in self.steps]
            held = f"steps {min(numbers)} to {max(numbers)}" if numbers else "no step"
            raise NoStep(f"step {number} is not in this trace; it holds {held}")
        return found[0]

    def step_places(self, step: StepInfo) -> Array:
        """Where the spans of one client request lie in the table."""
        return places_of_request(self.segments, step.trace_lo)

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

    def places(self, ids: Array) -> Array:
        """Where spans lie in the table by their ids, -1 for those that are not there."""
        found = np.full(len(ids), -1)
        for segment, first in zip(self.segments, self._firsts, strict=False):
            here = segment.places(ids)
            found = np.where((here >= 0) & (found < 0), here + first, found)
        return np.where(ids != 0, found, -1)

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
        return detail_of(self.all, self.place(span_id), self.details_folder)

    def attributes(self, places: Iterable[int]) -> dict[int, dict[str, Any]]:
        """Attributes of spans by place, read from their files now; those that are still there."""
        found = raw_spans(self.all, places, self.details_folder)
        return {place: attributes_of(raw.get("attributes")) for place, raw in found if raw}

    def told(self, places: Array) -> dict[int, dict[str, Any]]:
        """The same of the spans of a whole run, remembered while it grows: a span never changes."""
        spans = self.all.take(places)
        keys = zip(spans.span.tolist(), spans.start.tolist(), strict=True)
        key_of = dict(zip(places.tolist(), keys, strict=True))
        found = {place: self._told[key] for place, key in key_of.items() if key in self._told}
        read = self.attributes(place for place in key_of if place not in found)
        if len(self._told) + len(read) > MOST_TOLD:
            self._told.clear()
        self._told.update({key_of[at]: says for at, says in read.items() if key_of[at][0]})
        return found | read

    def messages(self, places: Iterable[int]) -> dict[int, str]:
        """What each of these spans says of its failure, by place; "" where nothing is known."""
        found = raw_spans(self.all, places, self.details_folder)
        return {place: message_of(raw) for place, raw in found}

    # relations

    @cached_property
    def relations(self) -> Relations:
        """Every recorded pair of spans of which one led to the other."""
        recv = self._where(lambda segment: segment.columns["link"] != 0)
        send = self.places(self.all.take(recv).link)
        pairs = [
            (send[send >= 0], recv[send >= 0]),
            self._children("rpc.server", "rpc.client"),
            self._children("op.run", "op.launch"),
        ]
        source, target = (np.concatenate(ends) for ends in zip(*pairs, strict=True))
        code = np.repeat(np.arange(len(pairs)), [len(found) for found, _ in pairs])
        return Relations(source, target, code)

    def _children(self, kind: str, parent: str) -> tuple[Array, Array]:
        """Spans of a kind that are children of spans of another: the parents, and they."""
        if not any(parent in segment.texts["kind"] for segment in self.segments):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        child = self._where(lambda one: one.is_kind(kind) & (one.columns["parent"] != 0))
        above = self.places(self.all.take(child).parent)
        child, above = child[above >= 0], above[above >= 0]
        is_meant = self.all.take(above).is_kind(parent)
        return above[is_meant], child[is_meant]

    @cached_property
    def _reach(self) -> tuple[Array, Array]:
        """When the source of every relation starts and its target ends."""
        source, target, _ = self.relations
        return self.all.take(source).start, self.all.take(target).end

    def _where(self, is_meant: Callable[[Segment], Array]) -> Array:
        """Places of the spans that a mask of each segment picks."""
        found = [
            np.flatnonzero(is_meant(segment)) + first
            for segment, first in zip(self.segments, self._firsts, strict=False)
        ]
        return np.concatenate([np.empty(0, np.int64), *found])

    @cached_property
    def _servers(self) -> tuple[Array, Array]:
        """Ids of RPC client spans in order, and the places of those that serve them."""
        source, target, code = self.relations
        is_rpc = code == RELATIONS.index("rpc")
        asked = self.all.take(source[is_rpc]).span
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
        source, target, code = self.relations
        wanted = self.places(np.fromiter(ids, np.uint64))
        at = np.flatnonzero(np.isin(source, wanted) | np.isin(target, wanted))
        ends = zip(self.all.take(source[at]).span, self.all.take(target[at]).span, strict=True)
        names = [RELATIONS[found] for found in code[at]]
        return [Link(int(a), int(b), name) for (a, b), name in zip(ends, names, strict=True)]

    def arrows(self, start: int, end: int, limit: int = 2000) -> Arrows:
        """Relations that touch the window, the longest waits first when there are too many."""
        source, target, code = self.relations
        begins, ends = self._reach
        seen = np.flatnonzero((begins < end) & (ends > start))
        total = len(seen)
        if total > limit:
            length = ends[seen] - begins[seen]
            seen = np.sort(seen[np.argpartition(-length, limit)[:limit]])
        return Arrows(source[seen], target[seen], code[seen], total)

    # graphs

    @cached_property
    def graphs(self) -> tuple[GraphTable, ...]:
        """Every graph that was registered, by time."""
        places = self._where(lambda segment: segment.is_kind(CHUNK_KIND))
        chunks = frozenset(self.all.take(places).span.tolist())
        if chunks != self._registered[0]:
            self._registered = chunks, tuple(read_graphs(self.all, self.details_folder))
        return self._registered[1]

    def inherit(self, earlier: "Trace") -> None:
        """Takes over what was read of this trace when it was shorter."""
        self._registered, self._told = earlier._registered, earlier._told

    def graph(self, step: StepInfo | int | None = None) -> GraphTable | None:
        """The graph that a step ran (None: the first one of the trace); None if there is none."""
        if step is None:
            return self.graphs[0] if self.graphs else None
        found = self.step(step) if isinstance(step, int) else step
        places = self.step_places(found)
        return graph_of_step(self.graphs, self.all, places, self.details_folder)

    # level of detail

    @cached_property
    def _tile_parts(self) -> tuple[list[Part], Part]:
        parts = []
        flagged = [np.empty(0, np.int64)]
        found = zip(self.segments, self._firsts, self._rows_of_segments, strict=False)
        for segment, first, rows in found:
            own = np.full(len(self.rows), -1)
            own[rows] = np.arange(len(rows))
            parts.append(part_of_segment(segment, own, first))
            flagged.append(segment.flagged + first)
        return parts, flagged_part(self.all, np.concatenate(flagged))

    def tiles(
        self, start: int, end: int, width: int, rows: range | None = None, selected: int = 0
    ) -> TileSet:
        """What to draw of a window (ns since the epoch) that is `width` pixels wide.

        `selected` is a span id (0: none). Errors, unfinished spans and the selection are always
        there.
        """
        parts, flagged = self._tile_parts
        at = int(self.places(np.array([selected], np.uint64))[0]) if selected else -1
        every = range(len(self.rows)) if rows is None else rows
        return cut_tiles(self.all, parts, flagged, (start, end), width, every, at)

    @cached_property
    def flag_counts(self) -> dict[str, int]:
        """How many spans carry each flag."""
        values = {k.lower(): v for k, v in vars(Flag).items() if isinstance(v, int)}
        flags = [segment.columns["flags"] for segment in self.segments]
        return {
            name: sum(int(np.count_nonzero(part & value)) for part in flags)
            for name, value in values.items()
        }


def open_trace(path: Path, trace_id: str = "", **options: Unpack[OpenOptions]) -> Trace:
    """Opens a trace folder or a file of any known format.

    Raises TraceError if nothing in it can be read as a trace; what is merely missing or mended is
    told by `problems`.
    """
    return reopen_trace(path, trace_id, Shelf(), None, **options)


def reopen_trace(
    path: Path, trace_id: str, shelf: Shelf, known: Trace | None, **options: Unpack[OpenOptions]
) -> Trace:
    """A trace as it is now: what `shelf` has of it is not read again, what `known` found is kept.

    Where spans came to it, this is another Trace; the one that somebody still looks at stays as
    it is.
    """
    source = load_source(path, shelf, **options)
    if known is not None and known.holds(source.segments):
        return known.retold(source.manifest, source.problems)
    trace = Trace(
        trace_id or path_id(path),
        path,
        source.segments,
        manifest=source.manifest,
        problems=source.problems,
        details_folder=source.details_folder,
    )
    if known is not None:
        trace.inherit(known)
    return trace
