"""What a critical path goes to: its pieces by class of time and by what ran or travelled."""

from dataclasses import dataclass

import numpy as np

from vizdist.analysis.critical_path import CriticalPath
from vizdist.analysis.keys import title_of
from vizdist.store.trace import Trace


@dataclass(frozen=True, slots=True)
class Stretch:
    """What one thing takes of a critical path, in several pieces; the longest piece comes first.

    `name` is of an op, a tensor or a call; the runtime between ops has none. `kind` is of its
    spans. What no span tells of has neither name, task nor spans.
    """

    part: str
    kind: str
    task: str
    name: str
    total: int
    spans: tuple[int, ...]


def stretches(trace: Trace, path: CriticalPath) -> list[Stretch]:
    """The longest first; they add up to the path."""
    places = np.array([max(piece.place, 0) for piece in path.pieces], np.int64)
    spans = trace.all.take(places)
    texts = (spans.text(column).tolist() for column in ("kind", "name", "key"))
    rows = zip(path.pieces, spans.task.tolist(), *texts, spans.span.tolist(), strict=True)
    found: dict[tuple[str, str, str, str], list[tuple[int, int]]] = {}
    for piece, task, kind, name, key, span in rows:
        which, known = (piece.part, kind, task, title_of(name, key)), span
        if piece.place < 0:
            which, known = (piece.part, "", "", ""), 0
        elif piece.part == "other":
            which = piece.part, "", task, ""
        found.setdefault(which, []).append((piece.duration, known))
    made = [
        Stretch(*which, sum(ns for ns, _ in pieces), _longest_first(pieces))
        for which, pieces in found.items()
    ]
    return sorted(made, key=lambda stretch: -stretch.total)


def _longest_first(pieces: list[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(span for _, span in sorted(pieces, reverse=True) if span))


def way_of(one: Stretch) -> str:
    """The word by which texts tell what it was."""
    return _WAYS.get((one.part, one.kind)) or _WAYS[one.part, ""]


#: by class of time and kind of span; "" is any other kind
_WAYS = {
    ("compute", ""): "ran",
    ("update", ""): "ran",
    ("transfer", ""): "transfer",
    ("rpc", ""): "called",
    ("rpc", "rpc.client"): "call",
    ("rpc", "rendezvous.recv"): "request",
    ("wait", ""): "wait",
    ("queueing", ""): "queueing",
    ("other", ""): "other",
}
