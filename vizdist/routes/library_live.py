"""The Library's stream of server-sent events: one whenever a run came, grew or ended.

    GET /api/library/live               {"stamp": "5f1c…", "runs": 8, "running": 1}

What changed is not told: whoever shows the runs asks for them again. `stamp` is another one after
every change; at most one event a second.
"""

import hashlib
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

import orjson
from fastapi import APIRouter
from fastapi.responses import Response

from vizdist.analysis.overview import entry_outcome
from vizdist.routes.event_stream import HEARTBEAT_S, EventStream, Places, State, events
from vizdist.store.library import Library
from vizdist.store.liveness import RUNNING

LOOK_S: Final = 1.0  #: between two looks at the folders


def library_live_routes(library: Library) -> APIRouter:
    router = APIRouter(prefix="/api/library")
    places = Places("follow the library")

    @router.get("/live")
    async def live() -> Response:
        return EventStream(places, changes(library))

    return router


def changes(
    library: Library, look_s: float = LOOK_S, heartbeat_s: float = HEARTBEAT_S
) -> AsyncIterator[bytes]:
    """The events, as long as anybody listens; the first one comes at once."""
    return events(partial(_look, library), look_s, heartbeat_s)


def _look(library: Library) -> State:
    now_ns = time.time_ns()
    seen = [(one.id, one.changed_ns, entry_outcome(one, now_ns)) for one in library.entries()]
    stamp = hashlib.blake2b(repr(seen).encode(), digest_size=8).hexdigest()
    running = sum(outcome == RUNNING for *_, outcome in seen)
    return State(orjson.dumps({"stamp": stamp, "runs": len(seen), "running": running}))
