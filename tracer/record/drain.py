"""Reads what recorders wrote into a scratch folder, while they write or after they died.

Order matters: life signs first, then records, then attributes, then sites. Whatever a record seen
in one turn refers to was written before it, so it is found in the same turn.
"""

import json
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.msgpack import decode as unpacked

from tracer.model.trace_folder import Flag
from tracer.record.home import (
    CLOSED_FILE,
    HOT_SUFFIX,
    LOCK_FILE,
    RARE_SUFFIX,
    SITES_FILE,
    TASK_FILE,
    is_locked,
)
from tracer.record.keys import Keys
from tracer.record.rare import GOES_ON, LENGTH
from tracer.record.ring import DRAINED_OFFSET, FIRST_OFFSET, MAGIC, NUMBER, RECORD_BYTES

#: the layout of ring.WHOLE
RECORD = np.dtype(
    [
        *((name, "<u4") for name in ("site", "row", "step", "begun_key")),
        *((name, "<u8") for name in ("trace_hi", "trace_lo", "span", "parent")),
        ("begun_start", "<i8"),
        ("begun", "<u8"),
        *((name, "<i8") for name in ("start", "end", "ready", "bytes")),
        ("link", "<u8"),
        ("extra", "<i8"),
        *((name, "<u4") for name in ("key", "flags")),
        ("ended", "<u8"),
    ]
)
_OF_THE_END = ("ready", "bytes", "link", "extra")
_SCAN = 512  #: records looked at in one go for new ones

Records = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class SiteInfo:
    kind: str
    name: str
    lane: str
    attributes: dict[str, Any]
    origin: dict[str, str] = field(default_factory=dict)  #: of users' spans: otel, scope, version


@dataclass(slots=True)
class Annotation:
    """What one span carries that is not a record field: attributes, why it failed.

    Users' spans carry more: events [time, name, attributes, number dropped], links [trace id, span
    id, attributes, number dropped], a name of their own, and how many of each were dropped.
    """

    attributes: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    name: str = ""
    is_ok: bool = False
    events: list[tuple[int, str, dict[str, Any], int]] = field(default_factory=list)
    links: list[tuple[str, str, dict[str, Any], int]] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)

    def add(self, told: Mapping[str, Any]) -> None:
        """One more entry about the span; what comes later wins."""
        self.attributes |= told.get("attributes", {})
        self.error = told.get("error", self.error)
        self.name = told.get("name", self.name)
        self.is_ok = told.get("is_ok", self.is_ok)
        self.events += told.get("events", ())
        self.links += told.get("links", ())
        self.dropped |= told.get("dropped", {})


class HotFile:
    """One ring file as the collector sees it."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._buffer = mmap.mmap(file.fileno(), 0)
        num_records = len(self._buffer) // RECORD_BYTES - 1
        self._records: Records = np.frombuffer(self._buffer, RECORD, num_records, RECORD_BYTES)
        self._first = self._read(FIRST_OFFSET)
        self._num_seen = 0
        self._pending = np.empty(0, np.int64)
        self._num_ended = 0

    def _read(self, offset: int) -> int:
        number: int = NUMBER.unpack_from(self._buffer, offset)[0]
        return number

    @property
    def is_ready(self) -> bool:
        return self._buffer[: len(MAGIC)] == MAGIC

    def take(self) -> Records:
        """A copy of the records that ended since the last take."""
        if (first := self._read(FIRST_OFFSET)) != self._first:
            self._first, self._num_seen = first, 0
        self._see_new()
        at = self._pending
        is_done = self._records["ended"][at] == at + (self._first + 1)
        self._pending = at[~is_done]
        self._num_ended += int(is_done.sum())
        done: Records = self._records[at[is_done]]
        return done

    @property
    def num_begun(self) -> int:
        """Of what was looked at."""
        return self._num_ended + len(self.open_records())

    def _see_new(self) -> None:
        """Slots up to the last one begun.

        One in between may be torn: for good, by a failed call, or for now, as it was looked at a
        moment before it was begun.
        """
        while self._num_seen < len(self._records):
            window = np.arange(self._num_seen, min(self._num_seen + _SCAN, len(self._records)))
            is_begun = self._records["begun"][window] == window + (self._first + 1)
            if not is_begun.any():
                return
            new = window[: int(np.flatnonzero(is_begun)[-1]) + 1]
            self._num_seen += len(new)
            self._pending = np.concatenate([self._pending, new])

    def open_records(self) -> Records:
        """A copy of the records that began and have not ended."""
        at = self._pending
        is_begun = self._records["begun"][at] == at + (self._first + 1)
        begun: Records = self._records[at[is_begun]]
        return begun

    def release(self) -> None:
        """What was taken is safe in the trace: if that is all of the file, it may be used again."""
        if self._num_seen == len(self._records) and not len(self._pending):
            NUMBER.pack_into(self._buffer, DRAINED_OFFSET, self._first + self._num_seen)


class RareFiles:
    """The attribute entries of one ring; files that were read to their end are removed."""

    def __init__(self, folder: Path, ring: str) -> None:
        self._folder = folder
        self._ring = ring
        self._turn = 0
        self._offset = 0
        self._buffer: mmap.mmap | None = None

    def take(self) -> Iterator[dict[str, Any]]:
        while self._open():
            assert self._buffer is not None
            (length,) = LENGTH.unpack_from(self._buffer, self._offset)
            if length == GOES_ON:
                self._path.unlink(missing_ok=True)
                self._buffer, self._offset, self._turn = None, 0, self._turn + 1
                continue
            if not length:
                return
            start = self._offset + LENGTH.size
            self._offset = start + length
            yield unpacked(self._buffer[start : self._offset])

    @property
    def _path(self) -> Path:
        return self._folder / f"{self._ring}-{self._turn}{RARE_SUFFIX}"

    def _open(self) -> bool:
        if self._buffer is None and self._path.exists() and self._path.stat().st_size:
            with self._path.open("r+b") as file:
                self._buffer = mmap.mmap(file.fileno(), 0)
        return self._buffer is not None


class SitesFile:
    """What the numbers in records stand for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.sites: list[SiteInfo] = [SiteInfo("", "", "", {})]
        self.keys = Keys()

    def refresh(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self._offset)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        for line in whole.splitlines():
            told = json.loads(line)
            if "key" in told:
                self.keys.see(told)
            else:
                del told["site"]
                self.sites.append(SiteInfo(**told))


@dataclass(frozen=True, slots=True)
class Batch:
    """Spans of one recorder. `records` are of type RECORD; unfinished ones carry their flag."""

    home: "HomeReader"
    records: Records
    annotations: dict[int, Annotation]

    def parts(self, num_spans: int) -> "Iterator[Batch]":
        """The same in parts of at most so many spans; none if it is empty."""
        for first in range(0, len(self.records), num_spans):
            yield replace(self, records=self.records[first : first + num_spans])


class HomeReader:
    """All files of one recorder."""

    def __init__(self, folder: Path) -> None:
        told = json.loads((folder / TASK_FILE).read_text(encoding="utf-8"))
        self.folder = folder
        self.task: str = told["task"]
        self.attempt: int = told["attempt"]
        self.pid: int = told["pid"]
        self.resource: dict[str, Any] = told["resource"]
        self._epoch_offset: int = told["epoch_offset_ns"]
        self._told_recorded: int | None = None
        self.unrecorded_steps = 0
        self.is_over = False
        self.last_seen_ns = 0
        self._sites = SitesFile(folder / SITES_FILE)
        self._hot: dict[str, HotFile] = {}
        self._rare: dict[str, RareFiles] = {}
        self._annotations: dict[int, Annotation] = {}

    @property
    def sites(self) -> list[SiteInfo]:
        return self._sites.sites

    @property
    def keys(self) -> Keys:
        return self._sites.keys

    @property
    def num_recorded(self) -> int:
        """Spans begun: as the recorder said when it closed, or more if its rings hold more."""
        return max(self._told_recorded or 0, sum(f.num_begun for f in self._hot.values()))

    def take(self, now: int = 0, *, at_end: bool = False) -> Batch:
        """The spans that ended since the last take; once all is over, also what was left open.

        `now` is a time at which a process still alive was seen; `at_end` treats it as over.
        """
        self._look_for_close()
        self.is_over = at_end or self.was_closed or not is_locked(self.folder / LOCK_FILE)
        if not self.is_over:
            self.last_seen_ns = max(self.last_seen_ns, now)
        self._find_files()
        taken = [file.take() for file in self._hot.values()]
        ended = np.concatenate([*taken, np.empty(0, RECORD)])
        ended["key"] = np.where(ended["key"], ended["key"], ended["begun_key"])
        for name in ("start", "end", "ready"):
            ended[name] += np.where(ended[name], self._epoch_offset, 0)
        if len(ended):
            self.last_seen_ns = max(self.last_seen_ns, int(ended["end"].max()))
        if self.is_over:
            ended = np.concatenate([ended, self._unfinished()])
        self._annotate()
        self._sites.refresh()
        # what was interned after the close is told to nobody
        ended = ended[ended["site"] < len(self.sites)]
        return Batch(self, ended, self._annotations_of(ended))

    @property
    def was_closed(self) -> bool:
        """Whether the recorder ended in order."""
        return self._told_recorded is not None

    def _look_for_close(self) -> None:
        path = self.folder / CLOSED_FILE
        if path.exists():
            told = json.loads(path.read_text(encoding="utf-8"))
            self._told_recorded, self.unrecorded_steps = told["recorded"], told["unrecorded_steps"]

    def _find_files(self) -> None:
        for path in self.folder.glob(f"*{HOT_SUFFIX}"):
            if path.name not in self._hot and path.stat().st_size:
                file = HotFile(path)
                if file.is_ready:
                    self._hot[path.name] = file
        for path in self.folder.glob(f"*-0{RARE_SUFFIX}"):
            ring = path.name.partition("-")[0]
            if ring not in self._rare:
                self._rare[ring] = RareFiles(self.folder, ring)

    def _unfinished(self) -> Records:
        left = np.concatenate(
            [*(file.open_records() for file in self._hot.values()), np.empty(0, RECORD)]
        )
        left["begun_start"] += self._epoch_offset
        if len(left):
            self.last_seen_ns = max(self.last_seen_ns, int(left["begun_start"].max()))
        left["start"], left["end"] = left["begun_start"], self.last_seen_ns
        left["key"], left["flags"] = left["begun_key"], Flag.UNFINISHED
        for name in _OF_THE_END:
            left[name] = 0
        return left

    def _annotate(self) -> None:
        for rare in self._rare.values():
            for entry in rare.take():
                self._annotations.setdefault(entry["span"], Annotation()).add(entry)

    def _annotations_of(self, records: Records) -> dict[int, Annotation]:
        if not self._annotations:
            return {}
        known = np.fromiter(self._annotations, np.uint64, len(self._annotations))
        spans = records["span"][np.isin(records["span"], known)].tolist()
        return {span: self._annotations.pop(span) for span in spans}

    def release(self) -> None:
        """All that was taken is in the trace; the files go once the recorder is over."""
        for file in self._hot.values():
            file.release()
        if self.is_over:
            for path in self.folder.iterdir():  # the folder stays: its number is taken
                path.unlink()


def find_homes(scratch: Path, known: set[Path]) -> Iterator[HomeReader]:
    """Recorders that came up since `known`."""
    for told in sorted(scratch.glob(f"*/{TASK_FILE}")):
        if told.parent not in known:
            yield HomeReader(told.parent)
