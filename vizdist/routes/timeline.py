"""What the timeline asks beside tiles: its frame, what is lit, what the analyses found."""

from typing import Annotated

import numpy as np
import orjson
from fastapi import APIRouter, Query
from fastapi.responses import Response

from vizdist.analysis.lit import lit_by
from vizdist.analysis.selection import Selection
from vizdist.analysis.stands_out import stands_out
from vizdist.figures.findings import run_findings, step_findings
from vizdist.figures.tile_bytes import tile_bytes
from vizdist.figures.timeline import head
from vizdist.routes.traces import TraceId
from vizdist.store.library import Library
from vizdist.store.tiles import TileSet

Kind = Annotated[str, Query(pattern=r"^[a-z]{1,16}$")]
Name = Annotated[str, Query(max_length=4000)]
Number = Annotated[int, Query(ge=0, lt=2**32)]
Step = Annotated[int | None, Query(ge=0, lt=2**32)]


def timeline_routes(library: Library) -> APIRouter:
    router = APIRouter(prefix="/api/traces/{trace}/timeline")

    @router.get("/head")
    def timeline_head(trace: TraceId) -> Response:
        body = orjson.dumps(head(library.open(trace)))
        return Response(body, media_type="application/json")

    @router.get("/lit")
    def timeline_lit(trace: TraceId, kind: Kind, name: Name, step: Step = None) -> Response:
        """The selected spans, then those linked to them; the header says how many are selected."""
        opened = library.open(trace)
        lit = lit_by(opened, Selection(type=kind, id=name), step)
        spans = opened.all.take(np.concatenate((lit.selected, lit.linked)))
        tiles = TileSet(
            opened.start, opened.end, range(len(opened.rows)), spans, np.ones(len(spans))
        )
        body = tile_bytes(opened, tiles, selected=len(lit.selected))
        return Response(body, media_type="application/octet-stream")

    @router.get("/step")
    def timeline_step(trace: TraceId, number: Number, task: Name) -> Response:
        """What the analyses say of a step."""
        opened = library.open(trace)
        body = orjson.dumps(step_findings(opened, opened.step(number, task)))
        return Response(body, media_type="application/json")

    @router.get("/stands-out")
    def timeline_stands_out(trace: TraceId) -> Response:
        opened = library.open(trace)
        body = orjson.dumps(run_findings(opened, stands_out(opened)))
        return Response(body, media_type="application/json")

    return router
