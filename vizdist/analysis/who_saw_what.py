"""Who saw which example: what each worker took from the data, and what each replica got of it.

Read from `data.next` and, below it, `data.copy`. Of a long run the steps around the one that is
looked at are read.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tracer.model.example_ids import decode
from tracer.model.trace_folder import Flag
from vizdist.analysis.kept import kept
from vizdist.store.segments import Array
from vizdist.store.trace import Trace

NEXT, COPY = "data.next", "data.copy"
MOST = 1200  #: spans whose attributes are read at most
OUR_OWN = "FUNCTION"  #: a function says what each pipeline takes, be it the strategy's own

Ids = tuple[int, ...]
Row = tuple[str, int]  #: task, replica


@dataclass(frozen=True, slots=True)
class Part:
    """A replica's batch in one step. `ids` None: which they were is not told, as of very many."""

    step: int
    task: str
    replica: int
    rows: int
    ids: Ids | None
    has_value: bool
    span: int

    @property
    def row(self) -> Row:
        return self.task, self.replica


@dataclass(frozen=True, slots=True)
class Taken:
    """What one worker took in one step; `discarded` was read and thrown away.

    Of very many only the number is told: `discarded` is None. Both are where no number is either.
    Of `files`, `cycle` are open at a time. `ready`: inputs read ahead that there were; None: none
    are. `start_ns` is since the epoch.
    """

    step: int
    task: str
    workers: int
    rows: int
    global_batch: int
    asked: str
    effective: str
    files: int
    cycle: int
    discarded: Ids | None
    num_discarded: int | None
    is_last: bool
    ready: int | None
    start_ns: int
    took_ns: int
    waited_ns: int
    span: int
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    task: str
    says: str
    span: int


@dataclass(frozen=True)
class Data:
    """`taken` is by step, then by task. `steps` are those of the run that data were taken in."""

    taken: tuple[Taken, ...]
    refused: tuple[Refused, ...]
    steps: int

    @cached_property
    def by_step(self) -> Mapping[int, tuple[Taken, ...]]:
        found: dict[int, list[Taken]] = defaultdict(list)
        for one in self.taken:
            found[one.step].append(one)
        return {step: tuple(each) for step, each in found.items()}

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return tuple(part for one in self.taken for part in one.parts)

    @property
    def is_window(self) -> bool:
        """Whether there are steps of the run that were not read."""
        return len(self.by_step) < self.steps

    @property
    def num_seen(self) -> int | None:
        """Different examples in the steps read. None: of some batches it is not told which."""
        if any(part.ids is None for part in self.parts):
            return None
        return len({example for part in self.parts for example in part.ids or ()})

    @property
    def rows(self) -> list[Row]:
        """Replicas: (task, replica)."""
        return sorted({part.row for part in self.parts})

    @property
    def tasks(self) -> list[str]:
        return sorted({one.task for one in self.taken})

    @property
    def is_alone(self) -> bool:
        """Whether each worker steps on its own: what it took is the whole batch."""
        return all(one.global_batch == one.rows for one in self.taken)


def num_thrown(taken: Iterable[Taken]) -> int | None:
    """How many examples were read and thrown away. None: some do not tell."""
    counts = [one.num_discarded for one in taken]
    told = [count for count in counts if count is not None]
    return sum(told) if len(told) == len(counts) else None


def batch_sizes(data: Data) -> dict[str, dict[int, int]]:
    """Examples by replica, as `worker:0` or `worker:0 · 1`, and step."""
    names = row_names(data.rows)
    found: dict[str, dict[int, int]] = {name: {} for name in names.values()}
    for part in data.parts:
        found[names[part.row]][part.step] = part.rows
    return found


def row_names(rows: Sequence[Row]) -> dict[Row, str]:
    """The replica is named where its worker has several."""
    counts = Counter(task for task, _ in rows)
    return {row: f"{row[0]} · {row[1]}" if counts[row[0]] > 1 else row[0] for row in rows}


def has_data(trace: Trace) -> bool:
    """Whether the run says which examples it saw, or why it saw none."""
    kinds = trace.all.words["kind"]
    return COPY in kinds or (NEXT in kinds and bool(len(_failed(trace))))


@kept(most=2)
def who_saw_what(trace: Trace, number: int | None) -> Data:
    """All steps of a short run, else those around step `number`."""
    spans = trace.all
    is_whole = spans.flags & (Flag.ERROR | Flag.UNFINISHED) == 0
    nexts = np.flatnonzero(spans.is_kind(NEXT) & (spans.step > 0) & is_whole)
    copies = np.flatnonzero(spans.is_kind(COPY) & (spans.step > 0))
    steps = np.unique(spans.step[nexts])
    shown = _around(steps, number, len(nexts) + len(copies))
    nexts, copies = (places[np.isin(spans.step[places], shown)] for places in (nexts, copies))
    parts = _parts(trace, copies)
    told = trace.attributes(nexts.tolist())
    taken = [
        _taken(trace, place, told[place], parts.get(int(spans.span[place]), []))
        for place in nexts.tolist()
        if "vizdist.data.effective" in told.get(place, {})
    ]
    ordered = tuple(sorted(taken, key=lambda one: (one.step, one.task)))
    return Data(ordered, _refused(trace), len(steps))


def _around(steps: Array, number: int | None, num_spans: int) -> Array:
    """As many steps as MOST spans are of, with `number` in their middle."""
    if num_spans <= MOST:
        return steps
    most = max(1, MOST * len(steps) // num_spans)
    middle = int(np.searchsorted(steps, number)) if number is not None else 0
    first = max(0, min(middle - most // 2, len(steps) - most))
    return steps[first : first + most]


def _parts(trace: Trace, copies: Array) -> dict[int, list[Part]]:
    """By the span of the `data.next` that they are of."""
    spans, found = trace.all, defaultdict(list)
    tasks = spans.take(copies).task
    told = trace.attributes(copies.tolist())
    for place, task in zip(copies.tolist(), tasks, strict=True):
        says = told.get(place)
        if not says:
            continue
        ids = _ids(says, "vizdist.data.examples")
        part = Part(
            step=int(spans.step[place]),
            task=str(task),
            replica=int(says.get("vizdist.replica", 0)),
            rows=int(says.get("vizdist.batch", 0)),
            ids=ids,
            has_value=bool(says.get("vizdist.data.has_value", True)),
            span=int(spans.span[place]),
        )
        found[int(spans.parent[place])].append(part)
    return {span: sorted(each, key=lambda part: part.replica) for span, each in found.items()}


def _taken(trace: Trace, place: int, says: Mapping[str, Any], parts: list[Part]) -> Taken:
    spans = trace.all
    rows = int(says.get("vizdist.batch", 0))
    thrown = _ids(says, "vizdist.data.discarded")
    count = says.get("vizdist.data.num_discarded", None if thrown is None else len(thrown))
    ready = says.get("vizdist.data.ready")
    return Taken(
        step=int(spans.step[place]),
        task=trace.rows[int(spans.row[place])].task,
        workers=int(says.get("vizdist.data.workers", 1)),
        rows=rows,
        global_batch=int(says.get("vizdist.data.global_batch", rows)),
        asked=str(says.get("vizdist.data.asked", "")),
        effective=str(says["vizdist.data.effective"]),
        files=int(says.get("vizdist.data.files", 0)),
        cycle=int(says.get("vizdist.data.cycle", 1)),
        discarded=thrown,
        num_discarded=None if count is None else int(count),
        is_last=bool(says.get("vizdist.data.is_last", False)),
        ready=None if ready is None else int(ready),
        start_ns=int(spans.start[place]),
        took_ns=int(spans.end[place] - spans.start[place]),
        waited_ns=int(spans.wait[place]),
        span=int(spans.span[place]),
        parts=tuple(parts),
    )


def _ids(says: Mapping[str, Any], name: str) -> Ids | None:
    ids = decode(str(says.get(name, "")))
    return None if ids is None else tuple(ids)


def _failed(trace: Trace) -> Array:
    spans = trace.all
    return np.flatnonzero(spans.is_kind(NEXT) & (spans.flags & Flag.ERROR > 0))


def _refused(trace: Trace) -> tuple[Refused, ...]:
    spans, places = trace.all, _failed(trace)
    said = trace.messages(places.tolist())
    return tuple(
        Refused(
            trace.rows[int(spans.row[place])].task,
            said.get(place, "").removeprefix("StepError: "),
            int(spans.span[place]),
        )
        for place in places.tolist()
    )
