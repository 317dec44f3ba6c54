"""What the replay asks: the events of one step, once."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from vizdist.analysis.replay import replay_of
from vizdist.analysis.steps import asked_step, clients_of
from vizdist.figures.replay import replay_bytes
from vizdist.routes.traces import TraceId
from vizdist.store.library import Library
from vizdist.store.problems import TraceError

Step = Annotated[int | None, Query(ge=0, lt=2**32)]
Task = Annotated[str, Query(max_length=200)]


def replay_routes(library: Library) -> APIRouter:
    router = APIRouter(prefix="/api/traces/{trace}")

    @router.get("/replay")
    def replay(trace: TraceId, step: Step = None, task: Task = "") -> Response:
        opened = library.open(trace)
        if not opened.steps:
            raise TraceError(f"trace {trace} holds no step")
        shown = asked_step(opened, step)
        number = opened.steps[-1].number if shown is None else shown  # none may be whole
        tasks = clients_of(opened, number)
        found = opened.step(number, task if task in tasks else tasks[0])
        body = replay_bytes(opened, replay_of(opened, found), tasks)
        return Response(body, media_type="application/octet-stream")

    return router
