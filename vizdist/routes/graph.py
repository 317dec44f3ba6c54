"""What the graph canvas asks: one stage of the graph of a step, laid out."""

from typing import Annotated, Literal

import orjson
from fastapi import APIRouter, Query
from fastapi.responses import Response

from vizdist.analysis.steps import asked_step
from vizdist.figures.graph_folding import Choice
from vizdist.figures.graph_path import path_payload
from vizdist.figures.partitioned_graph import graph_payloads, two_stages
from vizdist.figures.step_graph import step_graph
from vizdist.routes.traces import TraceId
from vizdist.store.library import Library
from vizdist.store.problems import TraceError

Step = Annotated[int | None, Query(ge=0, lt=2**32)]
Stage = Literal["", "full", "pruned", "placed", "worker", "device"]
Task = Annotated[str, Query(max_length=200)]
#: Scopes that whoever looks has opened or folded; their ids are names from the trace.
Scopes = Annotated[list[Annotated[str, Query(max_length=2000)]], Query(max_length=200)]


def graph_routes(library: Library) -> APIRouter:
    router = APIRouter(prefix="/api/traces/{trace}")

    @router.get("/graph")
    def graph(
        trace: TraceId,
        step: Step = None,
        stage: Stage = "",
        task: Task = "",
        opened: Scopes = [],  # noqa: B006 (FastAPI copies it)
        folded: Scopes = [],  # noqa: B006
        two: bool = False,
    ) -> Response:
        held = library.open(trace)
        found = step_graph(held, asked_step(held, step), task)
        shown = found.stage(stage)
        if not shown:
            raise TraceError(f"trace {trace} holds no graph")
        choice = Choice(frozenset(opened), frozenset(folded))
        upper, lower = two_stages(list(found.stages), shown) if two else ("", shown)
        wanted = [upper, lower] if upper else [lower]
        *above, payload = graph_payloads(found.stages, wanted, found.measures, choice)
        payload["upper"] = above[0] if above else None
        payload |= found.told
        return Response(orjson.dumps(payload), media_type="application/json")

    @router.get("/graph/path")
    def path(trace: TraceId, step: Step = None, task: Task = "") -> Response:
        opened = library.open(trace)
        found = step_graph(opened, asked_step(opened, step), task)
        payload = path_payload(opened, found.step) | found.told
        return Response(orjson.dumps(payload), media_type="application/json")

    return router
