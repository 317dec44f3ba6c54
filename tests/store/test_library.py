"""A library lists traces by opaque ids and opens each once."""

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.store.sample_trace import move_segment, training_step, write_trace
from vizdist.store.library import OPENED, Library
from vizdist.store.problems import TraceError


def test_a_folder_of_traces_is_listed_as_it_grows(tmp_path: Path) -> None:
    library = Library([tmp_path])
    assert library.entries() == []
    write_trace(tmp_path / "one.trace", training_step(1), workload="digits-mlp")
    [entry] = library.entries()
    assert (entry.title, entry.manifest.workload) == ("one", "digits-mlp")
    assert str(tmp_path) not in entry.id
    assert library.open(entry.id).id == entry.id


def test_only_known_ids_open(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "one.trace", training_step(1))
    library = Library([path])
    for wrong in ("", "..", str(path), "../one.trace"):
        with pytest.raises(TraceError, match="no trace has this id"):
            library.open(wrong)


def test_a_broken_manifest_does_not_empty_the_list(tmp_path: Path) -> None:
    write_trace(tmp_path / "good.trace", training_step(1))
    write_trace(tmp_path / "bad.trace", training_step(1))
    (tmp_path / "bad.trace" / "manifest.json").write_text("{")
    assert {entry.title for entry in Library([tmp_path]).entries()} == {"good", "bad"}


def test_files_that_go_while_they_are_listed_do_not_empty_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_trace(tmp_path / "one.trace", training_step(1))
    [before] = Library([tmp_path]).entries()
    brief = path / "brief.tmp"
    brief.touch()
    (path / "gone").symlink_to(tmp_path / "nowhere")
    look = os.stat

    def look_once(file: Any, **how: Any) -> os.stat_result:
        found = look(file, **how)
        if str(file) == str(brief):
            brief.unlink()
        return found

    monkeypatch.setattr(os, "stat", look_once)
    [after] = Library([tmp_path]).entries()
    assert not brief.exists()
    assert (after.title, after.num_bytes) == ("one", before.num_bytes)


def test_a_folder_that_went_holds_no_traces(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    library = Library([folder])
    shutil.rmtree(folder)
    assert library.entries() == []


def test_many_readers_share_one_opened_trace(tmp_path: Path) -> None:
    library = Library()
    trace_id = library.add(write_trace(tmp_path / "one.trace", training_step(1)))
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(library.open(trace_id))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1


def test_a_trace_that_grew_is_read_anew(tmp_path: Path) -> None:
    library = Library()
    path = write_trace(tmp_path / "one.trace", training_step(1))
    trace_id = library.add(path)
    before = library.open(trace_id)
    move_segment(write_trace(tmp_path / "two.trace", training_step(2, at=2000)), path)
    assert (len(before.steps), len(library.open(trace_id).steps)) == (1, 2)


def test_the_trace_used_longest_ago_is_closed_first(tmp_path: Path) -> None:
    library = Library()
    ids = [
        library.add(write_trace(tmp_path / f"{n}.trace", training_step(1)))
        for n in range(OPENED + 1)
    ]
    first = library.open(ids[0])
    for trace_id in ids[1:OPENED]:
        library.open(trace_id)
    assert library.open(ids[0]) is first
    second = library.open(ids[1])
    library.open(ids[OPENED])
    for trace_id in (ids[0], ids[1]):
        library.open(trace_id)
    assert library.open(ids[1]) is second


def test_what_is_not_there_cannot_be_added(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="there is no file or folder"):
        Library([tmp_path / "nothing"])
