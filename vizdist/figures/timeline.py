"""What the timeline canvas draws: hues and marks of spans, rows, steps, all steps as a strip.

The canvas gets numbers; what they mean is decided here, once.
"""

from typing import Any

import numpy as np

from tracer.model.trace_folder import Flag
from vizdist.analysis.recv_parts import value_at, waited
from vizdist.analysis.step_split import is_update, is_wait, op_mask
from vizdist.analysis.waiting import Stood, idle_wait, stood, task_numbers, union
from vizdist.store.details import hex_id
from vizdist.store.segments import Array
from vizdist.store.spans import Spans
from vizdist.store.trace import RELATIONS, Arrows, RowInfo, Trace

#: What a span is to the eye. `frame` spans hold others and are drawn as plain rails.
HUES = ("idle", "compute", "update", "send", "recv", "collective", "frame", "error")
IDLE, COMPUTE, UPDATE, SEND, RECV, COLLECTIVE, FRAME, ERROR = range(len(HUES))

_HUE_OF_KIND = {
    "op.run": COMPUTE,
    "rendezvous.send": SEND,
    "rendezvous.recv": RECV,
    "copy.run": RECV,
    "session.run": FRAME,
    "partition.run": FRAME,
    "run": FRAME,
    "fault.inject": ERROR,
    # categories of torch's profiler, as its Chrome traces call them
    "kernel": COMPUTE,
    "cpu_op": COMPUTE,
    "gpu_memcpy": RECV,
}
BUSY = (COMPUTE, UPDATE, COLLECTIVE)  #: what the strip counts as a task being at work

STRIP_BUCKETS = 1200  #: of the whole run: about one a pixel

BESIDE_STEPS = ("input",)  #: lanes of what is done for steps to come, and so is of none


def hues_of(spans: Spans) -> Array:
    """The place in HUES of every span."""
    by_kind = np.array([_hue_of_kind(kind) for kind in (*spans.words["kind"], "")], np.uint8)
    hues = by_kind[spans.codes("kind")]
    runs = hues == COMPUTE
    hues[runs & op_mask(spans, is_update)] = UPDATE
    hues[runs & op_mask(spans, is_wait)] = IDLE
    return hues


def has_failed(trace: Trace) -> bool:
    """Whether any bar is drawn as one that failed."""
    return any(bool((one.columns["flags"] & Flag.ERROR).any()) for one in trace.segments)


def _hue_of_kind(kind: str) -> int:
    if kind.startswith("collective."):
        return COLLECTIVE
    return _HUE_OF_KIND.get(kind, IDLE)


def marks_of(trace: Trace, spans: Spans) -> dict[str, Array]:
    """What a bar carries beside its extent; ns, bytes, and the place in HUES.

    queue: ready before start; wait: until the value of a recv existed, or a served call was let go;
    stood: the end of that wait, in which the task had nothing else to run.
    """
    queue = np.where(spans.ready > 0, spans.start - spans.ready, 0)
    came = value_at(trace, spans)
    return {
        "queue": np.maximum(queue, 0).astype(np.float32),
        "wait": waited(spans, came).astype(np.float32),
        "stood": idle_wait(trace, spans, came).astype(np.float32),
        "bytes": spans.bytes.astype(np.float32),
        "hue": hues_of(spans),
    }


def head(trace: Trace, buckets: int = STRIP_BUCKETS) -> dict[str, Any]:
    """All of a run that does not depend on the window; times are ns from the trace's start."""
    return {
        "end": trace.end - trace.start,
        "tasks": list(trace.tasks),
        "rows": _rows(trace),
        "steps": _steps(trace),
        "strip": strip(trace, buckets),
    }


def _rows(trace: Trace) -> list[dict[str, Any]]:
    """`first` and `last`: between which instants the row holds spans.

    `stepped`: any of a step, or for steps to come.
    """
    first, last, stepped = trace.extents
    devices = {task: _devices(trace, task) for task in trace.tasks}
    return [
        {
            "id": row.id,
            "task": row.task,
            "lane": row.lane,
            "label": _label(row, devices[row.task]),
            "depth": row.depth,
            "first": int(first[row.id]) - trace.start,
            "last": int(last[row.id]) - trace.start,
            "stepped": bool(stepped[row.id]) or row.lane in BESIDE_STEPS,
        }
        for row in trace.rows
    ]


def _devices(trace: Trace, task: str) -> set[str]:
    """`CPU:0`, `GPU:1` …: the devices that a task's lanes name."""
    lanes = {row.lane for row in trace.rows if row.task == task}
    return {word for lane in lanes for word in lane.split(" ")[1:] if ":" in word}


def _label(row: RowInfo, devices: set[str]) -> str:
    """The lane's name; a task's only device stands in its title already."""
    if len(devices) != 1:
        return row.lane
    return " ".join(word for word in row.lane.split(" ") if word not in devices)


def _steps(trace: Trace) -> dict[str, list[Any]]:
    return {
        "number": [step.number for step in trace.steps],
        "task": [step.task for step in trace.steps],
        "start": [step.start - trace.start for step in trace.steps],
        "end": [step.end - trace.start for step in trace.steps],
    }


def arrow_ends(trace: Trace, found: Arrows) -> dict[str, Any]:
    """A value leaves when its send starts and is there when its recv ends; all else at starts."""
    spans, source, target = trace.all, found.source, found.target
    is_value = found.code == RELATIONS.index("data")
    arrival = np.where(is_value, spans.end[target], spans.start[target])
    return {
        "total": found.total,
        "source": [hex_id(int(number)) for number in spans.span[source]],
        "target": [hex_id(int(number)) for number in spans.span[target]],
        "source_row": spans.row[source].tolist(),
        "target_row": spans.row[target].tolist(),
        "source_at": (spans.start[source] - trace.start).tolist(),
        "target_at": (arrival - trace.start).tolist(),
        "relation": [RELATIONS[code] for code in found.code],
    }


def strip(trace: Trace, buckets: int = STRIP_BUCKETS) -> dict[str, Any]:
    """How busy each task was in each of so many equal parts of all steps (%), and the larger hue.

    Beside that for how much of it the task stood still for a value, and had ops that were ready;
    and when faults struck it.

    Processes take seconds to come up and steps milliseconds to run, so what lies before the first
    step would leave them no room. A run without steps is shown from end to end.
    """
    spans = trace.all
    begin = min((step.start for step in trace.steps), default=trace.start)
    end = max((step.end for step in trace.steps), default=trace.end)
    buckets = max(1, min(buckets, end - begin))
    edges = begin + np.linspace(0, max(end - begin, 1), buckets + 1).astype(np.int64)
    length = np.maximum(np.diff(edges), 1)
    owner = task_numbers(trace)[spans.row] if len(trace.rows) else np.empty(0, np.int64)
    hues = hues_of(spans)
    counted = (*BUSY, IDLE) if trace.is_foreign else BUSY
    idle = stood(trace, spans)
    struck = hues == ERROR
    tasks = []
    for number, task in enumerate(trace.tasks):
        own = owner == number
        shares = np.array(
            [
                np.diff(covered(spans.start[at], spans.end[at], edges)) / length
                for hue in counted
                for at in [np.flatnonzero(own & (hues == hue))]
            ]
        )
        busy = np.clip(shares.sum(axis=0), 0, 1)
        runs = np.flatnonzero(own & np.isin(hues, counted))
        tasks.append(
            {
                "task": task,
                "busy": np.ceil(busy * 100).astype(int).tolist(),
                "hue": np.array(counted)[shares.argmax(axis=0)].tolist(),
                "stood": _percent(np.diff(covered(*_own(idle, own), edges)) / length),
                "ready": _percent(_ready(spans, runs, edges) / length),
                "struck": (spans.start[own & struck] - trace.start).tolist(),
            }
        )
    return {
        "from": begin - trace.start,
        "to": int(edges[-1]) - trace.start,
        "hues": list(HUES),
        "tasks": [task for task in tasks if any(task["busy"])] or tasks,
    }


def _percent(shares: Array) -> list[int]:
    found: list[int] = np.rint(np.clip(shares, 0, 1) * 100).astype(int).tolist()
    return found


def _own(idle: Stood, own: Array) -> tuple[Array, Array]:
    mine = own[idle.place]
    return idle.start[mine], idle.end[mine]


def _ready(spans: Spans, runs: Array, edges: Array) -> Array:
    """ns between the edges in which some of these ops were ready and none ran."""
    starts, ends, ready = spans.start[runs], spans.end[runs], spans.ready[runs]
    asked = ready > 0
    either = np.append(starts, ready[asked]), np.append(ends, starts[asked])
    ran, both = (np.diff(covered(*union(*pair), edges)) for pair in ((starts, ends), either))
    return np.asarray(both - ran)


def covered(starts: Array, ends: Array, edges: Array) -> Array:
    """ns of the intervals that lie before each edge; overlaps count as often as they overlap."""
    origin = int(edges[0])
    edges = edges - origin
    parts = []
    for instants in (np.sort(starts - origin), np.sort(ends - origin)):
        before = np.searchsorted(instants, edges)
        total = np.append(0, np.cumsum(instants))
        parts.append(before * edges - total[before])
    return np.asarray(parts[0] - parts[1])
