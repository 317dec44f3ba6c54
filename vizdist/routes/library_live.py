"""The Library's stream of server-sent events: one whenever a run came, grew or ended.

    GET /api/library/live               {"stamp": "5f1c…", "runs": 8, "running": 1}

What changed is not told: whoever shows the runs asks for them again. `stamp` is another one after
every change; at most one event a second.
"""

import hashlib
import time
from collections.abc import AsyncIterator
from typing import Final

import anyio
import anyio.to_thread
import orjson
from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response, StreamingResponse

from vizdist.analysis.overview import entry_outcome
from vizdist.store.library import Library
from vizdist.store.liveness import RUNNING

LOOK_S: Final = 1.0  #: between two looks at the folders
HEARTBEAT_S: Final = 15.0
LISTENERS: Final = 64  #: streams at one time

_HEADERS = {"X-Accel-Buffering": "no"}  # a proxy must not collect events


def library_live_routes(library: Library) -> APIRouter:
    router = APIRouter(prefix="/api/library")
    listeners = anyio.Semaphore(LISTENERS)

    @router.get("/live")
    async def live() -> Response:
        if not listeners.value:
            text = f"{LISTENERS} views follow the library already; close some"
            return JSONResponse({"error": text}, 503, {"Retry-After": "10"})

        async def events() -> AsyncIterator[bytes]:
            async with listeners:
                async for event in changes(library):
                    yield event

        return StreamingResponse(events(), media_type="text/event-stream", headers=_HEADERS)

    return router


async def changes(
    library: Library, look_s: float = LOOK_S, heartbeat_s: float = HEARTBEAT_S
) -> AsyncIterator[bytes]:
    """The events, as long as anybody listens; the first one comes at once."""
    told = b""
    quiet_s = 0.0
    while True:
        state = await anyio.to_thread.run_sync(_look, library)
        if state != told:
            yield b"data: " + state + b"\n\n"
            told, quiet_s = state, 0.0
        elif quiet_s >= heartbeat_s:
            yield b": still here\n\n"
            quiet_s = 0.0
        await anyio.sleep(look_s)
        quiet_s += look_s


def _look(library: Library) -> bytes:
    now_ns = time.time_ns()
    seen = [(one.id, one.changed_ns, entry_outcome(one, now_ns)) for one in library.entries()]
    stamp = hashlib.blake2b(repr(seen).encode(), digest_size=8).hexdigest()
    running = sum(outcome == RUNNING for *_, outcome in seen)
    return orjson.dumps({"stamp": stamp, "runs": len(seen), "running": running})
