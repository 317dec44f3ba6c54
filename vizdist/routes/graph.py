"""What the graph canvas asks: one stage of the graph of a step, laid out."""

from typing import Annotated, Literal

import orjson
from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from vizdist.figures.partitioned_graph import graph_payload
from vizdist.figures.step_graph import step_graph
from vizdist.store.library import Library
from vizdist.store.problems import TraceError

TraceId = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]
Step = Annotated[int | None, Query(ge=0, lt=2**32)]
Stage = Literal["", "full", "pruned", "placed", "worker", "device"]
Task = Annotated[str, Query(max_length=200)]
#: Folded scopes that are shown open; their ids are names from the trace.
Opened = Annotated[list[Annotated[str, Query(max_length=2000)]], Query(max_length=200)]


def graph_routes(library: Library) -> APIRouter:
    router = APIRouter(prefix="/api/traces/{trace}")

    @router.get("/graph")
    def graph(
        trace: TraceId,
        step: Step = None,
        stage: Stage = "",
        task: Task = "",
        opened: Opened = [],  # noqa: B006 (FastAPI copies it)
    ) -> Response:
        found = step_graph(library.open(trace), step, task)
        shown = found.stage(stage)
        if not shown:
            raise TraceError(f"trace {trace} holds no graph")
        payload = graph_payload(found.stages, shown, found.measures, frozenset(opened))
        return Response(orjson.dumps(payload), media_type="application/json")

    return router
