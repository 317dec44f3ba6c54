"""The traces a server shows: found in folders or added, opened on demand, named by opaque ids."""

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Unpack

from tracer.model.trace_folder import COLUMNS, SPANS, Manifest, manifest_path
from vizdist.store.index import cache_folder, path_id
from vizdist.store.liveness import outcome_now
from vizdist.store.problems import TraceError
from vizdist.store.shelf import Shelf
from vizdist.store.sources import OpenOptions, is_trace_folder
from vizdist.store.trace import Trace, reopen_trace

OPENED = 8  #: traces kept open; the one used longest ago goes first
FILE_SUFFIXES = (".jsonl", ".json", ".pb", ".jsonl.gz", ".json.gz", ".pb.gz")


@dataclass(frozen=True, slots=True)
class Entry:
    """A trace as a list shows it: by its manifest alone, which is empty for foreign files."""

    id: str
    title: str
    manifest: Manifest
    num_bytes: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class _Opened:
    """A trace that is kept open, the stamp it was read at, and its segments."""

    stamp: tuple[object, ...] = ()
    trace: Trace | None = None
    shelf: Shelf = field(default_factory=Shelf)


class Library:
    """Thread-safe. Only paths that were added or found can be opened, and only by id."""

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        self._lock = threading.Lock()
        self._paths: dict[str, tuple[Path, OpenOptions]] = {}
        self._folders: list[Path] = []
        self._opened: OrderedDict[str, _Opened] = OrderedDict()
        self._opening: dict[str, threading.Lock] = {}
        for path in paths:
            self.add(path)

    def add(self, path: Path, **options: Unpack[OpenOptions]) -> str:
        """Adds a trace, or a folder whose traces are listed as they come; returns the trace's id.

        The id of a folder of traces is "". Raises TraceError if there is nothing at the path.
        """
        if not path.exists():
            raise TraceError(f"there is no file or folder {path}")
        with self._lock:
            if path.is_dir() and not is_trace_folder(path):
                self._folders.append(path)
                return ""
            return self._add_trace(path, options)

    def folder_for_runs(self) -> Path:
        """Where a new run is listed: the first folder of traces, else one of the user's own."""
        with self._lock:
            folders = [folder for folder in self._folders if os.access(folder, os.W_OK | os.X_OK)]
        if folders:
            return folders[0]
        own = cache_folder() / "runs"
        own.mkdir(parents=True, exist_ok=True)
        self.add(own)
        return own

    def remove(self, path: Path) -> None:
        """Forgets a trace that was added; what lies on disk stays."""
        trace_id = path_id(path)
        with self._lock:
            for table in (self._paths, self._opened, self._opening):
                table.pop(trace_id, None)

    def _add_trace(self, path: Path, options: OpenOptions) -> str:
        trace_id = path_id(path)
        self._paths.setdefault(trace_id, (path, options))
        return trace_id

    def _scan(self) -> None:
        for folder in self._folders:
            for path in _traces_in(folder):
                self._add_trace(path, {})

    def entries(self) -> list[Entry]:
        """All traces there are now, the newest first."""
        with self._lock:
            self._scan()
            paths = [(trace_id, path) for trace_id, (path, _) in self._paths.items()]
        found = [_entry(trace_id, path) for trace_id, path in paths if path.exists()]
        return sorted(found, key=lambda entry: (-entry.changed_ns, entry.title))

    def open(self, trace_id: str) -> Trace:
        """The trace of an id, opened once whoever asks, and again when it has grown.

        Raises TraceError if there is none.
        """
        with self._lock:
            if trace_id not in self._paths:
                self._scan()
            if trace_id not in self._paths:
                raise TraceError("no trace has this id; the library lists those there are")
            path, options = self._paths[trace_id]
            opening = self._opening.setdefault(trace_id, threading.Lock())
        with opening:
            stamp = _stamp(path)
            with self._lock:
                known = self._opened.get(trace_id) or _Opened()
                if known.trace is not None and known.stamp == stamp:
                    self._opened.move_to_end(trace_id)
                    return known.trace
            trace = reopen_trace(path, trace_id, known.shelf, known.trace, **options)
            with self._lock:
                self._opened[trace_id] = _Opened(stamp, trace, known.shelf)
                self._opened.move_to_end(trace_id)
                while len(self._opened) > OPENED:
                    self._opened.popitem(last=False)
            return trace

    def outcome(self, trace_id: str) -> str:
        """How the run of a trace stands or ended; `lost` if it died without a word."""
        manifest = self.open(trace_id).manifest
        return outcome_now(self._paths[trace_id][0], manifest)


def _stamp(path: Path) -> tuple[object, ...]:
    """What changes when a trace grows: its file, or its manifest and columns, or its span files.

    Times alone would not do: two changes within a tick of the file system's clock have the same.
    """
    if not path.is_dir():
        return _state(path)
    columns = sorted(_names(path / COLUMNS))
    files = [] if columns else [_state(path / SPANS / name) for name in _names(path / SPANS)]
    return _state(manifest_path(path)), *columns, *sorted(files)


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(folder)]
    except OSError:
        return []


def _state(path: Path) -> tuple[str, int, int, int]:
    try:
        stat = path.stat()
    except OSError:
        return path.name, 0, 0, 0
    return path.name, stat.st_ino, stat.st_size, stat.st_mtime_ns


def _traces_in(folder: Path) -> Iterator[Path]:
    for name in sorted(_names(folder)):
        path = folder / name
        if name.startswith("."):
            continue
        if path.is_dir():
            if is_trace_folder(path):
                yield path
        elif name.lower().endswith(FILE_SUFFIXES):
            yield path


def _entry(trace_id: str, path: Path) -> Entry:
    manifest = Manifest("")
    if path.is_dir():
        # where it cannot be read the row shows the name alone; opening tells what is wrong
        with suppress(OSError, ValueError, TypeError):
            manifest = Manifest.from_json(manifest_path(path).read_text(encoding="utf-8"))
    stats = list(_stats(path))
    return Entry(
        trace_id,
        path.name.removesuffix(".trace"),
        manifest,
        sum(stat.st_size for stat in stats),
        max((stat.st_mtime_ns for stat in stats), default=0),
    )


def _stats(path: Path) -> Iterator[os.stat_result]:
    """Of a trace's files; a collector may remove one after it was listed."""
    files = [path]
    if path.is_dir():
        files = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    for file in files:
        with suppress(OSError):
            yield file.stat()
