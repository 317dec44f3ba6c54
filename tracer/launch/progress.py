"""How far each client is, readable from outside at any time, also after a kill.

Eight bytes in a memory-mapped file a task: the step that it has begun last.
"""

import mmap
import struct
from pathlib import Path

from tracer.model.cluster import TaskName

_STEP = struct.Struct("<Q")


def _path(scratch: Path, task: TaskName) -> Path:
    return scratch / f"progress.{task.job}-{task.index}"


class StepCounter:
    """The task's side: `counter(17)` says that step 17 has begun."""

    def __init__(self, scratch: Path, task: TaskName) -> None:
        path = _path(scratch, task)
        path.write_bytes(_STEP.pack(0))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _STEP.size)

    def __call__(self, step: int) -> None:
        _STEP.pack_into(self._memory, 0, step)


def last_step(scratch: Path, task: TaskName) -> int:
    """The step that the task began last; 0 if none."""
    try:
        return int(_STEP.unpack(_path(scratch, task).read_bytes())[0])
    except (FileNotFoundError, struct.error):
        return 0
