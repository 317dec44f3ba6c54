"""The segments of one trace that are mapped: what is still there when it grew is not read again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracer.model.trace_folder import SEGMENT_SUFFIX
from vizdist.store.problems import Problem, TraceError
from vizdist.store.segments import Segment, read_segment
from vizdist.store.tail import LinesFile, Mark, Tail

_MERGES = 3  #: a collector merges at most once in half a second

_Key = tuple[Path, int, int]  #: path, time of change, size: a segment is never written twice


@dataclass(frozen=True, slots=True)
class Base:
    """What the index of files of span lines held when they were read as a whole."""

    lines: Sequence[LinesFile]
    marks: Sequence[Mark]
    segments: list[Segment]
    problems: Sequence[Problem]


class Shelf:
    """Keeps what was read last; a segment that was merged into another is let go.

    Of span files it keeps what was read of them as a whole, `base`, and what came after, `tail`.
    """

    def __init__(self) -> None:
        self._known: dict[_Key, Segment] = {}
        self.base: Base | None = None
        self.tail: Tail | None = None

    def read(self, paths: Iterable[Path]) -> list[Segment]:
        """Raises TraceError if one is none, or gone."""
        found: dict[_Key, Segment] = {}
        for path in sorted(paths):
            key = _key(path)
            found[key] = self._known[key] if key in self._known else read_segment(path)
        self._known = found
        return [segment for segment in found.values() if len(segment)]

    def read_live(self, folder: Path) -> list[Segment]:
        """All spans of a folder that a collector may be merging, each once.

        Looks again where it merged between looking and reading. Raises TraceError if a segment is
        damaged or lost.
        """
        for _ in range(_MERGES):
            paths = _widest(folder)
            try:
                _check_gaps(paths)
                return self.read(paths)
            except TraceError:
                if paths == _widest(folder):
                    raise
        return self.read(_widest(folder))


def _key(path: Path) -> _Key:
    try:
        stat = path.stat()
    except OSError as error:
        raise TraceError(f"{path.name} is gone: {error.strerror}") from None
    return path, stat.st_mtime_ns, stat.st_size


def _widest(folder: Path) -> list[Path]:
    """The segments `FIRST-LAST.arrow` of a folder, without the parts of those that were merged."""
    kept: list[Path] = []
    last_kept = -1
    for path in sorted(folder.glob(f"*{SEGMENT_SUFFIX}"), key=_widest_first):
        last = _extent(path)[1]
        if last > last_kept or not path.stem.partition("-")[1]:
            kept.append(path)
            last_kept = max(last, last_kept)
    return kept


def _widest_first(path: Path) -> tuple[int, int]:
    first, last = _extent(path)
    return first, -last


def _extent(path: Path) -> tuple[int, int]:
    """(first, last) flush of a segment."""
    first, _, last = path.stem.partition("-")
    return (int(first), int(last or first)) if first.isdigit() else (0, 0)


def _check_gaps(paths: Iterable[Path]) -> None:
    """Flushes are counted from 0, so a list that was taken amid a merge shows."""
    wanted = 0
    for path in paths:
        first, last = _extent(path)
        if first > wanted and "-" in path.stem:
            raise TraceError(f"the segments before {path.name} are gone")
        wanted = max(wanted, last + 1)
