"""Streams of server-sent events: a state is told whenever it is another one.

The first event comes at once. A comment keeps the line warm while nothing changes.
"""

import threading
from collections.abc import AsyncIterator, Callable
from typing import Final, NamedTuple

import anyio
import anyio.to_thread
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

HEARTBEAT_S: Final = 15.0  #: a line that says nothing for so long may be cut by what lies between
LISTENERS: Final = 64  #: streams of a kind at one time; a browser holds six to one server

_HEADERS = {"X-Accel-Buffering": "no"}  # a proxy must not collect events


class State(NamedTuple):
    """One JSON object; nothing comes after the last one."""

    data: bytes
    is_last: bool = False

    def event(self) -> bytes:
        return (b"event: end\n" if self.is_last else b"") + b"data: " + self.data + b"\n\n"


async def events(
    look: Callable[[], State], look_s: float, heartbeat_s: float
) -> AsyncIterator[bytes]:
    """What is told of the states that `look` finds, until the last or as long as anybody listens.

    `look` is called in a thread, again after `look_s`.
    """
    told: State | None = None
    quiet_s = 0.0
    while True:
        state = await anyio.to_thread.run_sync(look)
        if state != told:
            yield state.event()
            told, quiet_s = state, 0.0
        elif quiet_s >= heartbeat_s:
            yield b": still here\n\n"
            quiet_s = 0.0
        if state.is_last:
            return
        await anyio.sleep(look_s)
        quiet_s += look_s


class Places:
    """Bounds the streams of a kind. `doing` is what their views do, for who finds no place."""

    def __init__(self, doing: str) -> None:
        self.free = threading.BoundedSemaphore(LISTENERS)
        self.refusal = f"{LISTENERS} views {doing} already; close some"


class EventStream(StreamingResponse):
    """Takes a place before it answers, and gives it back when its listener has gone."""

    def __init__(self, places: Places, told: AsyncIterator[bytes]) -> None:
        super().__init__(told, media_type="text/event-stream", headers=_HEADERS)
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._places.free.acquire(blocking=False):
            words = {"error": self._places.refusal}
            await JSONResponse(words, 503, {"Retry-After": "10"})(scope, receive, send)
            return
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._places.free.release()
