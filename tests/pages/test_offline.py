"""One run in one HTML file: what it holds, what it refuses, that nothing in it is markup."""

import base64
import gzip
import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.store.sample_trace import training_step, write_trace
from vizdist.analysis import held_steps
from vizdist.analysis.steps import shown_step
from vizdist.cli import main
from vizdist.routes.assets import assets_folder
from vizdist.store.library import Library
from vizdist.store.trace import open_trace

PAYLOAD = "</script><img src=x onerror=alert(1)>"


def run_of(folder: Path, steps: int = 6, name: str = "", **manifest: object) -> Path:
    spans = [one for n in range(steps) for one in training_step(n + 1, at=n * 1500)]
    if name:
        spans = [one._replace(name=name) for one in spans]
    told = {"workload": "digits-mlp", "steps": steps, **manifest}
    return write_trace(folder / "digits.trace", spans, **told)


def exported(trace: Path, *flags: str) -> str:
    out = trace.parent / "run.html"
    assert main(["export", str(trace), str(out), "--format", "html", *flags]) == 0
    return out.read_text(encoding="utf-8")


def held(text: str, part: str = "held") -> bytes:
    found = re.search(rf'<script type="text/plain" id="{part}">([^<]*)</script>', text)
    assert found is not None
    return gzip.decompress(base64.b64decode(found[1]))


def tile_header(text: str) -> dict[str, int]:
    data = held(text, "tile")
    header: dict[str, int] = json.loads(data[4 : 4 + int.from_bytes(data[:4], "little")])
    return header


def test_the_file_holds_every_span_of_a_short_run_and_both_languages(tmp_path: Path) -> None:
    trace = run_of(tmp_path)
    text = exported(trace)
    assert tile_header(text)["count"] == len(open_trace(trace).all)
    assert '<template lang="en">' in text
    assert "In full: steps 1–6" in text
    assert "第 1–6 步" in text
    assert json.loads(held(text))["step"] in range(1, 7)


def test_chosen_steps_alone_are_held(tmp_path: Path) -> None:
    trace = run_of(tmp_path)
    text = exported(trace, "--steps", "3-4")
    assert tile_header(text)["count"] == 2 * len(training_step(1))
    assert json.loads(held(text))["step"] in (3, 4)


def test_a_file_asks_for_no_other(tmp_path: Path) -> None:
    text = exported(run_of(tmp_path))
    assert not re.findall(r'(?:src|href)="(?!/t/|#)[^"]', text)
    assert set(re.findall(r'url\("?([a-z]+)[:/]', text)) <= {"data"}
    modules = json.loads(re.findall(r'<script type="importmap">(.*?)</script>', text)[0])["imports"]
    for name, url in modules.items():
        source = base64.b64decode(url.partition(",")[2]).decode()
        imported = re.findall(r'(?:from|^import) "([^"]+)"', source, re.MULTILINE)
        assert set(imported) <= set(modules), name
        assert (assets_folder() / name).is_file()


def test_names_are_text(tmp_path: Path) -> None:
    text = exported(run_of(tmp_path, name=PAYLOAD, workload=PAYLOAD, strategy=f"{PAYLOAD} way"))
    assert "<img" not in text
    as_text = "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;"
    assert f">{as_text} way<" in text
    assert f"<b>{as_text} runs" in text


def test_without_names_no_name_is_left(tmp_path: Path) -> None:
    trace = run_of(tmp_path, name="secret/layer")
    text = exported(trace, "--redact")
    everything = text.encode() + held(text) + held(text, "tile")
    for word in (b"secret", b"digits", b"fc1/weight"):
        assert word not in everything


def test_of_a_long_run_the_steps_that_the_summary_names_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_steps, "USUAL_SPANS", 2 * len(training_step(1)))
    trace = run_of(tmp_path, steps=30)
    text = exported(trace)
    assert tile_header(text)["count"] <= held_steps.USUAL_SPANS
    library = Library([trace])
    [entry] = library.entries()
    assert json.loads(held(text))["step"] == shown_step(library.open(entry.id), None)


def with_large_steps(folder: Path, sizes: Mapping[int, int]) -> Path:
    """A run of five steps; those in `sizes` have so many times the spans of the others."""
    spans = []
    for number in range(1, 6):
        for turn in range(sizes.get(number, 1)):
            step = training_step(number, at=number * 1500)
            spans += [one._replace(span=one.span + 10_000 * turn) for one in step]
    return write_trace(folder / "digits.trace", spans, workload="digits-mlp", steps=5)


def test_a_step_that_is_too_large_gives_way_to_smaller_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_steps, "USUAL_SPANS", 3 * len(training_step(1)))
    monkeypatch.setattr(held_steps, "MOST_SPANS", 4 * len(training_step(1)))
    text = exported(with_large_steps(tmp_path, {1: 9, 3: 3}))
    assert "In full: steps 2, 4–5" in text
    assert "第 2、4–5 步" in text


def test_of_one_step_that_is_too_large_a_part_can_be_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(held_steps, "MOST_SPANS", 5)
    trace = run_of(tmp_path)
    for flags in (["--steps", "2"], []):
        assert (
            main(["export", str(trace), str(tmp_path / "x.html"), "--format", "html", *flags]) == 2
        )
        said = capsys.readouterr().err
        assert f"step {flags[-1] if flags else 1} has {len(training_step(1))} spans" in said
        assert "vizdist import --between" in said
        assert "fewer" not in said


@pytest.mark.parametrize(
    ("flags", "hint"),
    [
        (["--steps", "9-3"], "the first step comes first"),
        (["--steps", "all"], "no range of steps such as 3-9"),
        (["--steps", "70-80"], "it holds steps 1 to 6"),
    ],
)
def test_a_wrong_range_of_steps_is_refused_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], hint: str
) -> None:
    out = tmp_path / "run.html"
    assert main(["export", str(run_of(tmp_path)), str(out), "--format", "html", *flags]) == 2
    assert hint in capsys.readouterr().err
    assert not out.exists()


def test_other_formats_have_all_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(run_of(tmp_path)), str(tmp_path / "x.csv"), "--format", "csv",
                 "--steps", "1"]) == 2  # fmt: skip
    assert "--steps belongs to --format html" in capsys.readouterr().err


def test_more_spans_than_a_file_may_hold_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(held_steps, "MOST_SPANS", 5)
    out = tmp_path / "run.html"
    command = ["export", str(run_of(tmp_path)), str(out), "--format", "html", "--steps", "1-6"]
    assert main(command) == 2
    assert "a file may hold 5" in capsys.readouterr().err


def test_a_trace_without_steps_or_graph_is_a_file_too(tmp_path: Path) -> None:
    spans = [one._replace(step=0) for one in training_step(1)]
    trace = write_trace(tmp_path / "plain.trace", spans)
    text = exported(trace)
    assert tile_header(text)["count"] == len(spans)
