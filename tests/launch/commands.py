"""The tracer command as a user runs it, with what it printed: in a process of its own, or here."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tracer.cli import main

WAIT_S = 120.0  # a bound, not a budget: the machine is shared


def tracer(*arguments: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(arguments), capture_output=True, text=True, timeout=WAIT_S, check=False, cwd=cwd
    )


def tracer_here(
    capsys: pytest.CaptureFixture[str], *arguments: str
) -> "subprocess.CompletedProcess[str]":
    """The same in this process, which has torch already; for what starts no process."""
    try:
        code = main([*arguments])
    except SystemExit as ended:
        code = int(str(ended.code))
    printed, errors = capsys.readouterr()
    return subprocess.CompletedProcess(arguments, code, printed, errors)


def command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "tracer", *arguments]


@contextmanager
def running(*arguments: str, cwd: Path | None = None) -> Iterator["subprocess.Popen[str]"]:
    """The command while it runs; whatever happens, its whole tree is gone afterwards."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command(arguments), stdout=pipe, stderr=pipe, text=True, cwd=cwd)
    try:
        yield process
    finally:
        for member in tree(process.pid):
            member.kill()
        process.communicate()


def tree(pid: int) -> list[psutil.Process]:
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def until(found: Callable[[], Any], what: str) -> Any:
    """The first truthy value of `found`; fails with `what` when it never comes."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if value := found():
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited {WAIT_S:g} s for {what}")


def manifest(trace: Path) -> dict[str, Any]:
    path = trace / "manifest.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def wait_for_steps(trace: Path, task: str) -> None:
    """Until the collector has written spans of many steps of this task."""

    def stepping() -> bool:
        tasks = manifest(trace).get("tasks", [])
        return any(t["task"] == task and t["written"] > 500 for t in tasks)

    until(stepping, f"steps of {task}")


def pid_of(trace: Path, task: str) -> int:
    """The task's process id once it serves."""

    def find() -> int:
        tasks = manifest(trace).get("tasks", [])
        return next((t["pid"] for t in tasks if t["task"] == task and t["address"]), 0)

    return int(until(find, f"{task} to serve"))


def is_listened_to(address: str) -> bool:
    """Whether a process still accepts connections at host:port."""
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0
