"""Whether a run still goes on: what its manifest says, or that nobody is left to say more.

A collector writes the manifest anew at every turn, so one that says `running` and rests is stale:
whoever would have written the end was killed.
"""

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

from tracer.model.trace_folder import Manifest, manifest_path

RUNNING = "running"
LOST = "lost"
REST_S = 5.0  #: a collector is never silent for so long while it gets any processor time
REST_ELSEWHERE_S = 60.0  #: the same where its processes cannot be looked for


def outcome_of(
    manifest: Manifest, rest_s: float, is_alive: Callable[[int], bool] | None = None
) -> str:
    """running, done, failed or interrupted as the manifest has it; lost: it can never be told.

    `rest_s` is how long ago the manifest was written. Of a foreign trace nobody knows: "".
    """
    if not manifest.run_id:
        return ""
    if manifest.outcome != RUNNING or rest_s < REST_S:
        return manifest.outcome
    if manifest.host != socket.gethostname():
        return LOST if rest_s > REST_ELSEWHERE_S else RUNNING
    lives = is_alive or is_process
    return RUNNING if any(lives(task.pid) for task in manifest.tasks) else LOST


def outcome_now(folder: Path, manifest: Manifest) -> str:
    """How the run of a trace stands or ended, by when its manifest was last written."""
    path = manifest_path(folder)
    return outcome_of(manifest, time.time() - path.stat().st_mtime if path.exists() else 0.0)


def is_process(pid: int) -> bool:
    """Whether a process of this number is there, whoever owns it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return pid > 0
