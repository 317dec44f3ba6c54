"""What the header's search field asks: names of a run that hold some words."""

from dataclasses import asdict
from typing import Annotated

import orjson
from fastapi import APIRouter, Query
from fastapi.responses import Response

from vizdist.analysis.search import search
from vizdist.routes.traces import TraceId
from vizdist.store.library import Library

Words = Annotated[str, Query(max_length=400)]


def search_routes(library: Library) -> APIRouter:
    router = APIRouter(prefix="/api/traces/{trace}")

    @router.get("/search")
    def found(trace: TraceId, q: Words) -> Response:
        """The best matches of each kind, and how many there are."""
        results, total = search(library.open(trace), q)
        body = orjson.dumps({"total": total, "results": [asdict(one) for one in results]})
        return Response(body, media_type="application/json")

    return router
