"""A stretch of a long trace, to look at alone: what `vizdist import --between` copies."""

from collections.abc import Mapping
from typing import Any

from vizdist.store.otlp_spans import NO_TIME, attributes_of, integer, with_spans
from vizdist.store.problems import TraceError
from vizdist.store.redaction import AsItIs
from vizdist.store.trace import Trace


class TimeWindow(AsItIs):
    """The spans that touch `first_s` to `last_s`, seconds from where the trace begins.

    Graphs are kept whatever their time: steps of any time ran them. Raises TraceError if the trace
    has nothing there.
    """

    def __init__(self, trace: Trace, first_s: float, last_s: float) -> None:
        self._first_ns = trace.start + round(first_s * 1e9)
        self._last_ns = trace.start + round(last_s * 1e9)
        spans = trace.all
        if not ((spans.start <= self._last_ns) & (spans.end >= self._first_ns)).any():
            long_s = (trace.end - trace.start) / 1e9
            raise TraceError(
                f"--between {first_s:g}-{last_s:g}: no span of {trace.title} is in these seconds; "
                f"it has spans from 0 to {long_s:g}"
            )

    def document(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        return with_spans(document, self._is_wanted)

    def _is_wanted(self, span: Mapping[str, Any]) -> bool:
        start = integer(span.get("startTimeUnixNano"), NO_TIME)
        end = integer(span.get("endTimeUnixNano"), NO_TIME)
        if start <= self._last_ns and end >= self._first_ns:
            return True
        return attributes_of(span.get("attributes")).get("vizdist.kind") == "graph.chunk"
