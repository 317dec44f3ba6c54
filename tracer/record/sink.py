"""From rings to the trace folder: takes what recorders wrote, writes spans, columns and counts."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from tracer.model.trace_folder import COLUMNS, Manifest, TaskRecord, spans_path
from tracer.record.columns import Columns, Places
from tracer.record.drain import Batch, HomeReader, find_homes
from tracer.record.manifest import update_manifest
from tracer.record.otlp_writer import MEMBER_BYTES, Encoded, Encoder, SpanFile

PART_SPANS: Final = 1 << 15  #: spans encoded in one go


@dataclass(slots=True)
class _Source:
    """One recorder, its span file, and what could not be written yet (disk full)."""

    home: HomeReader
    file: SpanFile
    encoder: Encoder
    written: int = 0
    waiting: list[Batch] = field(default_factory=list)


class Sink:
    """Drains a scratch folder into a trace folder, turn by turn."""

    def __init__(
        self,
        trace: Path,
        scratch: Path,
        progress: Callable[[], None] = lambda: None,
        wrote: Callable[[Path, int], None] = lambda _path, _size: None,
    ) -> None:
        """`progress` is called after each part, `wrote` with a span file and its size then."""
        self._trace = trace
        self._progress = progress
        self._wrote = wrote
        self._scratch = scratch
        self._columns = Columns(trace / COLUMNS)
        self._sources: dict[Path, _Source] = {}
        self.error = ""  #: why spans wait to be written; empty: they do not

    @property
    def recorded(self) -> int:
        return sum(source.home.num_recorded for source in self._sources.values())

    @property
    def written(self) -> int:
        return sum(source.written for source in self._sources.values())

    @property
    def unrecorded_steps(self) -> int:
        """Steps that recorders left out for want of room, as they said when they closed."""
        return sum(source.home.unrecorded_steps for source in self._sources.values())

    @property
    def is_idle(self) -> bool:
        """Whether every recorder found so far is over and written."""
        return all(s.home.is_over and not s.waiting for s in self._sources.values())

    def turn(self, now: int, *, at_end: bool = False) -> int:
        """Writes what was recorded since the last turn; returns the number of spans written.

        `now` is in ns since the epoch. `at_end` takes every recorder as over, alive or not.
        """
        for home in find_homes(self._scratch, set(self._sources)):
            self._sources[home.folder] = self._source(home)
        before = self.written
        for source in self._sources.values():
            if not source.home.is_over:
                source.waiting += source.home.take(now, at_end=at_end).parts(PART_SPANS)
        try:
            self._write()
            self.error = ""
        except OSError as error:
            self.error = str(error)
        return self.written - before

    def _source(self, home: HomeReader) -> _Source:
        file = SpanFile(self._free_path(home))
        return _Source(home, file, Encoder(home.resource))

    def _free_path(self, home: HomeReader) -> Path:
        """The file of this life of the task; nobody appends to another writer's file."""
        attempt = home.attempt
        while (path := spans_path(self._trace, home.task, attempt)).exists():
            attempt += 1
        return path

    def _write(self) -> None:
        """Raises OSError if the disk is full; what is not written then waits for the next turn."""
        for source in self._sources.values():
            while source.waiting:
                self._write_batch(source, source.waiting[0])
                source.waiting.pop(0)
                self._progress()
        self._columns.flush()
        for source in self._sources.values():
            source.home.release()

    def _write_batch(self, source: _Source, batch: Batch) -> None:
        encoded = source.encoder.encode(batch)
        places = self._append(source.file, encoded)
        names = {span: note.name for span, note in batch.annotations.items() if note.name}
        self._columns.add(source.home, batch.records[encoded.order], places, names)
        source.written += len(batch.records)
        self._wrote(source.file.path, source.file.size)

    def _append(self, file: SpanFile, encoded: Encoded) -> Places:
        """Writes the lines in members; says where each span went."""
        groups = _groups(encoded.lines)
        sizes = [len(group) for group in groups]
        members = np.repeat(file.append_all(map(b"".join, groups)), sizes)
        lines = np.concatenate([np.arange(size, dtype=np.uint32) for size in sizes])
        return Places(
            str(file.path.relative_to(self._trace)),
            members[encoded.line_of],
            lines[encoded.line_of],
        )

    def tell(self) -> None:
        """Brings the counts of the manifest up to date."""
        update_manifest(self._trace, self._tell)

    def _tell(self, manifest: Manifest) -> None:
        manifest.recorded, manifest.written = self.recorded, self.written
        manifest.unrecorded_steps = self.unrecorded_steps
        known = {record.task: record for record in manifest.tasks}
        for task in dict.fromkeys(source.home.task for source in self._sources.values()):
            lives = [source for source in self._sources.values() if source.home.task == task]
            if task not in known:
                manifest.tasks.append(TaskRecord(task, lives[-1].home.pid))
                known[task] = manifest.tasks[-1]
            _tell_task(known[task], lives)

    def close(self) -> None:
        """Merges the columns and closes the files."""
        self._columns.close(self._progress)
        for source in self._sources.values():
            source.file.close()


def _groups(lines: list[bytes]) -> list[list[bytes]]:
    """Lines that go into one member together."""
    groups: list[list[bytes]] = []
    size = MEMBER_BYTES
    for line in lines:
        if size + len(line) > MEMBER_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(line)
        size += len(line)
    return groups


def _tell_task(record: TaskRecord, lives: list[_Source]) -> None:
    homes = [life.home for life in lives]
    record.recorded = sum(home.num_recorded for home in homes)
    record.written = sum(life.written for life in lives)
    record.last_seen_ns = max(home.last_seen_ns for home in homes)
    if record.outcome == "running" and all(home.is_over for home in homes):
        record.outcome = "done" if any(home.was_closed for home in homes) else "lost"
