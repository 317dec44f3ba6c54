"""Who follows a run gets its whole state at every change, and is told of its end."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.browser.conftest import serving
from tests.store.growing_trace import EPOCH, STEP_NS, GrowingRun
from vizdist.routes.live import follow, live_routes
from vizdist.store.library import Library


def states(text: bytes) -> list[tuple[str, dict[str, Any]]]:
    """(name, data) of the events of a stream; comments left out."""
    found = []
    for block in text.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] != ":")
        if fields:
            found.append((fields.get("event", "message"), json.loads(fields["data"])))
    return found


def followed(path: Path, *moves: Callable[[], None], heartbeat_s: float = 1e9) -> bytes:
    """What a listener gets; each move is made after an event came."""

    async def listen() -> bytes:
        library = Library()
        events = follow(library, library.add(path), look_s=0, heartbeat_s=heartbeat_s)
        text = await anext(events)
        for move in moves:
            move()
            text += await anext(events)
        return text + b"".join([event async for event in events if b"end" in event])

    return anyio.run(listen)


def test_every_change_is_one_event_and_the_end_is_the_last(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "a.trace")
    run.step()
    run.turn()

    def grow() -> None:
        run.step()
        run.turn()

    (_, first), (_, second), (name, last) = states(followed(run.folder, grow, run.end))
    assert (first["spans"], first["step"], first["of_steps"]) == (4, 1, 40)
    assert (second["spans"], second["step"]) == (8, 2)
    assert second["last"] == STEP_NS + 9000
    assert int(second["start"]) == EPOCH + STEP_NS
    assert second["tasks"] == [["worker:0", "running"]]
    assert (name, last["outcome"], last["spans"]) == ("end", "done", 8)


def test_a_failed_run_says_why(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "a.trace")
    run.turn()
    told = states(followed(run.folder, lambda: run.end("failed", "ps:0 was killed")))
    assert told[0][1]["spans"] == 0
    assert told[-1][0] == "end"
    assert (told[-1][1]["outcome"], told[-1][1]["error"]) == ("failed", "ps:0 was killed")


def test_a_run_that_is_over_is_told_once(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "a.trace")
    run.step()
    run.end()

    async def listen() -> list[bytes]:
        library = Library()
        return [event async for event in follow(library, library.add(run.folder))]

    [event] = anyio.run(listen)
    [(name, state)] = states(event)
    assert (name, state["step"]) == ("end", 1)


def test_a_quiet_line_is_kept_warm(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "a.trace")
    run.step()
    run.turn()
    text = followed(run.folder, lambda: None, run.end, heartbeat_s=0)
    assert b"\n\n: still here\n\n" in text


@pytest.fixture
def api(tmp_path: Path) -> Any:
    run = GrowingRun(tmp_path / "a.trace")
    run.step()
    run.turn()
    library = Library()
    trace = library.add(run.folder)
    for url in serving(library):
        yield f"{url}api/traces/{trace}/live", run


def test_a_browser_follows_over_http(api: Any) -> None:
    url, run = api
    with urllib.request.urlopen(url, timeout=20) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-cache"
        first = answer.readline()
        run.step()
        run.end()
        rest = answer.read()
    told = states(first + rest)
    assert told[0][1]["step"] == 1
    assert (told[-1][0], told[-1][1]["step"]) == ("end", 2)


def test_an_unknown_trace_is_refused(api: Any) -> None:
    url, run = api
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(url.replace(url.split("/")[-2], "0" * 16), timeout=20)
    with refused.value as answer:
        assert answer.code == 404
    run.end()


class Listener:
    """Takes an answer as a server would hand it on, and stays until it is told to go."""

    def __init__(self) -> None:
        self.status = 0
        self.has_answer = anyio.Event()
        self.is_to_go = anyio.Event()

    async def take(self, answer: Any) -> None:
        await answer({"type": "http", "asgi": {"spec_version": "2.0"}}, self._gone, self._hear)

    async def _gone(self) -> dict[str, str]:
        await self.is_to_go.wait()
        return {"type": "http.disconnect"}

    async def _hear(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.has_answer.set()


def test_listeners_are_counted_and_their_places_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = GrowingRun(tmp_path / "a.trace")
    run.step()
    run.turn()
    library = Library()
    trace = library.add(run.folder)
    monkeypatch.setattr("vizdist.routes.event_stream.LISTENERS", 1)
    [route] = live_routes(library).routes
    live: Callable[[str], Any] = route.endpoint  # type: ignore[attr-defined]

    async def listen() -> list[int]:
        first, second, third = Listener(), Listener(), Listener()
        answers = [await live(trace) for _ in range(3)]  # all asked before anyone has a place
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(first.take, answers[0])
                await first.has_answer.wait()
                await second.take(answers[1])
                first.is_to_go.set()
            third.is_to_go.set()
            await third.take(answers[2])
        return [first.status, second.status, third.status]

    assert anyio.run(listen) == [200, 503, 200]
