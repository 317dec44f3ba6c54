"""A growing folder is followed: nothing is read twice, no span is missing or there twice."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.store.growing_trace import GrowingRun
from tracer.model.trace_folder import COLUMNS, INDEX
from tracer.record.columns import FAN_IN
from vizdist.routes.live import state_of
from vizdist.store.library import OPENED, Library
from vizdist.store.problems import TraceError
from vizdist.store.shelf import Shelf
from vizdist.store.spans import Joined
from vizdist.store.trace import Trace


def grow(run: GrowingRun, turns: int) -> None:
    for _ in range(turns):
        run.step()
        run.turn()


def rows_of(trace: Trace) -> dict[int, tuple[str, str, int]]:
    keys = [(row.task, row.lane, row.depth) for row in trace.rows]
    pairs = zip(trace.all.span.tolist(), trace.all.row.tolist(), strict=True)
    return {span: keys[row] for span, row in pairs}


def test_every_span_is_there_once_at_every_moment_of_a_run(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "a.trace")
    library = Library()
    trace_id = library.add(run.folder)
    seen: dict[int, tuple[str, str, int]] = {}
    for turn in range(1, 3 * FAN_IN):
        grow(run, 1)
        now = rows_of(library.open(trace_id))
        assert len(now) == len(library.open(trace_id)) == 4 * turn
        assert now.items() >= seen.items()  # a live row never moves
        seen = now
    run.end()
    assert rows_of(library.open(trace_id)) == seen


def test_spans_whose_columns_are_still_to_come_are_not_there_yet(tmp_path: Path) -> None:
    """Between the first line of a span file and the first segment nothing is built beside it."""
    run = GrowingRun(tmp_path / "a.trace")
    grow(run, 1)
    [segment] = (run.folder / COLUMNS).glob("*.arrow")
    kept = segment.read_bytes()
    segment.unlink()
    library = Library()
    trace_id = library.add(run.folder)
    assert len(library.open(trace_id)) == 0
    assert not (run.folder / INDEX).exists()
    segment.write_bytes(kept)
    assert len(library.open(trace_id)) == 4


def test_what_was_read_is_not_read_again(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "a.trace")
    grow(run, 3)
    shelf = Shelf()
    before = shelf.read_live(run.folder / COLUMNS)
    grow(run, 1)
    after = shelf.read_live(run.folder / COLUMNS)
    assert [a is b for a, b in zip(before, after, strict=False)] == [True] * 3
    assert len(after) == 4
    grow(run, FAN_IN - 4)
    [merged] = shelf.read_live(run.folder / COLUMNS)
    assert len(merged) == 4 * FAN_IN


def test_what_spans_say_is_read_once_while_their_run_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = GrowingRun(tmp_path / "a.trace")
    library = Library()
    trace_id = library.add(run.folder)
    read: list[int] = []
    attributes = Trace.attributes

    def counted(trace: Trace, places: Iterable[int]) -> dict[int, dict[str, Any]]:
        found = attributes(trace, places)
        read.append(len(found))
        return found

    monkeypatch.setattr(Trace, "attributes", counted)
    for turn in range(1, FAN_IN + 2):  # segments are merged in between, so that places change
        grow(run, 1)
        trace = library.open(trace_id)
        ops = np.flatnonzero(trace.all.is_kind("op.run"))
        told = trace.told(ops)
        assert set(told) == set(ops.tolist())
        assert {says["vizdist.op"] for says in told.values()} == {"MatMul"}
        assert len(ops) == 3 * turn
    assert read == [3] * (FAN_IN + 1)


def test_a_listing_amid_a_merge_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listing began before the merged segment came, and went on when its parts were gone."""
    run = GrowingRun(tmp_path / "a.trace")
    grow(run, FAN_IN)
    grow(run, 2)
    folder = run.folder / COLUMNS
    whole = sorted(folder.glob("*.arrow"))
    listings = [whole[1:], whole]
    monkeypatch.setattr(Path, "glob", lambda *_: listings.pop(0) if len(listings) > 1 else whole)
    assert sum(map(len, Shelf().read_live(folder))) == 4 * (FAN_IN + 2)


def test_a_segment_that_is_really_gone_is_said(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "a.trace")
    grow(run, 3)
    next((run.folder / COLUMNS).glob("00000000*")).unlink()
    with pytest.raises(TraceError, match="are gone"):
        Shelf().read_live(run.folder / COLUMNS)


def test_a_trace_that_is_looked_at_outlives_its_files(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "a.trace")
    grow(run, 3)
    library = Library()
    trace = library.open(library.add(run.folder))
    shutil.rmtree(run.folder)
    assert len(trace.tiles(trace.start, trace.end, 100).spans) > 0


def test_a_look_at_one_span_joins_no_columns(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "a.trace")
    library = Library()
    trace_id = library.add(run.folder)
    grow(run, 5)
    trace = library.open(trace_id)
    last = trace.all.take(np.array([len(trace) - 1]))
    assert state_of(trace, "running")["loss"] is None
    assert trace.span(int(last.span[0])).name
    assert isinstance(trace.all.columns, Joined)
    assert not trace.all.columns.made


def test_new_words_of_the_manifest_cost_no_look_at_spans(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "a.trace")
    grow(run, 1)
    library = Library()
    trace_id = library.add(run.folder)
    before = library.open(trace_id)
    run.turn()
    after = library.open(trace_id)
    assert after is not before
    assert after.all is before.all


def test_graphs_are_read_again_only_when_one_was_registered(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "a.trace")
    library = Library()
    trace_id = library.add(run.folder)
    run.register("g1")
    grow(run, 1)
    [first] = library.open(trace_id).graphs
    grow(run, 1)
    [same] = library.open(trace_id).graphs
    assert same is first
    run.register("g2")
    grow(run, 1)
    assert [graph.id for graph in library.open(trace_id).graphs] == ["g1", "g2"]
    assert [node.name for node in first.stages["full"]] == ["w", "mm"]


def mapped(folder: Path) -> int:
    """Segments of this folder, or below it, that this process has mapped."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sum(f"{folder}/" in line and ".arrow" in line for line in lines)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="tells maps on Linux only")
def test_a_trace_that_is_closed_leaves_no_map(tmp_path: Path) -> None:
    library = Library()
    ids = []
    for number in range(OPENED + 2):
        run = GrowingRun(tmp_path / f"{number}.trace")
        grow(run, 2)
        ids.append(library.add(run.folder))
        library.open(ids[-1])
    assert mapped(tmp_path) == 2 * OPENED
    assert mapped(tmp_path / "0.trace") == 0
    library.open(ids[0])
    assert mapped(tmp_path / "0.trace") == 2


def opened_files() -> list[str]:
    return [os.path.realpath(one) for one in Path("/proc/self/fd").iterdir()]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="tells maps on Linux only")
def test_maps_and_files_do_not_grow_with_the_turns(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "a.trace")
    library = Library()
    trace_id = library.add(run.folder)
    most, files = 0, set[str]()
    for _ in range(2 * FAN_IN**2):
        grow(run, 1)
        library.open(trace_id)
        most = max(most, mapped(tmp_path))
        files |= {one for one in opened_files() if one.endswith(".arrow")}
    assert most <= 3 * FAN_IN
    assert not files
