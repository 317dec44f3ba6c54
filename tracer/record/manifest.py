"""manifest.json, kept by launcher and collector together: whole at every moment, no change lost."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tracer.model.trace_folder import Manifest, manifest_path
from tracer.record.home import write_atomic


def read_manifest(folder: Path) -> Manifest:
    """Raises FileNotFoundError if there is none, ValueError if it is not one."""
    return Manifest.from_json(manifest_path(folder).read_text(encoding="utf-8"))


def write_manifest(folder: Path, manifest: Manifest) -> None:
    with _one_at_a_time(folder):
        write_atomic(manifest_path(folder), manifest.to_json())


def update_manifest(folder: Path, change: Callable[[Manifest], None]) -> Manifest:
    """Reads the manifest, lets `change` alter it and writes it; returns what was written."""
    with _one_at_a_time(folder):
        manifest = read_manifest(folder)
        change(manifest)
        write_atomic(manifest_path(folder), manifest.to_json())
    return manifest


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Holds the lock of the folder itself, which leaves no file behind."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
