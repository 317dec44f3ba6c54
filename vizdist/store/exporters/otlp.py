"""OTLP/JSON lines: one file, or a trace folder with a file a task."""

import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from tracer.model.trace_folder import SPANS, Manifest, manifest_path, spans_path
from vizdist.store.exporters.documents import Document, documents_of
from vizdist.store.gzip_members import packed_member
from vizdist.store.otlp_record import task_of
from vizdist.store.otlp_spans import attributes_of, camel_keys, iterate_spans, objects
from vizdist.store.redaction import AsItIs
from vizdist.store.trace import Trace

FOLDER_SUFFIX = ".trace"
_MEMBER_LINES = 64


def write(trace: Trace, path: Path, redactor: AsItIs) -> int:
    """Returns the number of spans. A path that ends with .trace becomes a folder."""
    documents = map(redactor.document, documents_of(trace))
    if path.suffix == FOLDER_SUFFIX:
        return _write_folder(trace, path, documents, redactor)
    with path.open("wb") as file:
        return _write_lines(file, documents, packed=path.suffix == ".gz")


def _write_lines(file: BinaryIO, documents: Iterable[Document], *, packed: bool) -> int:
    num_spans = 0
    for group in _groups(documents):
        text = b"".join(orjson.dumps(document) + b"\n" for document in group)
        file.write(packed_member(text) if packed else text)
        num_spans += sum(map(_num_spans, group))
    return num_spans


def _groups(documents: Iterable[Document]) -> Iterator[list[Document]]:
    group: list[Document] = []
    for document in documents:
        group.append(document)
        if len(group) == _MEMBER_LINES:
            yield group
            group = []
    if group:
        yield group


def _num_spans(document: Document) -> int:
    return sum(1 for _ in iterate_spans(document))


def _write_folder(
    trace: Trace, folder: Path, documents: Iterable[Document], redactor: AsItIs
) -> int:
    """The columns are left to whoever opens it, who makes an index. A folder is whole or is not."""
    folder.mkdir()
    try:
        written = _write_spans(folder, documents)
        text = _counted(redactor.manifest(trace.manifest), written).to_json()
        manifest_path(folder).write_text(text, encoding="utf-8")
    except BaseException:
        shutil.rmtree(folder)
        raise
    return sum(written.values())


def _write_spans(folder: Path, documents: Iterable[Document]) -> dict[str, int]:
    """The number of spans by task."""
    (folder / SPANS).mkdir()
    written: dict[str, int] = defaultdict(int)
    paths: dict[str, Path] = {}
    for group in _groups(documents):
        for task, own in _by_task(group).items():
            path = paths[task] = paths.get(task) or _free_path(folder, task)
            with path.open("ab") as file:
                written[task] += _write_lines(file, own, packed=True)
    return written


def _free_path(folder: Path, task: str) -> Path:
    """Tasks of different names, whose files would be called the same, share none."""
    attempt = 0
    while (path := spans_path(folder, task, attempt)).exists():
        attempt += 1
    return path


def _by_task(documents: Iterable[Document]) -> dict[str, list[Document]]:
    found: dict[str, list[Document]] = defaultdict(list)
    for document in documents:
        for resource_spans in objects(camel_keys(document).get("resourceSpans")):
            resource = camel_keys(resource_spans.get("resource"))
            task = task_of(resource)
            own = {**resource_spans, "resource": _told_of(resource, task)}
            found[task].append({"resourceSpans": [own]})
    return found


def _told_of(resource: dict[str, Any], task: str) -> dict[str, Any]:
    """Says whose it is: the name of a file in a folder says so only of our own tasks."""
    attributes = resource.get("attributes")
    if "vizdist.task" in attributes_of(attributes):
        return resource
    known = attributes if isinstance(attributes, list) else []
    said = {"key": "vizdist.task", "value": {"stringValue": task}}
    return {**resource, "attributes": [*known, said]}


def _counted(manifest: Manifest, written: dict[str, int]) -> Manifest:
    """Says of the copy what it holds; a copy is over, whatever its original was."""
    lost = manifest.recorded - manifest.written
    total = sum(written.values())
    tasks = [
        replace(task, written=written[task.task]) if task.task in written else task
        for task in manifest.tasks
    ]
    outcome = "interrupted" if manifest.outcome == "running" else manifest.outcome
    return replace(
        manifest, tasks=tasks, outcome=outcome, written=total, recorded=total + max(0, lost)
    )
