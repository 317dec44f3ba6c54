"""Runs that a server started: how far they are, why they failed, and that none outlives it."""

import sys
import time
from pathlib import Path

import pytest

from vizdist.store.index import path_id
from vizdist.store.library import Library
from vizdist.store.runnable import NotRunnable
from vizdist.store.started_runs import AT_A_TIME, Phase, StartedRuns

#: stands for `tracer run`: makes its trace folder, or says why not
SCRIPT = """
import pathlib, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
workload, *_, out = sys.argv[1:]
if workload == "wrong":
    print("a line before", file=sys.stderr)
    sys.exit("tracer: no workload is named 'wrong'")
folder = pathlib.Path(out)
folder.mkdir()
(folder / "manifest.json").write_text("{}")
if workload == "endless":
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        sys.exit("tracer: interrupted")
"""
COMMAND = (sys.executable, "-c", SCRIPT)
WAIT_S = 60.0


@pytest.fixture
def runs(tmp_path: Path) -> StartedRuns:
    return StartedRuns(Library([tmp_path]), COMMAND)


def reaches(runs: StartedRuns, trace: str, phase: Phase) -> str:
    """What is said then."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        progress = runs.progress(trace)
        assert progress is not None
        if progress.phase == phase:
            return progress.says
        time.sleep(0.01)
    raise AssertionError(f"waited {WAIT_S:g} s for {phase}; it is {runs.progress(trace)}")


def test_a_run_lies_in_the_folder_that_is_shown_under_its_name(
    runs: StartedRuns, tmp_path: Path
) -> None:
    trace = runs.start(["digits-mlp", "--strategy", "mirrored", "--steps", "2"])
    assert reaches(runs, trace, "done") == ""
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("digits-mlp-mirrored-")
    assert path_id(folder) == trace
    assert [entry.id for entry in Library([tmp_path]).entries()] == [trace]


def test_a_run_that_is_refused_says_the_reason(runs: StartedRuns) -> None:
    trace = runs.start(["wrong"])
    assert reaches(runs, trace, "failed") == "no workload is named 'wrong'"


def test_a_run_can_be_stopped_and_so_many_run_at_a_time(runs: StartedRuns) -> None:
    started = [runs.start(["endless"]) for _ in range(AT_A_TIME)]
    for trace in started:
        reaches(runs, trace, "running")
    with pytest.raises(NotRunnable) as caught:
        runs.start(["endless"])
    assert caught.value.key == "busy"
    runs.stop(started[0])
    assert reaches(runs, started[0], "failed") == "interrupted"
    reaches(runs, runs.start(["short"]), "done")


def test_what_was_not_started_here_has_no_progress(runs: StartedRuns) -> None:
    runs.stop("0" * 16)
    assert runs.progress("0" * 16) is None


def test_no_run_outlives_whoever_started_it(tmp_path: Path) -> None:
    runs = StartedRuns(Library([tmp_path]), COMMAND)
    reaches(runs, runs.start(["endless"]), "running")
    process = next(iter(runs._runs.values())).process
    del runs
    assert process.poll() is not None


def test_without_a_folder_of_traces_runs_lie_in_one_of_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    library = Library([])
    trace = StartedRuns(library, COMMAND).start(["short"])
    assert (tmp_path / "vizdist" / "runs").is_dir()
    assert library.folder_for_runs() == tmp_path / "vizdist" / "runs"
    assert trace
