"""Live data: a stream of server-sent events for each trace that is looked at.

    GET /api/traces/{trace}/live        Accept: text/event-stream

Every event holds one JSON object, the whole state and no difference, so that a view may miss any of
them:

    {"spans": 18230,                    spans that can be asked for now; grows only
     "rows": 14,                        rows of the timeline; when it grows, ask for the head again
     "start": "1764514683000000000",    ns since the epoch that all other times count from, as text;
                                        it can move to earlier while a run is young: ask again
     "last": 7412000000,                ns from the start to the last end of a span
     "step": 17,                        the highest step that has ended; 0: none
     "of_steps": 40,                    steps that were asked for; 0: not known
     "loss": [17, 0.4123] | null,       the latest recorded loss and its step
     "tasks": [["worker:0", "running"], …],     tasks that compute, and how each is or ended
     "outcome": "running",              running, done, failed, interrupted; lost: its processes died
                                        without a word; "": a foreign file, of which nobody knows
     "error": ""}                       the root cause where it failed

The first event comes at once; then one for each change, at most ten a second, as `message`. When a
run is over the last one comes as `end`, and the listener closes: an EventSource would ask again
else. A comment keeps the line warm. Times are as in all answers: ns from the trace's start.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from typing import Any, Final

import anyio.to_thread
import orjson
from fastapi import APIRouter
from fastapi.responses import Response

from vizdist.analysis.overview import cluster_tasks
from vizdist.analysis.progress import progress
from vizdist.routes.event_stream import HEARTBEAT_S, EventStream, Places, State, events
from vizdist.routes.traces import TraceId
from vizdist.store.library import Library
from vizdist.store.liveness import RUNNING
from vizdist.store.trace import Trace

LOOK_S: Final = 0.1  #: between two looks at a trace; one that did not change costs 0.1 ms

_Seen = tuple[Trace | None, str]


def live_routes(library: Library) -> APIRouter:
    router = APIRouter(prefix="/api/traces/{trace}")
    places = Places("follow runs")

    @router.get("/live")
    async def live(trace: TraceId) -> Response:
        await anyio.to_thread.run_sync(library.open, trace)  # an unknown one is refused in words
        return EventStream(places, follow(library, trace))

    return router


def follow(
    library: Library, trace_id: str, look_s: float = LOOK_S, heartbeat_s: float = HEARTBEAT_S
) -> AsyncIterator[bytes]:
    """The events of one trace, until its run is over or nobody listens any more."""
    return events(_looking(library, trace_id), look_s, heartbeat_s)


def _looking(library: Library, trace_id: str) -> Callable[[], State]:
    """Tells a trace's state, worked out anew when the trace is another one: it has changed then."""
    seen: _Seen = (None, "")
    state = State(b"")

    def look() -> State:
        nonlocal seen, state
        now = library.open(trace_id), library.outcome(trace_id)
        if now != seen:
            seen, state = now, State(orjson.dumps(state_of(*now)), now[1] not in (RUNNING, ""))
        return state

    return look


def state_of(trace: Trace, outcome: str) -> dict[str, Any]:
    """What one event says."""
    now = asdict(progress(trace))
    return {
        **now,
        "start": str(now["start"]),
        "tasks": cluster_tasks(trace),
        "outcome": outcome,
        "error": trace.manifest.error,
    }
