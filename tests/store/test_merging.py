"""A run of several hosts wrote a folder each; together they are one trace."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.store.recorded_trace import record_trace
from tracer.model.trace_folder import Manifest, TaskRecord, manifest_path
from vizdist.cli import main
from vizdist.store.trace import open_trace


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return record_trace(tmp_path / "whole.trace")


def host(whole: Path, name: str, task: str, **says: Any) -> Path:
    """The part of a run that one host has: the spans of one task."""
    folder = whole.parent / name / "part.trace"
    shutil.copytree(whole, folder)
    for path in (folder / "spans").iterdir():
        if not path.name.startswith(task.replace(":", "-")):
            path.unlink()
    for path in (folder / "columns").iterdir():
        path.unlink()
    manifest = Manifest.from_json(manifest_path(folder).read_text(encoding="utf-8"))
    own = [one for one in manifest.tasks if one.task == task]
    written = sum(one.written for one in own)
    tasks = [*own, TaskRecord("collector", 7, outcome="done")]
    told: dict[str, Any] = {"tasks": tasks, "written": written, "recorded": written} | says
    manifest_path(folder).write_text(replace(manifest, **told).to_json(), encoding="utf-8")
    return folder


def test_the_parts_of_a_run_become_one_trace(whole: Path, tmp_path: Path) -> None:
    original = open_trace(whole)
    parts = [
        host(whole, name, task, host=name, **ended)
        for name, task, ended in (
            ("alpha", "worker:0", {"outcome": "failed", "error": "worker:0 failed"}),
            ("beta", "ps:0", {}),
        )
    ]
    out = tmp_path / "run.trace"
    assert main(["import", *map(str, parts), "-o", str(out)]) == 0
    merged = open_trace(out)
    assert sorted(merged.all.span.tolist()) == sorted(original.all.span.tolist())
    assert set(merged.tasks) == set(original.tasks)
    assert len(merged.relations.source) == len(original.relations.source)
    assert (merged.manifest.outcome, merged.manifest.error) == ("failed", "worker:0 failed")
    assert merged.manifest.host == "alpha, beta"
    assert merged.manifest.written == len(original)
    names = [task.task for task in merged.manifest.tasks]
    assert names == ["worker:0", "collector", "ps:0", "collector (2)"]
    assert list(merged.manifest.clocks) == ["alpha", "beta"]


def test_two_lives_of_a_task_both_stay(whole: Path, tmp_path: Path) -> None:
    parts = [host(whole, name, "ps:0") for name in ("a", "b")]
    out = tmp_path / "run.trace"
    assert main(["import", *map(str, parts), "-o", str(out)]) == 0
    names = sorted(path.name for path in (out / "spans").iterdir())
    assert names == ["ps-0.0.otlp.jsonl.gz", "ps-0.1.otlp.jsonl.gz"]


def test_a_folder_given_twice_would_double_its_spans(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = host(whole, "a", "ps:0")
    (tmp_path / "again.trace").symlink_to(part)
    out = tmp_path / "run.trace"
    assert main(["import", str(part), str(tmp_path / "again.trace"), "-o", str(out)]) == 2
    assert "again.trace is given twice" in capsys.readouterr().err
    assert not out.exists()


def test_folders_of_two_runs_are_not_mixed(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [host(whole, name, "ps:0", run_id=name) for name in ("run-a", "run-b")]
    out = tmp_path / "run.trace"
    assert main(["import", *map(str, parts), "-o", str(out)]) == 2
    assert "only folders of one run can be merged" in capsys.readouterr().err
    assert not out.exists()


def test_a_foreign_file_becomes_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text('{"traceEvents":[{"ph":"X","name":"gemm","pid":1,"tid":2,"ts":7,"dur":5}]}')
    out = tmp_path / "x.trace"
    assert main(["import", str(file), "-o", str(out), "--time-unit", "ms"]) == 0
    trace = open_trace(out)
    assert trace.all.duration.tolist() == [5_000_000]
    assert trace.is_foreign


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["nothing.json", "-o", "a.trace"], "there is no file or folder"),
        (["x.json", "-o", "a.zip"], "is called NAME.trace"),
        (["x.json", "x.json", "-o", "a.trace"], "is no trace folder"),
    ],
)
def test_a_wrong_request_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    hint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.json").write_text("{}")
    assert main(["import", *arguments]) == 2
    assert hint in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]
