"""How a step's graph was made ready, once for all its steps: prune, place, cut, register."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vizdist.analysis.graph_counts import own_nodes
from vizdist.analysis.mechanisms.facts import facts_of, facts_text
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.mechanisms.text_table import table
from vizdist.i18n import Lang, t
from vizdist.i18n.units import duration
from vizdist.store.details import hex_id
from vizdist.store.graphs import GRAPH_ID, GraphTable
from vizdist.store.segments import Array

PREDICTED = "graph.predicted_ns"
ON_MASTER = ("graph.prune", "graph.place", "graph.optimize", "graph.partition")


@dataclass(frozen=True, slots=True)
class Work:
    """`after_ns` counts from the start of the first; `facts` are the span's attributes."""

    after_ns: int
    task: str
    kind: str
    took_ns: int
    facts: Mapping[str, Any]
    span: str


@dataclass(frozen=True, slots=True)
class Preparation:
    """`predicted_ns` is the step that the placer's cost model foresaw, None where it had none.

    `client_ends` are the nodes that pruning put where the client feeds and fetches.
    """

    works: Sequence[Work]
    step_ns: int
    predicted_ns: int | None
    client_ends: int


def find(one: OneStep) -> Preparation | None:
    """None where the trace does not hold the registration of the step's graph."""
    graph = one.graph
    registered = _registered(one, graph) if graph is not None else np.empty(0, np.int64)
    if graph is None or not len(registered):
        return None
    places = np.concatenate((_on_master(one, graph, registered), registered))
    places = places[one.trace.all.start[places].argsort(kind="stable")]
    works = list(_works(one, places))
    foreseen = [work.facts[PREDICTED] for work in works if PREDICTED in work.facts]
    predicted = int(foreseen[-1]) if foreseen else None
    pruned = graph.stages.get("pruned", ())
    return Preparation(works, one.step.duration, predicted, len(pruned) - len(own_nodes(pruned)))


def _registered(one: OneStep, graph: GraphTable) -> Array:
    """Where the spans of the workers that registered a part of it lie."""
    places = np.flatnonzero(one.trace.all.is_kind("graph.register"))
    found = one.trace.attributes(places.tolist())
    own = [place for place in places.tolist() if found.get(place, {}).get(GRAPH_ID) == graph.id]
    return np.array(own, np.int64)


def _on_master(one: OneStep, graph: GraphTable, registered: Array) -> Array:
    """What the master did from its last pruning before the first registration on."""
    spans = one.trace.all
    first, last = spans.start[registered].min(), spans.end[registered].max()
    tasks = np.array([row.task == graph.task for row in one.trace.rows], np.bool_)
    own = spans.is_kind(*ON_MASTER) & tasks[spans.row] & (spans.start < last)
    prunes = spans.start[own & spans.is_kind("graph.prune") & (spans.start < first)]
    begin = prunes.max() if len(prunes) else first
    nested = np.isin(spans.parent, spans.span[registered])  # a worker's own cut
    return np.flatnonzero(own & (spans.start >= begin) & ~nested)


def _works(one: OneStep, places: Array) -> Iterator[Work]:
    attributes = one.trace.attributes(places.tolist())
    spans = one.trace.all.take(places)
    kinds, tasks = spans.text("kind").tolist(), spans.task.tolist()
    for at, place in enumerate(places.tolist()):
        facts = facts_of(kinds[at], attributes.get(place, {}))
        facts.pop("graph.id", None)
        after, took = int(spans.start[at] - spans.start[0]), int(spans.duration[at])
        yield Work(after, tasks[at], kinds[at], took, facts, hex_id(int(spans.span[at])))


def tell(found: Preparation, lang: Lang) -> Iterator[str]:
    yield from table(("after", "task", "kind", "took", "facts"), map(_cells, found.works), lang)
    if found.client_ends:
        yield f"  {t('mechanisms.preparation.client_ends', lang, count=found.client_ends)}"
    if found.predicted_ns is not None:
        values = {"predicted": duration(found.predicted_ns), "took": duration(found.step_ns)}
        yield f"  {t('mechanisms.preparation.predicted', lang, **values)}"


def _cells(work: Work) -> Sequence[object]:
    times = duration(work.after_ns), duration(work.took_ns)
    return times[0], work.task, work.kind, times[1], facts_text(work.facts)
