"""From a path to segments: our own folder as it is, everything else through an index."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypedDict, Unpack

from tracer.model.trace_folder import (
    COLUMNS,
    MANIFEST,
    SEGMENT_SUFFIX,
    SPANS,
    Manifest,
    manifest_path,
)
from vizdist.store.importers import chrome_json, otlp
from vizdist.store.importing import Enough, Sink
from vizdist.store.index import Fill, open_index
from vizdist.store.liveness import REST_S, RUNNING
from vizdist.store.problems import Problem, TraceError, problem, refusal
from vizdist.store.segments import Segment
from vizdist.store.shelf import Base, Shelf
from vizdist.store.tail import LinesFile, Tail


class Importer(Protocol):
    """What a module of `importers` offers."""

    def sniff(self, path: Path) -> bool:
        """Whether the file is of this format."""
        ...

    def load(self, path: Path, sink: Sink) -> None:
        """Reads what can be read; says what cannot."""
        ...

    def has_lines(self, path: Path) -> bool:
        """Whether spans point to lines of the file itself, so that no details are copied."""
        ...


IMPORTERS: tuple[Importer, ...] = (otlp, chrome_json)
FORMATS = "OTLP (.jsonl, .json, .pb, also .gz) and Chrome trace JSON"


class OpenOptions(TypedDict, total=False):
    """What a user may say about a foreign file."""

    time_unit: str  #: unit of Chrome timestamps: us (default), ns, ms, s
    limit: int  #: bytes a compressed file may inflate to
    max_spans: int | None  #: of a foreign file; None: all


@dataclass(frozen=True, slots=True)
class Source:
    """What was found at a path. `details_folder` is what the column `file` is relative to."""

    segments: Sequence[Segment]
    manifest: Manifest
    problems: Sequence[Problem]
    details_folder: Path


def load_source(path: Path, shelf: Shelf | None = None, **options: Unpack[OpenOptions]) -> Source:
    """Raises TraceError if nothing at the path can be read as a trace.

    `shelf` has the segments that were read of it before.
    """
    if not path.exists():
        raise TraceError(f"there is no file or folder {path}")
    load = _load_folder if path.is_dir() else _load_file
    return load(path, shelf or Shelf(), options)


def is_trace_folder(path: Path) -> bool:
    return manifest_path(path).is_file() or (path / SPANS).is_dir()


def _load_file(path: Path, shelf: Shelf, options: OpenOptions) -> Source:
    if not path.stat().st_size:
        raise refusal("empty", path.name)
    importer = next((one for one in IMPORTERS if one.sniff(path)), None)
    if importer is None:
        raise refusal("format", path.name, FORMATS)
    fill = partial(_fill_foreign, importer, path)
    if not importer.has_lines(path):
        index = open_index(path, [path], fill, options=options)
        return Source(_segments_of(index.folder, shelf), Manifest(""), index.problems, index.folder)
    lines = [LinesFile(path, path.name)]
    segments, problems = _followed(path, lines, shelf, fill, options)
    return Source(segments, Manifest(""), problems, path.parent)


def _fill_foreign(importer: Importer, path: Path, sink: Sink) -> None:
    try:
        importer.load(path, sink)
    except Enough:
        sink.say("many", sink.num_spans, path.name)


def _followed(
    path: Path, lines: Sequence[LinesFile], shelf: Shelf, fill: Fill, options: OpenOptions
) -> tuple[list[Segment], Sequence[Problem]]:
    """Segments and problems of files of span lines; what was read of them before is kept."""
    if shelf.base is not None and shelf.base.lines == lines:
        tail = shelf.tail = shelf.tail or Tail(lines, shelf.base.marks, shelf.base.segments)
        if tail.read():
            said = [one for one in shelf.base.problems if one.kind != "torn"]  # it has grown since
            return [*shelf.base.segments, *tail.segments], [*said, *tail.problems]
    shelf.tail = None
    marks = [line.mark() for line in lines]
    index = open_index(path, [line.path for line in lines], fill, options=options)
    shelf.base = Base(lines, marks, _segments_of(index.folder, shelf), index.problems)
    return shelf.base.segments, shelf.base.problems


def _load_folder(path: Path, shelf: Shelf, options: OpenOptions) -> Source:
    if not is_trace_folder(path):
        raise TraceError(f"{path} is no trace folder: it has neither {MANIFEST} nor {SPANS}/")
    manifest, problems = _read_manifest(path)
    problems += _missing_files(path, manifest)
    if manifest.recorded > manifest.written:
        problems.append(problem("count", manifest.recorded - manifest.written))
    if manifest.unrecorded_steps:
        problems.append(problem("room", manifest.unrecorded_steps))
    try:
        segments = shelf.read_live(path / COLUMNS)
    except TraceError as error:
        problems.append(problem("segment", 1, path.name, str(error)))
        segments = []
    if _is_complete(segments, manifest):
        return Source(segments, manifest, problems, path)
    files = span_files(path)
    if manifest.run_id and (
        _is_begun(path, manifest) or not any(file.stat().st_size for file in files)
    ):
        return Source((), manifest, problems, path)  # a run that recorded nothing (yet)
    lines = [LinesFile(file, f"{SPANS}/{file.name}", _task_of_file(file)) for file in files]
    read, said = _followed(path, lines, shelf, partial(_fill_own, lines), options)
    return Source(read, manifest, (*problems, *said), path)


def _segments_of(folder: Path, shelf: Shelf) -> list[Segment]:
    return shelf.read(folder.glob(f"*{SEGMENT_SUFFIX}"))


def _is_complete(segments: Sequence[Segment], manifest: Manifest) -> bool:
    """A run's end merges its columns; while it goes on they are what there is."""
    if manifest.outcome == RUNNING:
        return bool(segments)
    return bool(segments) and sum(map(len, segments)) == manifest.written


def _is_begun(path: Path, manifest: Manifest) -> bool:
    """Whether a collector is at work whose first columns are still to come."""
    columns = path / COLUMNS
    if manifest.outcome != RUNNING or not columns.is_dir() or any(columns.iterdir()):
        return False
    return time.time() - manifest_path(path).stat().st_mtime < REST_S


def span_files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / SPANS).glob("*.otlp.jsonl*") if path.is_file())


def _fill_own(lines: Sequence[LinesFile], sink: Sink) -> None:
    sink.is_foreign = False
    for file in lines:
        otlp.load_lines(file.path, sink, file.name, file.task)


def _task_of_file(file: Path) -> str:
    """`worker-0.1.otlp.jsonl.gz` holds spans of worker:0."""
    job, dash, index = file.name.split(".")[0].rpartition("-")
    return f"{job}:{index}" if dash else file.name.split(".")[0]


def _read_manifest(path: Path) -> tuple[Manifest, list[Problem]]:
    """The manifest; an empty one and a problem if it is missing or broken."""
    try:
        return Manifest.from_json(manifest_path(path).read_text(encoding="utf-8")), []
    except (OSError, ValueError, TypeError) as error:
        return Manifest(""), [problem("manifest", 1, MANIFEST, str(error))]


def _missing_files(path: Path, manifest: Manifest) -> list[Problem]:
    present = {_task_of_file(file) for file in span_files(path)}
    return [
        problem("missing-task", 1, task.task)
        for task in manifest.tasks
        if task.recorded and task.task not in present
    ]
