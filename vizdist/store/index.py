"""The index: columns built from span files, kept beside the trace or in the user's cache folder.

An index holds segments, details of spans whose file has no lines, and index.json, which says of
what form and of which files (size, time of change) it is; one that does not fit is built anew.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from tracer.model.trace_folder import COLUMNS_FORMAT, INDEX
from vizdist.store.importing import Sink
from vizdist.store.problems import Problem, TraceError, refusal
from vizdist.store.tree import mend_tree

INDEX_FORMAT = 2  #: raised when importers read something differently
INDEX_FILE = "index.json"

Fill = Callable[[Sink], None]


@dataclass(frozen=True, slots=True)
class Index:
    """A folder with segments, and what was missing or mended when it was made."""

    folder: Path
    problems: tuple[Problem, ...]


def open_index(
    trace: Path, sources: Sequence[Path], fill: Fill, *, options: Mapping[str, Any]
) -> Index:
    """The index of a trace's span files, built by `fill` if there is none that fits.

    Raises TraceError if no span at all could be read.
    """
    wanted = _stamp(sources, options)
    for folder in _places(trace):
        index = _read(folder, wanted)
        if index is not None:
            return index
    return _build(trace, fill, wanted, options)


def _stamp(sources: Sequence[Path], options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "format": [INDEX_FORMAT, COLUMNS_FORMAT],
        "options": {key: options[key] for key in sorted(options)},
        "sources": [
            [path.name, (stat := path.stat()).st_size, stat.st_mtime_ns] for path in sources
        ],
    }


def _places(trace: Path) -> list[Path]:
    """Where an index may lie: inside a folder, else (or if it is read-only) in the cache folder."""
    cache = cache_folder() / f"{trace.name}-{path_id(trace)}"
    return [trace / INDEX, cache] if trace.is_dir() else [cache]


def path_id(path: Path) -> str:
    """What stands for a path in URLs: the same in every process, telling nothing of the path."""
    return hashlib.blake2b(str(path.resolve()).encode(), digest_size=8).hexdigest()


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "vizdist"


def _read(folder: Path, wanted: Mapping[str, Any]) -> Index | None:
    try:
        found = orjson.loads((folder / INDEX_FILE).read_bytes())
        problems = tuple(Problem(**item) for item in found.pop("problems"))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return Index(folder, problems) if found == wanted else None


def _build(trace: Path, fill: Fill, stamp: Mapping[str, Any], options: Mapping[str, Any]) -> Index:
    place, draft = _draft(trace)
    try:
        sink = Sink(draft, **options)
        fill(sink)
        sink.finish()
        if not sink.num_spans:
            detail = "" if sink.problems else "it holds no span"
            raise refusal("nothing", trace.name, detail, sink.problems)
        table = sink.builder.table()
        if sink.is_foreign:
            sink.problems += mend_tree(table)
        sink.say("overlap", table.write(draft), trace.name)
        sink.builder.close()
        text = orjson.dumps({**stamp, "problems": [asdict(item) for item in sink.problems]})
        (draft / INDEX_FILE).write_bytes(text)
        shutil.rmtree(place, ignore_errors=True)
        draft.rename(place)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return Index(place, tuple(sink.problems))


def _draft(trace: Path) -> tuple[Path, Path]:
    """The first place that can be written, and a fresh folder beside it to build in."""
    for place in _places(trace):
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            return place, Path(tempfile.mkdtemp(prefix=".index-", dir=place.parent))
        except OSError:
            continue
    raise TraceError(
        f"no index of {trace.name} can be written: neither the folder nor {cache_folder()} is "
        "writable; set XDG_CACHE_HOME to a folder that is"
    )
