"""The replay of a step as its canvas takes it: a JSON header, then the columns of three tables.

The form is that of figures/tile_bytes.py; a column's name begins with that of its table.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer.model.step import RendezvousKey
from vizdist.analysis.keys import edge_of, key_of, tensor_title
from vizdist.analysis.replay import EVENTS, KINDS, NEVER, Replay
from vizdist.figures.graph_stage import box_of, device_of
from vizdist.figures.tile_bytes import pack
from vizdist.store.segments import Array
from vizdist.store.spans import Spans
from vizdist.store.trace import Trace

NO_LOOP = 0xFFFF
MOST_FRAMES = 64  #: whose attributes are read; a nested loop has one a turn of the outer one


def replay_bytes(trace: Trace, replay: Replay, tasks: Sequence[str] = ()) -> bytes:
    """Times are ns from the start of the step, infinite if they never come.

    `tasks` are all whose client runs a step of this number.
    """
    places = _Places(replay.step.task)
    loops, loop = np.unique(replay.items.frame_id, return_inverse=True)
    columns = {**_items(replay, places, loops, loop), **_keys(replay, places), **_events(replay)}
    step = replay.step
    header = {
        "step": step.number,
        "task": step.task,
        "tasks": list(tasks),
        "start": step.start - trace.start,
        "end": step.duration,
        "isWhole": step.is_whole,
        "counts": {
            "item": len(replay.items),
            "key": len(replay.keys.sent),
            "event": len(replay.events.time),
        },
        "kinds": KINDS,
        "events": EVENTS,
        "places": places.titles,
        "loops": _loops(trace, replay.items, loops),
        **places.words,
    }
    widest = sorted(columns.items(), key=lambda column: -column[1].dtype.itemsize)
    return pack(header, dict(widest))


class _Places:
    """Numbers of places, (task, device), and of words, in the order in which they come up."""

    def __init__(self, local_task: str) -> None:
        self._local_task = local_task
        self._codes: dict[tuple[str, str], int] = {}
        self.words: dict[str, list[str]] = {}

    @property
    def titles(self) -> list[dict[str, str]]:
        return [{"task": task, "device": device} for task, device in self._codes]

    def of(self, task: str, device: str) -> int:
        return self._codes.setdefault((task, device), len(self._codes))

    def of_spans(self, spans: Spans) -> Array:
        """Where each span ran: its task and, of ops, its device."""
        width = len(spans.words["device"]) + 1
        pairs, own = np.unique(
            spans.row.astype(np.int64) * width + spans.codes("device"), return_inverse=True
        )
        words = (*spans.words["device"], "")
        codes = [
            self.of(spans.rows[pair // width].task, device_of(words[pair % width]))
            for pair in pairs.tolist()
        ]
        return np.array(codes, np.uint16)[own]

    def of_device(self, name: str) -> int:
        return self.of(box_of(name, self._local_task), device_of(name))

    def coded(self, area: str, spans: Spans, column: str) -> Array:
        """A text column as codes into the words that it uses."""
        used, own = np.unique(spans.codes(column), return_inverse=True)
        self.words[area] = [spans.words[column][code] for code in used]
        return own.astype(np.uint32)


def _items(replay: Replay, places: _Places, loops: Array, loop: Array) -> dict[str, Array]:
    items, start = replay.items, replay.step.start
    is_ready = items.ready > 0
    return {
        "item.kind": replay.kind,
        "item.place": places.of_spans(items),
        "item.name": places.coded("names", items, "name"),
        "item.op": places.coded("ops", items, "op"),
        "item.loop": np.where(loops[loop] == 0, NO_LOOP, loop).astype(np.uint16),
        "item.iteration": items.iteration.astype(np.int32),
        "item.ready": _since(np.where(is_ready, items.ready, items.start), start),
        "item.start": _since(items.start, start),
        "item.end": _since(replay.ended, start),
        "item.bytes": items.bytes.astype(np.float64),
        "item.flags": items.flags.astype(np.uint16),
        "item.span_hi": (items.span >> np.uint64(32)).astype(np.uint32),
        "item.span_lo": (items.span & np.uint64(0xFFFFFFFF)).astype(np.uint32),
    }


def _since(instants: Array, start: int) -> Array:
    counted: Array = (instants - start).astype(np.float64)
    counted[instants >= NEVER] = np.inf
    return counted


def _keys(replay: Replay, places: _Places) -> dict[str, Array]:
    keys, start = replay.keys, replay.step.start
    end = np.where(keys.recv >= 0, keys.recv, keys.send)
    ends = replay.items.take(end)
    codes = places.coded("keys", ends, "key")
    texts = places.words["keys"]
    edges = list(map(edge_of, texts))
    one_of = dict(zip(edges, texts, strict=True))
    known = {edge: _edge(key_of(text), places) for edge, text in one_of.items()}
    places.words["tensors"] = [known[edge][0] for edge in edges]
    of_key = np.array([known[edge][1:] for edge in edges], np.uint16).reshape(-1, 2)
    instants = {
        f"key.{name}": _since(getattr(keys, name), start)
        for name in ("sent", "asked", "met", "taken", "lost")
    }
    return {
        "key.send": keys.send.astype(np.int32),
        "key.recv": keys.recv.astype(np.int32),
        "key.key": codes,
        "key.from": of_key[codes, 0],
        "key.to": of_key[codes, 1],
        **instants,
    }


def _edge(key: RendezvousKey, places: _Places) -> tuple[str, int, int]:
    """Tensor, source and target."""
    ends = places.of_device(key.src_device), places.of_device(key.dst_device)
    return tensor_title(key.edge_name), *ends


def _events(replay: Replay) -> dict[str, Array]:
    events = replay.events
    return {
        "event.time": _since(events.time, replay.step.start),
        "event.what": events.what,
        "event.item": events.item.astype(np.uint32),
    }


def _loops(trace: Trace, items: Spans, loops: Array) -> list[dict[str, Any]]:
    """Name of every execution of a loop, and how many of its iterations may run at once."""
    frames = items.take(items.is_kind("frame.run"))
    first = {int(frame): at for at, frame in reversed(list(enumerate(frames.frame_id.tolist())))}
    shown = list(first.values())[:MOST_FRAMES]
    places = trace.places(frames.span[np.array(shown, np.int64)]).tolist()
    attributes = trace.attributes(places)
    told = {
        int(frames.frame_id[at]): attributes.get(place, {}).get("vizdist.parallel_iterations")
        for at, place in zip(shown, places, strict=True)
    }
    names = dict(zip(items.frame_id.tolist(), items.text("frame").tolist(), strict=True))
    return [{"name": names[one], "parallel": told.get(one)} for one in loops.tolist()]
