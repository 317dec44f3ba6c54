"""The folder of one recorder within the scratch folder: its files' names and its signs of life.

SCRATCH/<task>.<attempt>/
  task.json         who records here; appears last, when the folder is complete
  lock              locked for as long as the process lives, however it dies
  sites.jsonl       what the numbers in records stand for
  <ring>-<n>.hot    fixed-size records of one thread
  <ring>-<n>.rare   attributes of rare spans of one thread
  closed.json       the recorder ended in order, how many spans it recorded, steps it left out
"""

import ctypes
import fcntl
import json
import mmap
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TASK_FILE = "task.json"
LOCK_FILE = "lock"
SITES_FILE = "sites.jsonl"
CLOSED_FILE = "closed.json"
HOT_SUFFIX = ".hot"
RARE_SUFFIX = ".rare"
COLLECTOR_LOCK = "collector.lock"
SCRATCH_BYTES = 1 << 30  #: room that rings may need while the collector lags
MAP_FIXED = 0x10  #: of mmap(2), the same on Linux and macOS; Python does not name it
SHARED_MEMORY = Path("/dev/shm")
PREFIX = "vizdist-"  #: of scratch folders
ABANDONED_S = 600.0  #: after which a scratch folder without a process is nobody's


def write_atomic(path: Path, text: str) -> None:
    """A reader finds the old text or the new one, never a part."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def new_buffer(path: Path, size: int) -> mmap.mmap:
    """A new file of zeros, mapped. Its pages are taken now: no room is an OSError, no SIGBUS."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.ftruncate(descriptor, size)
        return mmap.mmap(descriptor, size)
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(descriptor)


def make_private(buffer: mmap.mmap | bytearray) -> None:
    """Puts memory of this process alone in place of a mapped file that is another's to write."""
    size = len(buffer)
    held = (ctypes.c_char * size).from_buffer(buffer)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    libc.mmap.restype = ctypes.c_void_p
    how = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_FIXED
    at = ctypes.addressof(held)
    if libc.mmap(at, size, mmap.PROT_READ | mmap.PROT_WRITE, how, -1, 0) != at:
        raise OSError(ctypes.get_errno(), "the rings of the parent process could not be let go")


def make_scratch() -> Path:
    """A new scratch folder, in memory where there is room: pages on disk cost far more."""
    root = SHARED_MEMORY
    remove_abandoned(root)
    try:
        has_room = os.access(root, os.W_OK) and shutil.disk_usage(root).free > SCRATCH_BYTES
    except OSError:
        has_room = False
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=root if has_room else None))


def remove_abandoned(root: Path) -> None:
    """Scratch folders of runs of which no process lives, not even one that would tidy up."""
    for scratch in root.glob(f"{PREFIX}*"):
        locks = [scratch / COLLECTOR_LOCK, *scratch.glob(f"*/{LOCK_FILE}")]
        with suppress(OSError):  # another user's, or gone by now
            is_old = time.time() - scratch.stat().st_mtime > ABANDONED_S
            if is_old and not any(is_locked(lock) for lock in locks):
                shutil.rmtree(scratch, ignore_errors=True)


def lock_for_life(path: Path) -> int:
    """Locks a file until this process ends; returns the descriptor that holds the lock."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def is_locked(path: Path) -> bool:
    """Whether the process that locked it still lives."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@dataclass(frozen=True, slots=True)
class Home:
    """A recorder's folder, made by `make`; `attempt` counts the lives of its task."""

    folder: Path
    attempt: int
    lock: int

    @classmethod
    def make(cls, scratch: Path, task: str) -> "Home":
        """Takes the next attempt of this task; a race for it has one winner.

        Raises FileNotFoundError where the scratch folder is gone, and with it who would read it.
        """
        attempt = 0
        while True:
            folder = scratch / f"{task.replace(':', '-')}.{attempt}"
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                attempt += 1
                continue
            return cls(folder, attempt, lock_for_life(folder / LOCK_FILE))

    def announce(self, task: str, resource: Mapping[str, Any], epoch_offset_ns: int) -> None:
        told = {
            "task": task,
            "attempt": self.attempt,
            "pid": os.getpid(),
            "resource": resource,
            "epoch_offset_ns": epoch_offset_ns,
        }
        write_atomic(self.folder / TASK_FILE, json.dumps(told))

    def close(self, recorded: int, unrecorded_steps: int) -> None:
        told = {"recorded": recorded, "unrecorded_steps": unrecorded_steps}
        write_atomic(self.folder / CLOSED_FILE, json.dumps(told))
        self.leave()

    def leave(self) -> None:
        """Gives up this process's hold on the lock."""
        os.close(self.lock)
