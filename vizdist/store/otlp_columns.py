"""Spans of the standard form as columns, thousands at a time: what `otlp_record` says of each."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from tracer.model.schema import SPAN_KINDS
from tracer.model.trace_folder import Flag
from vizdist.store.columns import ColumnsBuilder
from vizdist.store.importing import Sink
from vizdist.store.otlp_record import (
    FLAG_ATTRIBUTES,
    LANE_ATTRIBUTES,
    LINKED_KIND,
    OWN_COLUMNS,
    RPC_KINDS,
    RPC_SYSTEMS,
    STATUS_ERROR,
    Place,
    category_of,
    default_lane,
    task_of,
    text_of,
)
from vizdist.store.otlp_spans import integer, number_of_id
from vizdist.store.otlp_standard import Attribute, Span, Value, standard_spans
from vizdist.store.segments import Array

_ENOUGH = 4096  #: spans that are made columns at once
_KIND = "vizdist.kind"
_READ = frozenset((_KIND, *RPC_SYSTEMS, *LANE_ATTRIBUTES, *OWN_COLUMNS, *FLAG_ATTRIBUTES))
#: A text that holds none of these has no attribute that a column knows.
_WANTED = (b"vizdist.", b"thread.", b"rpc.system")

#: What is taken without being looked at: the struct has seen to texts and 64-bit numbers.
_AS_THEY_STAND: Mapping[Callable[[Any], Any], Callable[[Value], Any]] = {
    text_of: attrgetter("string_value"),
    integer: attrgetter("int_value"),
}

_Told = tuple[list[int], list[Value]]  #: which spans have an attribute, and its values


class _Lines(NamedTuple):
    """Spans of one line and resource."""

    size: int
    task: str
    place: Place


class StandardSpans:
    """Collects spans of one file for a sink; `close` hands over the last of them."""

    def __init__(self, sink: Sink, name: str, file_task: str) -> None:
        self._sink = sink
        self._name = name
        self._file_task = file_task
        self._clear()

    def _clear(self) -> None:
        self._spans: list[Span] = []
        self._attributes: list[Sequence[Attribute]] = []
        self._lines: list[_Lines] = []

    def add(self, text: bytes, place: Place) -> bool:
        """Takes a line; False, and nothing of it, if it is not in the standard form."""
        found = standard_spans(text, _WANTED)
        for resource, spans, attributes in found or ():
            task = task_of(resource, self._file_task)
            self._spans += spans
            self._attributes += attributes
            self._lines.append(_Lines(len(spans), task, place))
        if len(self._spans) >= _ENOUGH:
            self.close()
        return found is not None

    def close(self) -> None:
        if self._spans:
            columns = _columns(self._spans, self._attributes, self._sink.builder)
            columns |= _places(self._lines, self._sink.builder)
            self._clear()
            self._sink.add_columns(columns, self._name)


def _places(lines: Sequence[_Lines], builder: ColumnsBuilder) -> dict[str, Array]:
    sizes = [line.size for line in lines]
    each = {
        "task": builder.codes("task", (line.task for line in lines)),
        "file": builder.codes("file", (line.place.file for line in lines)),
        "member": np.array([line.place.member for line in lines]),
        "line": np.array([line.place.line for line in lines]),
    }
    return {name: np.repeat(cells, sizes) for name, cells in each.items()}


def _columns(
    spans: Sequence[Span], attributes: Sequence[Sequence[Attribute]], builder: ColumnsBuilder
) -> dict[str, Array]:
    told = _told(attributes)
    kinds = _kinds(spans, told)
    lanes = _lanes(kinds, told)
    names = [one.name or kind for one, kind in zip(spans, kinds, strict=True)]
    traces = np.array(_numbers([one.trace_id for one in spans], 32)).reshape(-1, 2)
    columns: dict[str, Array] = {
        "start": np.array([one.start_time_unix_nano for one in spans]),
        "end": np.array([one.end_time_unix_nano for one in spans]),
        "trace_hi": traces[:, 0],
        "trace_lo": traces[:, 1],
        "span": _numbers([one.span_id for one in spans], 16),
        "parent": _numbers([one.parent_span_id for one in spans], 16),
        "link": _links(spans, kinds),
        "flags": _flags(spans, told),
    }
    texts = {"name": names, "kind": kinds, "lane": lanes}
    columns |= {column: builder.codes(column, words) for column, words in texts.items()}
    return columns | _own(told, len(spans), builder)


def _told(attributes: Sequence[Sequence[Attribute]]) -> dict[str, _Told]:
    """For every attribute that columns know the spans that have it."""
    found: dict[str, _Told] = {name: ([], []) for name in _READ}
    for at, of_span in enumerate(attributes):
        for one in of_span:
            if (told := found.get(one.key)) is not None:
                told[0].append(at)
                told[1].append(one.value)
    return found


def _numbers(ids: Sequence[str], digits: int) -> Array:
    """Ids of so many hex digits as 64-bit numbers, the high ones of each first; "" is 0."""
    zero = "0" * digits
    texts = [text or zero for text in ids]
    size = digits // 2
    try:
        if all(len(text) == digits for text in texts):
            packed = bytes.fromhex("".join(texts))
            if len(packed) == size * len(texts):
                return np.frombuffer(packed, ">u8").astype(np.uint64)
    except ValueError:
        pass  # another spelling
    packed = b"".join(number_of_id(text, digits).to_bytes(size, "big") for text in ids)
    return np.frombuffer(packed, ">u8").astype(np.uint64)


def _kinds(spans: Sequence[Span], told: Mapping[str, _Told]) -> list[str]:
    kinds = [one.name if one.name in SPAN_KINDS else category_of(one.kind) for one in spans]
    for system in RPC_SYSTEMS:
        for at in told[system][0]:
            kinds[at] = RPC_KINDS.get(kinds[at], kinds[at])
    _replace(kinds, told[_KIND], text_of)
    return kinds


def _lanes(kinds: Sequence[str], told: Mapping[str, _Told]) -> list[str]:
    lanes = [""] * len(kinds)
    for name, read in LANE_ATTRIBUTES.items():
        _replace(lanes, told[name], read)
    return [lane or default_lane(kind) for lane, kind in zip(lanes, kinds, strict=True)]


def _replace(words: list[str], told: _Told, read: Callable[[Any], str]) -> None:
    for at, value in zip(*told, strict=True):
        if (held := value.held()) is not None:
            words[at] = read(held)


def _links(spans: Sequence[Span], kinds: Sequence[str]) -> Array:
    found = np.zeros(len(spans), np.uint64)
    linked = [at for at, one in enumerate(spans) if one.links and kinds[at] == LINKED_KIND]
    found[linked] = _numbers([spans[at].links[0].span_id for at in linked], 16)
    return found


def _flags(spans: Sequence[Span], told: Mapping[str, _Told]) -> Array:
    flags = np.zeros(len(spans), np.int64)
    for name, read in FLAG_ATTRIBUTES.items():
        which, values = told[name]
        flags[which] |= np.array([read(value.held()) for value in values], np.int64)
    failed = [at for at, one in enumerate(spans) if one.status and one.status.code in STATUS_ERROR]
    flags[failed] |= Flag.ERROR
    return flags


def _own(told: Mapping[str, _Told], size: int, builder: ColumnsBuilder) -> dict[str, Array]:
    columns = {}
    for name, (column, read) in OWN_COLUMNS.items():
        which, values = told[name]
        if which:
            columns[column] = builder.cells(column, which, _cells(values, read), size)
    return columns


def _cells(values: Sequence[Value], read: Callable[[Any], Any]) -> list[Any]:
    """What `read` makes of each; where all are what it looks for, they are that as they stand."""
    field = _AS_THEY_STAND.get(getattr(read, "func", read))
    plain = list(map(field, values)) if field else [None]
    return [read(value.held()) for value in values] if None in plain else plain
