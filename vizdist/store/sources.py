"""From a path to segments: our own folder as it is, everything else through an index."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from tracer.model.trace_folder import COLUMNS, MANIFEST, SEGMENT_SUFFIX, Manifest, manifest_path
from vizdist.store.problems import Problem, TraceError
from vizdist.store.segments import Segment, read_segments


class OpenOptions(TypedDict, total=False):
    """What a user may say about a foreign file."""

    time_unit: str  #: unit of Chrome timestamps: us (default), ns, ms, s
    limit: int  #: bytes a compressed file may inflate to


@dataclass(frozen=True, slots=True)
class Source:
    """What was found at a path. `details_folder` is what the column `file` is relative to."""

    segments: Sequence[Segment]
    manifest: Manifest
    problems: Sequence[Problem]
    details_folder: Path


def load_source(path: Path, **options: object) -> Source:
    if not path.exists():
        raise TraceError(f"there is no file or folder {path}")
    manifest = _read_manifest(path)
    segments = read_segments((path / COLUMNS).glob(f"*{SEGMENT_SUFFIX}"))
    return Source(segments, manifest, (), path)


def _read_manifest(path: Path) -> Manifest:
    file = manifest_path(path)
    if not file.is_file():
        raise TraceError(f"{path} holds no {MANIFEST}")
    try:
        return Manifest.from_json(file.read_text(encoding="utf-8"))
    except (ValueError, TypeError) as error:
        raise TraceError(f"{MANIFEST} in {path.name} cannot be read: {error}") from None
