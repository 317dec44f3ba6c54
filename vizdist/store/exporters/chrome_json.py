"""Chrome trace JSON, as Perfetto reads it: a process a task, a thread a row, flows for arrows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from vizdist.store.details import hex_id
from vizdist.store.redaction import AsItIs
from vizdist.store.relations import RELATIONS
from vizdist.store.trace import Trace

Event = dict[str, Any]

_NUMBERS = ("bytes", "wait", "step")
_TEXTS = ("op", "device", "key")


def write(trace: Trace, path: Path, redactor: AsItIs) -> int:
    """Returns the number of spans. Times count from the trace's start, which is in `otherData`."""
    other = {"startTimeUnixNano": str(trace.start), "displayTimeUnit": "ns"}
    with path.open("wb") as file:
        file.write(b'{"displayTimeUnit":"ns","otherData":' + orjson.dumps(other))
        file.write(b',"traceEvents":[\n')
        separator = b""
        for event in _events(trace, redactor):
            file.write(separator + orjson.dumps(event))
            separator = b",\n"
        file.write(b"\n]}\n")
    return len(trace)


def _events(trace: Trace, redactor: AsItIs) -> Iterator[Event]:
    pids = {task: number for number, task in enumerate(trace.tasks, 1)}
    for task, pid in pids.items():
        name = redactor.task(task)
        yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
    for row in trace.rows:
        lane = redactor.text(row.lane)
        name = f"{lane} · {row.depth}" if row.depth else lane
        for kind, args in (
            ("thread_name", {"name": name}),
            ("thread_sort_index", {"sort_index": row.id}),
        ):
            yield {"ph": "M", "name": kind, "pid": pids[row.task], "tid": row.id + 1, "args": args}
    yield from _slices(trace, pids, redactor)
    yield from _flows(trace, pids)


def _slices(trace: Trace, pids: dict[str, int], redactor: AsItIs) -> Iterator[Event]:
    spans = trace.all
    kinds = tuple(map(redactor.kind, spans.words["kind"]))
    words = {name: tuple(map(redactor.text, spans.words[name])) for name in ("name", *_TEXTS)}
    duration = spans.duration  # made anew each time it is asked for
    for at in range(len(spans)):
        args: Event = {
            name: words[name][code]
            for name in _TEXTS
            if words[name][code := _code(trace, name, at)]
        }
        args |= {name: n for name in _NUMBERS if (n := int(spans.columns[name][at]))}
        args["span"] = hex_id(int(spans.span[at]))
        yield {
            "ph": "X",
            "name": words["name"][_code(trace, "name", at)],
            "cat": kinds[_code(trace, "kind", at)],
            "ts": (int(spans.start[at]) - trace.start) / 1000,
            "dur": int(duration[at]) / 1000,
            **_place(trace, pids, at),
            "args": args,
        }


def _code(trace: Trace, name: str, at: int) -> int:
    return int(trace.all.columns[name][at])


def _place(trace: Trace, pids: dict[str, int], at: int) -> Event:
    row = trace.rows[int(trace.all.row[at])]
    return {"pid": pids[row.task], "tid": row.id + 1}


def _flows(trace: Trace, pids: dict[str, int]) -> Iterator[Event]:
    """A value leaves when its send starts and is there when its recv ends; all else at starts."""
    spans, found = trace.all, trace.relations
    pairs = zip(found.source.tolist(), found.target.tolist(), found.code.tolist(), strict=True)
    for number, (begin, end, code) in enumerate(pairs, 1):
        start, stop = int(spans.start[end]), int(spans.end[end])
        is_value = RELATIONS[code] == "data"
        arrival = max(start, stop - 1) if is_value else start  # inside its slice
        name = "tensor" if is_value else RELATIONS[code]
        shared = {"name": name, "cat": "relation", "id": number}
        for phase, at, when in (("s", begin, int(spans.start[begin])), ("f", end, arrival)):
            yield {
                **shared,
                "ph": phase,
                "bp": "e",
                "ts": (when - trace.start) / 1000,
                **_place(trace, pids, at),
            }
