"""Scratch folders: in memory, gone with their run, and after it if nobody was left to tidy up."""

import os
import shutil
import time
from pathlib import Path

import pytest

from tracer.record.home import COLLECTOR_LOCK, Home, lock_for_life, make_scratch, remove_abandoned

LONG_AGO = time.time() - 3600


def scratch(root: Path, name: str, *tasks: str) -> Path:
    """A scratch folder of an hour ago in which these tasks, now ended, recorded."""
    folder = root / f"vizdist-{name}"
    folder.mkdir()
    for task in tasks:
        Home.make(folder, task).leave()
    os.utime(folder, (LONG_AGO, LONG_AGO))
    return folder


def test_what_no_process_holds_is_removed_and_nothing_else(tmp_path: Path) -> None:
    dead = scratch(tmp_path, "dead", "worker:0", "ps:0")
    young = scratch(tmp_path, "young", "worker:0")
    os.utime(young)
    recording, collecting = scratch(tmp_path, "recording"), scratch(tmp_path, "collecting")
    home, lock = Home.make(recording, "worker:0"), lock_for_life(collecting / COLLECTOR_LOCK)
    for folder in (recording, collecting):
        os.utime(folder, (LONG_AGO, LONG_AGO))
    other = tmp_path / "other"
    other.mkdir()
    os.utime(other, (LONG_AGO, LONG_AGO))
    remove_abandoned(tmp_path)
    home.leave()
    os.close(lock)
    assert not dead.exists()
    assert all(folder.exists() for folder in (young, recording, collecting, other))


def test_a_new_scratch_folder_is_its_users_alone() -> None:
    folder = make_scratch()
    try:
        assert folder.stat().st_mode & 0o077 == 0
    finally:
        shutil.rmtree(folder)


def test_nobody_records_where_nobody_would_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Home.make(tmp_path / "gone", "worker:0")
