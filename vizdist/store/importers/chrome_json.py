"""Chrome trace JSON (torch.profiler, Kineto, TensorBoard, viztracer …), streamed.

Complete (X) and begin/end (B, E) events become spans; others are counted by phase. Times are read
as exact decimals, never through floats, and are µs unless the user says otherwise (cases I05, I06).
"""

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import ijson
import numpy as np

from tracer.model.trace_folder import Flag
from vizdist.store.columns import SpanRecord
from vizdist.store.gzip_members import FileBlocks
from vizdist.store.importing import DETAILS_FILE, Sink, head_of_file
from vizdist.store.otlp_spans import key_values
from vizdist.store.problems import TraceError
from vizdist.store.reading import Reading
from vizdist.store.text_repair import JsonText

NS_PER_UNIT = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
#: the unit is questioned if half of all spans last longer than this …
LONG_SPAN_NS = 100_000_000
#: … or less than this in a trace that is over sooner than that
SHORT_SPAN_NS, SHORT_TRACE_NS = 500, 100_000
#: writers whose times are known to be µs
TRUSTED_WRITERS = (b'"schemaVersion"', b'"deviceProperties"')

_EVENTS = re.compile(rb'"traceEvents"\s*:')
_RANK = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]*"rank"\s*:\s*"?(\d+)')
LONGEST_NS = 1 << 62  #: what is longer is no time
_DIGITS_LIMIT = 30  #: a power of ten beyond any time
_OWN_FIELDS = {"ph", "name", "cat", "ts", "dur", "pid", "tid", "args"}

Event = dict[str, Any]
Thread = tuple[str, str]  #: pid, tid


def sniff(path: Path) -> bool:
    head = head_of_file(path).lstrip()
    return bool(_EVENTS.search(head)) or (head[:1] == b"[" and b'"ph"' in head)


def has_lines(path: Path) -> bool:  # noqa: ARG001 (a Chrome trace never has)
    return False


def load(path: Path, sink: Sink) -> None:
    _Loader(path, sink).load()


class _Loader:
    def __init__(self, path: Path, sink: Sink) -> None:
        if sink.time_unit not in NS_PER_UNIT:
            units = ", ".join(NS_PER_UNIT)
            raise TraceError(f"{sink.time_unit!r} is not a time unit; allowed are {units}")
        self._path = path
        self._sink = sink
        self._scale = NS_PER_UNIT[sink.time_unit]
        self._skipped: Counter[str] = Counter()
        self._begun: dict[Thread, list[tuple[int, Event]]] = defaultdict(list)
        self._process_names: dict[str, str] = {}
        self._thread_names: dict[Thread, str] = {}
        self._lengths = array("q")
        self._first = 1 << 63
        self._read = {"X": self._complete, "B": self._begin, "E": self._end, "M": self._name}

    def load(self) -> None:
        head = head_of_file(self._path)
        rank = _RANK.search(head)
        blocks = FileBlocks(self._path, self._sink.limit)
        self._sink.reading = Reading(self._path, lambda: blocks.position)
        text = JsonText(blocks)
        prefix = "item" if head.lstrip()[:1] == b"[" else "traceEvents.item"
        for event in self._events(text, prefix):
            self._take(event)
        self._close_begun()
        self._tell(text.repairs, blocks.torn)
        if self._sink.time_unit == "us" and not any(mark in head for mark in TRUSTED_WRITERS):
            self._question_unit()
        self._rename(rank[1].decode() if rank else "")

    def _events(self, text: JsonText, prefix: str) -> Iterator[Any]:
        """Events up to where the file can be read."""
        try:
            yield from ijson.items(text, prefix)
        except (ijson.JSONError, ValueError):
            seconds = f"{self._sink.last_end / 1e9:.6f}"
            count = self._sink.num_spans
            self._sink.say("cut", count, self._path.name, seconds)

    def _take(self, event: Any) -> None:
        phase = event.get("ph") if isinstance(event, dict) else None
        read = self._read.get(phase) if isinstance(phase, str) else None
        if read is None:
            self._skipped[f"phase {phase}" if phase else "no phase"] += 1
        elif not read(event):
            self._skipped[f"phase {phase} without usable times"] += 1

    def _complete(self, event: Event) -> bool:
        start, length = _number(event.get("ts")), _number(event.get("dur", 0))
        if start is None or length is None:
            return False
        flags = 0 if "dur" in event else Flag.UNFINISHED
        self._add(event, self._ns(start), self._ns(start + length), flags)
        return True

    def _begin(self, event: Event) -> bool:
        start = _number(event.get("ts"))
        if start is not None:
            self._begun[_thread_of(event)].append((self._ns(start), event))
        return start is not None

    def _end(self, event: Event) -> bool:
        stack = self._begun.get(_thread_of(event))
        end = _number(event.get("ts"))
        if not stack or end is None:
            return False
        start, begun = stack.pop()
        self._add({**event, **begun}, start, max(start, self._ns(end)), 0)
        return True

    def _name(self, event: Event) -> bool:
        args = event.get("args")
        name = str(args.get("name", "")) if isinstance(args, dict) else ""
        thread = _thread_of(event)
        if name and event.get("name") == "process_name":
            self._process_names[thread[0]] = name
        elif name and event.get("name") == "thread_name":
            self._thread_names[thread] = name
        return True

    def _close_begun(self) -> None:
        """Spans that no end was written for last until the last end of the file."""
        for stack in self._begun.values():
            for start, event in stack:
                self._add(event, start, max(start, self._sink.last_end), Flag.UNFINISHED)

    def _add(self, event: Event, start: int, end: int, flags: int) -> None:
        pid, tid = _thread_of(event)
        name, category = _text(event.get("name")), _text(event.get("cat"))
        number = self._sink.num_spans + 1
        member, line = self._sink.details.add(_otlp_span(event, number, name, start, end))
        self._lengths.append(min(max(end - start, 0), LONGEST_NS))
        self._first = min(self._first, start)
        self._sink.add(
            SpanRecord(
                task=pid,
                lane=f"{pid}/{tid}",
                start=start,
                end=end,
                name=name or category,
                kind=category,
                span=number,
                flags=flags,
                file=DETAILS_FILE,
                member=member,
                line=line,
            ),
            self._path.name,
        )

    def _ns(self, number: Decimal) -> int:
        """Exact decimals to whole ns, halves to even."""
        return int((number * self._scale).to_integral_value())

    def _tell(self, repairs: Mapping[str, int], torn: int) -> None:
        sink, name = self._sink, self._path.name
        for kind, count in repairs.items():
            sink.say(kind, count, name)
        sink.say("torn", torn, name)
        reasons = ", ".join(f"{count:,} × {what}" for what, count in self._skipped.most_common(5))
        sink.say("skipped", sum(self._skipped.values()), name, reasons)

    def _question_unit(self) -> None:
        """Once a file, as a hint: nothing is ever scaled by guess (case I05)."""
        lengths = np.sort(np.frombuffer(self._lengths, np.int64))
        if not len(lengths) or not lengths[-1]:
            return
        middle, total = int(lengths[len(lengths) // 2]), self._sink.last_end - self._first
        if middle > LONG_SPAN_NS or (middle < SHORT_SPAN_NS and total < SHORT_TRACE_NS):
            self._sink.say("time-unit", 1, self._path.name, f"{middle / 1000:g} µs")

    def _rename(self, rank: str) -> None:
        """Gives tasks and lanes the names that metadata events told, which may come last."""
        tasks = self._sink.builder.words("task")
        alone = len(tasks) == 1
        for pid in tasks:
            name = self._process_names.get(pid, "process")
            shown = f"rank {rank}" if rank and alone else f"{name} {pid}"
            self._sink.builder.rename("task", pid, shown)
        for lane in self._sink.builder.words("lane"):
            pid, _, tid = lane.partition("/")
            name = self._thread_names.get((pid, tid), "thread")
            has_number = re.findall(r"\d+", name)[-1:] == [tid]
            self._sink.builder.rename("lane", lane, name if has_number else f"{name} {tid}")


def _thread_of(event: Event) -> Thread:
    return _text(event.get("pid", "?")), _text(event.get("tid", "?"))


def _number(value: Any) -> Decimal | None:
    """A number as it was written; None for what is none, and for what no time can be."""
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        return None
    try:
        number = Decimal(value)
    except InvalidOperation:
        return None
    return number if number.is_finite() and number.adjusted() < _DIGITS_LIMIT else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _otlp_span(event: Event, number: int, name: str, start: int, end: int) -> Mapping[str, Any]:
    args = event.get("args")
    attributes = {**args} if isinstance(args, dict) else {"args": args} if args else {}
    attributes |= {k: event[k] for k in event.keys() - _OWN_FIELDS}
    return {
        "spanId": f"{number:016x}",
        "name": name,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(end),
        "attributes": key_values(attributes),
    }
