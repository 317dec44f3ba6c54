"""Spans of few and rare kinds, each told in a row: when, where, how long, its own attributes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracer.model.schema import SPAN_KINDS
from vizdist.analysis.mechanisms.text_table import table
from vizdist.i18n import Lang
from vizdist.i18n.units import duration
from vizdist.store.details import hex_id
from vizdist.store.segments import Array
from vizdist.store.trace import Trace

_OURS = "vizdist."
LONGEST = 60  #: letters of a fact that are written out


@dataclass(frozen=True, slots=True)
class Told:
    """`after_ns` counts from some instant, negative before it; `facts` are its attributes."""

    after_ns: int
    task: str
    kind: str
    took_ns: int
    facts: Mapping[str, Any]
    span: str


def told(trace: Trace, places: Array, since: int) -> Iterator[Told]:
    """The spans at these places; `since` is the instant that they are counted from."""
    attributes = trace.attributes(places.tolist())
    spans = trace.all.take(places)
    kinds, tasks = spans.text("kind").tolist(), spans.task.tolist()
    for at, place in enumerate(places.tolist()):
        facts = facts_of(kinds[at], attributes.get(place, {}))
        after, took = int(spans.start[at]) - since, int(spans.duration[at])
        yield Told(after, tasks[at], kinds[at], took, facts, hex_id(int(spans.span[at])))


def told_table(rows: Sequence[Told], lang: Lang) -> Iterator[str]:
    yield from table(("after", "task", "kind", "took", "facts"), map(_cells, rows), lang)


def _cells(row: Told) -> Sequence[object]:
    times = duration(row.after_ns), duration(row.took_ns)
    return times[0], row.task, row.kind, times[1], facts_text(row.facts)


def facts_of(kind: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """In the order of the schema, without the prefix that all have."""
    return {
        name.removeprefix(_OURS): attributes[name]
        for name in SPAN_KINDS[kind].attributes
        if name in attributes
    }


def facts_text(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_short(str(value))}" for name, value in facts.items())


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
