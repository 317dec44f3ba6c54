"""One client request, as the questions about its mechanisms look at it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from vizdist.store.graphs import GraphTable
from vizdist.store.segments import Array
from vizdist.store.spans import Spans
from vizdist.store.trace import StepInfo, Trace


@dataclass(frozen=True)
class OneStep:
    """`spans` are those of the request; what registered its graph lies outside them."""

    trace: Trace
    step: StepInfo

    @cached_property
    def places(self) -> Array:
        """Where `spans` lie in the trace's table."""
        return self.trace.step_places(self.step)

    @cached_property
    def spans(self) -> Spans:
        return self.trace.all.take(self.places)

    @cached_property
    def graph(self) -> GraphTable | None:
        """The graph that it ran."""
        return self.trace.graph(self.step)

    def of_kind(self, *kinds: str) -> Spans:
        return self.spans.take(self.spans.is_kind(*kinds))

    def attributes(self, mask: Array) -> list[Mapping[str, Any]]:
        """Of the spans that a mask picks, read from their files."""
        places = self.places[mask].tolist()
        found = self.trace.attributes(places)
        return [found.get(place, {}) for place in places]
