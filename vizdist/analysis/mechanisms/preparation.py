"""How a step's graph was made ready, once for all its steps: prune, place, cut, register."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vizdist.analysis.graph_counts import own_nodes
from vizdist.analysis.mechanisms.facts import Told, told, told_table
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.i18n import Lang, t
from vizdist.i18n.units import duration
from vizdist.store.graphs import GRAPH_ID, GraphTable
from vizdist.store.segments import Array

PREDICTED = "graph.predicted_ns"
ON_MASTER = ("graph.prune", "graph.place", "graph.optimize", "graph.partition")


@dataclass(frozen=True, slots=True)
class Preparation:
    """`predicted_ns` is the step that the placer's cost model foresaw, None where it had none.

    `client_ends` are the nodes that pruning put where the client feeds and fetches.
    """

    works: Sequence[Told]
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


def _works(one: OneStep, places: Array) -> Iterator[Told]:
    """Each counted from the first; all are of one graph, so none says which."""
    for work in told(one.trace, places, int(one.trace.all.start[places[0]])):
        facts = {name: value for name, value in work.facts.items() if name != "graph.id"}
        yield replace(work, facts=facts)


def tell(found: Preparation, lang: Lang) -> Iterator[str]:
    yield from told_table(found.works, lang)
    if found.client_ends:
        yield f"  {t('mechanisms.preparation.client_ends', lang, count=found.client_ends)}"
    if found.predicted_ns is not None:
        values = {"predicted": duration(found.predicted_ns), "took": duration(found.step_ns)}
        yield f"  {t('mechanisms.preparation.predicted', lang, **values)}"
