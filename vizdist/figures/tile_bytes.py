"""Tiles and arrows as the canvases take them: one JSON header, then arrays back to back.

    uint32 little endian: length of the header · header, padded so that what follows is aligned to 8
    columns one after the other; `offset` counts from the end of the header

JSON for spans would cost more time to write than the store takes to find them.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from vizdist.figures.textures import texture_shares
from vizdist.figures.timeline import HUES, marks_of
from vizdist.store.segments import Array
from vizdist.store.tiles import TileSet
from vizdist.store.trace import Trace


def tile_bytes(trace: Trace, tiles: TileSet, **facts: int) -> bytes:
    """start and duration in ns (start counted from the trace's), row, name, kind, flags, ids.

    Marks and hues are those of figures/timeline.py. `facts` go into the header.
    """
    spans = tiles.spans
    names, name = _own_words(spans.words["name"], spans.codes("name"))
    kinds, kind = _own_words(spans.words["kind"], spans.codes("kind"))
    ops, op = _own_words(spans.words["op"], spans.codes("op"))
    marks = marks_of(trace, spans)
    hue = marks.pop("hue")
    columns: dict[str, Array] = {
        "start": (spans.start - trace.start).astype(np.float64),
        "duration": spans.duration.astype(np.float64),
        "row": spans.row.astype(np.uint32),
        "name": name.astype(np.uint32),
        "span_hi": (spans.span >> np.uint64(32)).astype(np.uint32),
        "span_lo": (spans.span & np.uint64(0xFFFFFFFF)).astype(np.uint32),
        "op": op.astype(np.uint32),
        "kind": kind.astype(np.uint32),
        **texture_shares(trace, tiles),
        **marks,
        "flags": spans.flags.astype(np.uint16),
        "hue": hue,
    }
    header = {
        "count": len(spans),
        "start": tiles.start - trace.start,
        "end": tiles.end - trace.start,
        "rows": [tiles.rows.start, tiles.rows.stop],
        "names": names,
        "kinds": kinds,
        "ops": ops,
        "hues": HUES,
        **facts,
    }
    return pack(header, columns)


def pack(header: Mapping[str, Any], columns: Mapping[str, Array]) -> bytes:
    """Widest types first, so that every column is aligned to its own size."""
    layout, offset = [], 0
    for name, column in columns.items():
        layout.append({"name": name, "dtype": column.dtype.name, "offset": offset})
        offset += column.nbytes
    text = orjson.dumps({**header, "columns": layout})
    text += b" " * (-(len(text) + 4) % 8)
    little = [_little_endian(column).tobytes() for column in columns.values()]
    return b"".join([len(text).to_bytes(4, "little"), text, *little])


def _little_endian(column: Array) -> Array:
    return column.byteswap() if sys.byteorder == "big" else column


def _own_words(words: Sequence[str], codes: Array) -> tuple[list[str], Array]:
    """Only the words that these spans use, and codes into them."""
    used, own = np.unique(codes, return_inverse=True)
    return [words[code] for code in used], own
