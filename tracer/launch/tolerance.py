"""What a run does about failures, and which it is asked to have: flags, checked."""

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.fault import OF_FRAMES, Fault, check_faults, faults_from
from tracer.model.refusal import Refusal
from tracer.training.checkpoint import Checkpoints


class ToleranceError(Refusal):
    """A flag about checkpoints, restarts or faults that cannot be served."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """`checkpoint` is a folder, empty: none. `restarts` are of each task, `faults` as written."""

    checkpoint: str = ""
    every: int = 0
    restarts: int = 0
    faults: str = ""

    @property
    def folder(self) -> Path | None:
        """The only one in which tensors are saved."""
        return Path(self.checkpoint) if self.checkpoint else None

    @property
    def checkpoints(self) -> Checkpoints | None:
        return Checkpoints(Path(self.checkpoint), self.every) if self.checkpoint else None

    def faults_of(self, task: TaskName) -> tuple[Fault, ...]:
        return tuple(fault for fault in faults_from(self.faults) if fault.task == task)


#: flag → argparse settings, in the order of `--help`
TOLERANCE_FLAGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "--checkpoint": {
        "metavar": "DIR",
        "default": "",
        "help": "folder for checkpoints; a run whose folder holds one goes on from it",
    },
    "--checkpoint-every": {
        "type": int,
        "metavar": "N",
        "default": 0,
        "help": "steps between two checkpoints (default: only one after the last step)",
    },
    "--restart": {
        "type": int,
        "metavar": "N",
        "default": 0,
        "help": "start a task that dies again, each at most N times (default 0)",
    },
    "--fault": {
        "metavar": "F[,…]",
        "default": "",
        "help": "let something fail: KIND:JOB:INDEX@step:N with KIND kill, stop, delay=MS, drop or "
        "error",
    },
}


def tolerance_from(parsed: argparse.Namespace) -> Tolerance:
    """Raises ToleranceError or FaultError."""
    asked = Tolerance(parsed.checkpoint, parsed.checkpoint_every, parsed.restart, parsed.fault)
    for flag, number in (("--checkpoint-every", asked.every), ("--restart", asked.restarts)):
        if number < 0:
            raise ToleranceError(f"{flag} {number}: must be 0 or more")
    if asked.every and not asked.checkpoint:
        raise ToleranceError(
            f"--checkpoint-every {asked.every}: say where to, with --checkpoint DIR"
        )
    faults_from(asked.faults)
    if parsed.in_process and (asked.restarts or asked.faults):
        flag = "--restart" if asked.restarts else "--fault"
        raise ToleranceError(
            f"{flag} needs tasks that are processes of their own; leave --in-process out"
        )
    return asked


def check_tolerance(
    asked: Tolerance, cluster: ClusterSpec, steps: int, *, by_frames: bool = True
) -> int:
    """Makes the checkpoint folder; the step after which a run of `steps` goes on.

    `by_frames`: tensors go from task to task in frames of ours. Raises ToleranceError, FaultError
    or CheckpointError.
    """
    faults = faults_from(asked.faults)
    check_faults(faults, cluster, steps)
    for fault in faults:
        if fault.kind in OF_FRAMES and not by_frames:
            raise ToleranceError(
                f"--fault {fault}: with --collectives native tensors go by torch.distributed, not "
                "in frames that could be late or lost; use --collectives visible, or kill, stop or "
                "error"
            )
    if asked.checkpoints is None:
        return 0
    folder = asked.checkpoints.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToleranceError(f"--checkpoint {folder} cannot be made: {error.strerror}") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ToleranceError(f"--checkpoint {folder} cannot be written to; name another folder")
    latest = asked.checkpoints.latest() or 0
    if latest >= steps:
        raise ToleranceError(
            f"--checkpoint {folder} holds step {latest}, and the run has {steps} steps: nothing is "
            f"left to do. Say --steps {latest + 100}, or name another folder to begin anew"
        )
    return latest
