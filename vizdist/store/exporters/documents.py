"""The spans of a trace as OTLP documents, in the order of their files, a line each."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import numpy as np
import orjson

from vizdist.store.details import raw_spans
from vizdist.store.importing import DETAILS_FILE
from vizdist.store.otlp_reader import SpanFile
from vizdist.store.trace import Trace

Document = Mapping[str, Any]

_LINE_SPANS = 256


def documents_of(trace: Trace) -> Iterator[Document]:
    """What could be read; a line that is none is left out, as the trace shows it neither."""
    for name in trace.all.words["file"]:
        path = trace.details_folder / name
        if path.name == DETAILS_FILE:
            yield from _of_details(trace)
        elif path.is_file():
            for line in SpanFile(path).lines(salvage=True):
                yield from _parsed(line.text)


def _parsed(text: bytes) -> Iterator[Document]:
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return
    if isinstance(document, dict):
        yield document


def _of_details(trace: Trace) -> Iterator[Document]:
    """Spans of a format without lines of its own; all that is known of their resource is a task."""
    spans = trace.all
    order = np.lexsort((spans.columns["line"], spans.columns["member"]))
    for first in range(0, len(order), _LINE_SPANS):
        found = raw_spans(spans, order[first : first + _LINE_SPANS], trace.details_folder)
        told = [(trace.rows[int(spans.row[at])].task, raw) for at, raw in found if raw is not None]
        for task, group in groupby(told, key=lambda pair: pair[0]):
            resource = {"key": "vizdist.task", "value": {"stringValue": task}}
            yield {
                "resourceSpans": [
                    {
                        "resource": {"attributes": [resource]},
                        "scopeSpans": [{"spans": [raw for _, raw in group]}],
                    }
                ]
            }
