"""Spans that belong together, by what they have in common."""

from collections import defaultdict
from typing import Any

import numpy as np

from vizdist.store.segments import Array
from vizdist.store.spans import Spans


def grouped(spans: Spans, *columns: Array) -> list[tuple[tuple[Any, ...], Spans]]:
    """(what the spans of a group have in these columns, the group), in the order of the former."""
    places: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for place, key in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        places[key].append(place)
    return [(key, spans.take(np.array(places[key]))) for key in sorted(places)]
