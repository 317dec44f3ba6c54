"""Runs that are started in the browser.

POST /api/runs?lang=en             {"workload": "digits-mlp", "strategy": "mirrored",
                                    "numbers": {"steps": "50"}, "options": {"prefetch": "2"}}
                                   → {"trace": id}, or why not: {"error": text}
GET  /api/runs/{trace}             → {"phase": starting | running | done | failed, "says": text}
POST /api/runs/{trace}/stop        → {}
"""

from typing import Annotated, Any, Final

import anyio.to_thread
import orjson
from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import JSONResponse
from starlette.requests import Request

from vizdist.i18n import as_lang, t
from vizdist.routes.traces import TraceId
from vizdist.store.library import Library
from vizdist.store.runnable import NotRunnable, arguments_of
from vizdist.store.started_runs import StartedRuns

BODY_BYTES: Final = 16 << 10

Language = Annotated[str, Query(max_length=8)]


def run_routes(library: Library) -> APIRouter:
    router = APIRouter(prefix="/api/runs")
    runs = StartedRuns(library)

    @router.post("")
    async def start(request: Request, lang: Language = "en") -> JSONResponse:
        try:
            arguments = arguments_of(await _body(request))
            trace = await anyio.to_thread.run_sync(runs.start, arguments)
        except NotRunnable as error:
            text = t(f"start.refused.{error.key}", as_lang(lang), **error.values)
            return JSONResponse({"error": text}, 422)
        return JSONResponse({"trace": trace})

    @router.get("/{trace}")
    def progress(trace: TraceId) -> dict[str, str]:
        found = runs.progress(trace)
        if found is None:
            raise HTTPException(404, "no run of this id was started here")
        return found._asdict()

    @router.post("/{trace}/stop")
    def stop(trace: TraceId) -> dict[str, str]:
        runs.stop(trace)
        return {}

    return router


async def _body(request: Request) -> Any:
    """Raises NotRunnable for what is too long or no JSON."""
    parts = bytearray()
    async for part in request.stream():
        parts += part
        if len(parts) > BODY_BYTES:
            raise NotRunnable("form")
    try:
        return orjson.loads(bytes(parts))
    except orjson.JSONDecodeError:
        raise NotRunnable("form") from None
