"""Runs that several stories look at: each is captured once a session, when first asked for.

What lies there is read only: whoever changes or deletes a trace copies it first.
"""

from pathlib import Path

from tests.launch.commands import tracer
from tracer.cli import main

#: six steps of one worker and one ps
MLP = (
    "digits-mlp", "--strategy", "parameter_server_v1", "--ps", "1", "--workers", "1",
    "--steps", "6", "--in-process",
)  # fmt: skip

#: four steps of two workers that meet in collectives alone
WORKERS = (
    "digits-mlp", "--strategy", "multi_worker_mirrored", "--workers", "2", "--steps", "4",
    "--in-process",
)  # fmt: skip


class Captured:
    """`captured(WORKLOAD, …)` is the trace of `tracer run WORKLOAD …`.

    With --in-process it is captured in this process, which has torch already; else the command is
    a process of its own, as are its tasks.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[tuple[str, ...], Path] = {}

    def __call__(self, *words: str, exits: int = 0) -> Path:
        if words not in self._made:
            trace = self._folder / str(len(self._made)) / f"{words[0]}.trace"
            trace.parent.mkdir()
            run = ("run", *words, "--out", str(trace))
            if "--in-process" in words:
                assert main([*run]) == exits
            else:
                done = tracer(*run)
                assert done.returncode == exits, done.stderr
            self._made[words] = trace
        return self._made[words]
