"""A run says how it ended; one that cannot say so any more is noticed."""

import os
import socket
import subprocess
import sys

import pytest

from tracer.model.trace_folder import Manifest, TaskRecord
from vizdist.store.liveness import REST_ELSEWHERE_S, REST_S, is_process, outcome_of

HERE = socket.gethostname()


def told(rest_s: float, *, host: str = HERE, outcome: str = "running", alive: int = 0) -> str:
    tasks = [TaskRecord("launcher", 11), TaskRecord("collector", 12)]
    manifest = Manifest("run-1", host=host, outcome=outcome, tasks=tasks)
    return outcome_of(manifest, rest_s, lambda pid: pid == alive)


@pytest.mark.parametrize("outcome", ["done", "failed", "interrupted"])
def test_what_the_manifest_says_of_the_end_holds(outcome: str) -> None:
    assert told(1e9, outcome=outcome) == outcome


def test_a_run_whose_processes_are_gone_is_lost() -> None:
    assert told(REST_S - 1) == "running"
    assert told(REST_S + 1) == "lost"
    assert told(REST_S + 1, alive=12) == "running"


def test_a_run_of_another_host_gets_more_time_as_nobody_can_look() -> None:
    assert told(REST_S + 1, host="elsewhere") == "running"
    assert told(REST_ELSEWHERE_S + 1, host="elsewhere", alive=12) == "lost"


def test_of_a_foreign_file_nobody_knows() -> None:
    assert outcome_of(Manifest(""), 1e9) == ""


def test_a_process_is_there_until_it_is_not() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert is_process(process.pid)
    process.communicate(b"\n", timeout=60)
    assert not is_process(process.pid)
    assert is_process(os.getpid())
    assert not is_process(0)
