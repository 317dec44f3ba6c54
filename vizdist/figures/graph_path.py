"""The critical path of a step as the graph takes it: names of nodes, keys of pairs, in order."""

from typing import Any

import numpy as np

from vizdist.analysis.critical_path import critical_path
from vizdist.store.trace import StepInfo, Trace

Json = dict[str, Any]


def path_payload(trace: Trace, step: StepInfo | None) -> Json:
    """Pieces without a span are left out; `ns` is how long each is."""
    found = critical_path(trace, step) if step else None
    if found is None:
        return {"pieces": []}
    pieces = [piece for piece in found.pieces if piece.place >= 0]
    spans = trace.all.take(np.array([piece.place for piece in pieces], np.int64))
    named = zip(pieces, spans.text("name").tolist(), spans.text("key").tolist(), strict=True)
    return {
        "pieces": [
            {"name": name, "key": key, "part": piece.part, "ns": piece.duration}
            for piece, name, key in named
        ]
    }
