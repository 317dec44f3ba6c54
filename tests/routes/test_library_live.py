"""Who looks at the Library is told whenever a run came, grew or ended."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from tests.store.growing_trace import GrowingRun
from vizdist.routes.library_live import changes
from vizdist.store.library import Library


def told(folder: Path, *moves: Callable[[], object]) -> list[dict[str, Any]]:
    """The first event, and the one after each move."""

    async def listen() -> list[bytes]:
        events = changes(Library([folder]), look_s=0)
        found = [await anext(events)]
        for move in moves:
            move()
            found.append(await anext(events))
        return found

    return [json.loads(event.removeprefix(b"data: ")) for event in anyio.run(listen)]


def test_a_run_comes_grows_and_ends(tmp_path: Path) -> None:
    run: GrowingRun | None = None

    def come() -> None:
        nonlocal run
        run = GrowingRun(tmp_path / "a.trace")

    def grow() -> None:
        assert run is not None
        run.step()
        run.turn()

    def end() -> None:
        assert run is not None
        run.end()

    events = told(tmp_path, come, grow, end)
    assert [(event["runs"], event["running"]) for event in events] == [
        (0, 0), (1, 1), (1, 1), (1, 0),
    ]  # fmt: skip
    assert len({event["stamp"] for event in events}) == 4


def test_nothing_new_is_a_comment_and_no_event(tmp_path: Path) -> None:
    async def listen() -> list[bytes]:
        events = changes(Library([tmp_path]), look_s=0, heartbeat_s=0)
        return [await anext(events) for _ in range(2)]

    assert anyio.run(listen)[1] == b": still here\n\n"
