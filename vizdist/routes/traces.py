"""What the canvases ask of one trace. Times in answers are ns from the trace's start.

Plain `def` handlers: FastAPI runs them in threads, so no query holds the event loop.
"""

from dataclasses import asdict
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, FastAPI, Path, Query
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.requests import Request

from vizdist.figures.tile_bytes import tile_bytes
from vizdist.figures.timeline import arrow_ends
from vizdist.store.details import hex_id
from vizdist.store.library import Library
from vizdist.store.problems import NoStep, TraceError
from vizdist.store.trace import Trace

#: Rows one tile request may ask for; a screen shows fewer.
MAX_ROWS = 512

TraceId = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]
SpanId = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]
Instant = Annotated[int, Query(ge=-(2**53), le=2**53)]
Width = Annotated[int, Query(ge=16, le=4096)]
Rows = Annotated[str, Query(pattern=r"^\d{1,6}-\d{1,6}$")]


def _json(value: Any) -> Response:
    body = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    return Response(body, media_type="application/json")


def trace_routes(library: Library) -> APIRouter:
    """GET /api/traces/{trace}/…; every answer is a function of the trace and the query."""
    router = APIRouter(prefix="/api/traces/{trace}")

    @router.get("/tiles")
    def tiles(
        trace: TraceId, start: Instant, end: Instant, width: Width, rows: Rows, sel: str = ""
    ) -> Response:
        opened = library.open(trace)
        first, last = (int(part) for part in rows.split("-"))
        window = range(first, min(last, first + MAX_ROWS))
        selected = int(sel, 16) if _is_span_id(sel) else 0
        found = opened.tiles(opened.start + start, opened.start + end, width, window, selected)
        return Response(tile_bytes(opened, found), media_type="application/octet-stream")

    @router.get("/rows")
    def rows(trace: TraceId) -> Response:
        return _json([asdict(row) for row in library.open(trace).rows])

    @router.get("/arrows")
    def arrows(trace: TraceId, start: Instant, end: Instant) -> Response:
        opened = library.open(trace)
        return _json(arrow_ends(opened, opened.arrows(opened.start + start, opened.start + end)))

    @router.get("/steps")
    def steps(trace: TraceId) -> Response:
        return _json(_steps(library.open(trace)))

    @router.get("/span/{span}")
    def span(trace: TraceId, span: SpanId) -> Response:
        return _json(_span(library.open(trace), span))

    return router


def _is_span_id(text: str) -> bool:
    return len(text) == 16 and all(letter in "0123456789abcdef" for letter in text)


def _steps(trace: Trace) -> list[dict[str, Any]]:
    return [
        {
            "number": step.number,
            "task": step.task,
            "start": step.start - trace.start,
            "end": step.end - trace.start,
            "span": hex_id(step.span),
        }
        for step in trace.steps
    ]


def _span(trace: Trace, span_id: str) -> dict[str, Any]:
    detail = trace.span(span_id)
    shown = asdict(detail)
    for name in ("start", "end", "ready"):
        shown[name] = shown[name] - trace.start if shown[name] else None
    shown["links"] = [
        {"source": hex_id(link.source), "target": hex_id(link.target), "relation": link.relation}
        for link in trace.links([int(span_id, 16)])
    ]
    return shown


def add_error_answers(server: FastAPI) -> None:
    """4xx in our words: a refused request never sees its own text again, but for numbers."""

    @server.exception_handler(TraceError)
    def not_found(_request: Request, _error: Exception) -> JSONResponse:
        return JSONResponse({"error": "no such trace, step, span or window"}, 404)

    @server.exception_handler(NoStep)
    def no_step(_request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 404)

    @server.exception_handler(RequestValidationError)
    def malformed(_request: Request, _error: Exception) -> JSONResponse:
        return JSONResponse({"error": "malformed request"}, 400)
