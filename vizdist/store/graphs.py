"""The graphs of a trace, put together from `graph.chunk` spans."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tracer.model.graph_table import STAGES, GraphTableError, NodeRow, nodes_of_chunks
from vizdist.store.details import raw_span, raw_spans
from vizdist.store.otlp_spans import attributes_of
from vizdist.store.problems import Problem, problem
from vizdist.store.segments import Array
from vizdist.store.spans import Spans

CHUNK_KIND = "graph.chunk"
GRAPH_ID = "vizdist.graph.id"

Piece = tuple[int, Mapping[str, Any]]  #: place of a chunk span, its attributes


@dataclass(frozen=True, slots=True)
class GraphTable:
    """One registered graph: its nodes at every stage that is in the trace, in the order of STAGES.

    `id` is what `partition.run` spans of its steps carry; `task` the master that registered it;
    `start` when, ns since the epoch.
    """

    id: str
    task: str
    start: int
    stages: Mapping[str, tuple[NodeRow, ...]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    @property
    def last_stage(self) -> str:
        return list(self.stages)[-1] if self.stages else ""

    @property
    def last_rows(self) -> tuple[NodeRow, ...]:
        """Those of the last stage: what ran."""
        return self.stages.get(self.last_stage, ())


@dataclass(frozen=True, slots=True)
class StoredTable:
    """One table of nodes as the trace holds it: `spans` are its pieces, in order."""

    graph_id: str
    stage: str
    rows: Sequence[NodeRow]
    spans: Sequence[int]


def read_graphs(spans: Spans, folder: Path) -> list[GraphTable]:
    """All graphs by time; a graph's pieces share a trace, as a registration is one request."""
    graphs = [_graph(spans, graph_id, found) for graph_id, found in _pieces(spans, folder)]
    return sorted(graphs, key=lambda graph: graph.start)


def stored_tables(spans: Spans, folder: Path) -> Iterator[StoredTable]:
    """Every table that can be read, a worker's own ones too."""
    for graph_id, found in _pieces(spans, folder):
        for stage, _, pieces in _tables(spans, found):
            with suppress(GraphTableError):
                rows = nodes_of_chunks(chunk for _, chunk in pieces)
                ordered = sorted(pieces, key=lambda piece: int(piece[1]["vizdist.chunk.index"]))
                ids = [int(spans.span[place]) for place, _ in ordered]
                yield StoredTable(graph_id, stage, rows, ids)


def _pieces(spans: Spans, folder: Path) -> Iterator[tuple[str, list[Piece]]]:
    """(graph id, its pieces), a registration at a time."""
    where = np.flatnonzero(spans.is_kind(CHUNK_KIND))
    pieces: dict[tuple[str, int], list[Piece]] = defaultdict(list)
    for place, raw in raw_spans(spans, where, folder):
        chunk = attributes_of(raw.get("attributes")) if raw else {}
        graph_id = str(chunk.get(GRAPH_ID, ""))
        pieces[graph_id, int(spans.trace_lo[place])].append((place, chunk))
    for (graph_id, _), found in pieces.items():
        yield graph_id, found


def _graph(spans: Spans, graph_id: str, found: Sequence[Piece]) -> GraphTable:
    first = min((place for place, _ in found), key=lambda place: int(spans.start[place]))
    stages: dict[str, list[NodeRow]] = {}
    problems = []
    for stage, where, pieces in _tables(spans, found):
        try:
            rows = nodes_of_chunks(chunk for _, chunk in pieces)
            stages.setdefault(stage, []).extend(rows)
        except GraphTableError as error:
            problems.append(problem("graph", 1, f"{stage} ({where})", str(error)))
    ordered = {stage: tuple(stages[stage]) for stage in STAGES if stages.get(stage)}
    master = spans.rows[int(spans.row[first])].task
    return GraphTable(graph_id, master, int(spans.start[first]), ordered, tuple(problems))


def _tables(spans: Spans, found: Sequence[Piece]) -> Iterator[tuple[str, str, list[Piece]]]:
    """(stage, task, pieces) of every table: each worker writes its own of stage `device`.

    A piece number that comes again begins a further table of the same place.
    """
    tables: dict[tuple[str, str], list[dict[Any, Piece]]] = defaultdict(list)
    for place, chunk in sorted(found, key=lambda pair: int(spans.start[pair[0]])):
        stage = str(chunk.get("vizdist.graph.stage", ""))
        task = spans.rows[int(spans.row[place])].task
        same_place = tables[stage, task]
        number = chunk.get("vizdist.chunk.index")
        free = next((table for table in same_place if number not in table), None)
        if free is None:
            same_place.append(free := {})
        free[number] = place, chunk
    for (stage, task), same_place in tables.items():
        for table in same_place:
            yield stage, task, list(table.values())


def graph_of_step(
    graphs: Sequence[GraphTable], spans: Spans, step: Array, folder: Path
) -> GraphTable | None:
    """The graph that the spans at some places (of one step) ran.

    Their first `partition.run` names it; without one it is the last graph from before.
    """
    runs = step[spans.is_kind("partition.run")[step]]
    raw = raw_span(spans, int(runs[0]), folder) if len(runs) else None
    graph_id = attributes_of(raw.get("attributes")).get(GRAPH_ID) if raw else None
    named = [graph for graph in graphs if graph.id == graph_id]
    end = int(spans.end[step].max()) if len(step) else 0
    earlier = [graph for graph in graphs if graph.start < end]
    return next(reversed(named or earlier), None)
