"""POST /api/traces/{trace}/sql: one SELECT over the spans of a trace.

    {"sql": "SELECT name, sum(duration) FROM spans GROUP BY name"}
    → {"columns": [{"name": "name", "type": "VARCHAR"}, …], "rows": [[cell, …], …],
       "is_cut": false,          more rows than are sent
       "ms": 41}                 what the query took
    → {"error": "…"} and 422     refused, failed, or too slow; the text is for the one who asked

Like every request that is no mere reading it needs the page's token. Tables: `spans` (the columns
of a segment, with task, lane, depth and duration; times are ns since the epoch) and `rows`. Whole
numbers beyond 2^53 come as text.
"""

from typing import Annotated

import orjson
from fastapi import APIRouter, Body
from fastapi.responses import JSONResponse, Response

from vizdist.routes.traces import TraceId
from vizdist.store.library import Library
from vizdist.store.sql import MAX_LETTERS, SqlError, run_sql

Sql = Annotated[str, Body(embed=True, max_length=MAX_LETTERS)]


def sql_routes(library: Library) -> APIRouter:
    router = APIRouter(prefix="/api/traces/{trace}")

    @router.post("/sql")
    def query(trace: TraceId, sql: Sql) -> Response:
        opened = library.open(trace)
        try:
            answer = run_sql(opened, sql)
        except SqlError as error:
            return JSONResponse({"error": str(error)}, 422)
        return Response(orjson.dumps(answer), media_type="application/json")

    return router
