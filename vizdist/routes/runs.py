"""Runs that are started in the browser.

POST /api/runs?lang=en             {"workload": "digits-mlp", "strategy": "mirrored",
                                    "numbers": {"steps": "50"}, "options": {"prefetch": "2"},
                                    "fault": {"kind": "kill", "task": "worker:0", "step": "5"}}
                                   → {"trace": id}, or why not: {"error": text}
POST /api/runs/expected?lang=en    the same → {"says": how long it will take, "" if nobody knows}
GET  /api/runs/{trace}             → {"phase": starting | running | done | failed, "says": text}
POST /api/runs/{trace}/stop        → {}
"""

from typing import Annotated, Any, Final

import anyio.to_thread
import orjson
from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import JSONResponse
from starlette.requests import Request

from vizdist.analysis.expected_time import ExpectedTime, expected_time
from vizdist.i18n import Lang, as_lang, t
from vizdist.i18n.units import duration
from vizdist.routes.traces import TraceId
from vizdist.store.library import Library
from vizdist.store.runnable import NUMBERS, NotRunnable, arguments_of
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

    @router.post("/expected")
    async def expected(request: Request, lang: Language = "en") -> dict[str, str]:
        try:
            asked = await _body(request)
            arguments_of(asked)
        except NotRunnable:
            return {"says": ""}
        told = await anyio.to_thread.run_sync(expected_time, library, asked)
        return {"says": _expected_text(told, asked, as_lang(lang)) if told else ""}

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


def _expected_text(told: ExpectedTime, asked: Any, lang: Lang) -> str:
    steps = int(asked.get("numbers", {}).get("steps", NUMBERS["steps"].usual))
    return t(
        "start.expected.says",
        lang,
        total=duration(told.of(steps)),
        run=told.title,
        took=duration(told.took_ns),
        steps=told.steps,
        step=duration(told.step_ns),
    )


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
