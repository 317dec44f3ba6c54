"""Several trace folders of one run, a host each, become one folder."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tracer.model.trace_folder import (
    LOGS,
    SPANS,
    SPANS_SUFFIX,
    Manifest,
    TaskRecord,
    manifest_path,
)
from vizdist.store.problems import TraceError
from vizdist.store.sources import is_trace_folder, span_files

#: how much an outcome has to say, the worst last
_OUTCOMES: Final = ("done", "running", "interrupted", "failed")


def merge_folders(folders: Sequence[Path], out: Path) -> Manifest:
    """Copies spans and logs to `out` and says of them what the folders say together.

    Columns are left to whoever opens it. Raises TraceError if the folders are not of one run.
    """
    manifests = [_manifest_of(folder) for folder in folders]
    _check_distinct(folders)
    first = manifests[0]
    for folder, manifest in zip(folders, manifests, strict=True):
        if manifest.run_id != first.run_id:
            raise TraceError(
                f"{folder} is of run {manifest.run_id}, {folders[0]} of run {first.run_id}: only "
                "folders of one run can be merged. Open them side by side instead: vizdist serve"
            )
    (out / SPANS).mkdir(parents=True)
    for folder in folders:
        for path in span_files(folder):
            shutil.copyfile(path, _free(out / SPANS, path.name, SPANS_SUFFIX))
        for path in sorted((folder / LOGS).glob("*.log")):
            (out / LOGS).mkdir(exist_ok=True)
            shutil.copyfile(path, _free(out / LOGS, path.name, ".log"))
    merged = _merged(manifests)
    manifest_path(out).write_text(merged.to_json(), encoding="utf-8")
    return merged


def _check_distinct(folders: Sequence[Path]) -> None:
    seen: set[Path] = set()
    for folder in folders:
        if folder.resolve() in seen:
            raise TraceError(
                f"{folder} is given twice: each of its spans would be there twice. Name every "
                "folder once"
            )
        seen.add(folder.resolve())


def _manifest_of(folder: Path) -> Manifest:
    if not is_trace_folder(folder):
        raise TraceError(f"{folder} is no trace folder; only those are merged, one file at a time")
    try:
        return Manifest.from_json(manifest_path(folder).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError) as error:
        raise TraceError(
            f"{manifest_path(folder)} does not say of which run it is: {error}"
        ) from None


def _free(folder: Path, name: str, suffix: str) -> Path:
    """`worker-0.0` becomes `worker-0.1` where the name is taken: nobody's spans are replaced."""
    stem, dot, attempt = name.removesuffix(suffix).rpartition(".")
    if not dot or not attempt.isdigit():
        stem, attempt = name.removesuffix(suffix), ""
    path, number = folder / name, int(attempt or 0)
    while path.exists():
        number += 1
        path = folder / f"{stem}.{number}{suffix}"
    return path


def _merged(manifests: Sequence[Manifest]) -> Manifest:
    """The first folder's, with the others' tasks, times and counts."""
    tasks: dict[str, TaskRecord] = {}
    for manifest in manifests:
        for task in manifest.tasks:
            name, number = task.task, 1
            while name in tasks:  # each host has a collector and may have a launcher
                number += 1
                name = f"{task.task} ({number})"
            tasks[name] = replace(task, task=name)
    clocks: dict[str, dict[str, int]] = {}
    for number, manifest in enumerate(manifests, 1):
        clocks |= manifest.clocks or {manifest.host or f"host {number}": {}}
    worst = max(manifests, key=lambda manifest: _rank(manifest.outcome))
    return replace(
        manifests[0],
        tasks=list(tasks.values()),
        host=", ".join(dict.fromkeys(manifest.host for manifest in manifests if manifest.host)),
        started_ns=min(manifest.started_ns for manifest in manifests),
        ended_ns=max(manifest.ended_ns for manifest in manifests),
        steps=max(manifest.steps for manifest in manifests),
        outcome=worst.outcome,
        error=worst.error,
        recorded=sum(manifest.recorded for manifest in manifests),
        written=sum(manifest.written for manifest in manifests),
        unrecorded_steps=sum(manifest.unrecorded_steps for manifest in manifests),
        clocks=clocks,
    )


def _rank(outcome: str) -> int:
    return _OUTCOMES.index(outcome) if outcome in _OUTCOMES else len(_OUTCOMES)
