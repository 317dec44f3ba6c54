"""A trace that is too long to look at is looked at in parts, and says so."""

import gzip
import json
from pathlib import Path

import pytest

from tests.store.growing_trace import GrowingRun
from vizdist.cli import main
from vizdist.store.exporters import otlp
from vizdist.store.redaction import AsItIs
from vizdist.store.trace import open_trace


@pytest.fixture
def long_file(tmp_path: Path) -> Path:
    """Ten spans of half a second, one each second, after a late one that stands first."""
    late = {"ph": "X", "name": "late", "pid": 1, "tid": 2, "ts": 5e6 + 100, "dur": 100}
    events = [late] + [
        {"ph": "X", "name": f"op{at}", "pid": 1, "tid": 1, "ts": at * 1e6, "dur": 5e5}
        for at in range(10)
    ]
    path = tmp_path / "long.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def names(path: Path, max_spans: int | None = None) -> list[str]:
    return sorted(open_trace(path, max_spans=max_spans).all.text("name").tolist())


def test_a_stretch_holds_what_touches_it_and_nothing_else(long_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "part.trace"
    assert main(["import", str(long_file), "-o", str(out), "--between", "2.25-5.0002"]) == 0
    assert names(out) == ["late", "op2", "op3", "op4", "op5"]


def test_a_stretch_of_our_own_run_keeps_its_graph(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path / "a.trace")
    run.register("g1")
    for _ in range(40):
        run.step()
    run.end()
    out = tmp_path / "part.trace"
    whole = open_trace(run.folder)
    stretch = "0.0001-0.0002"
    assert main(["import", str(run.folder), "-o", str(out), "--between", stretch]) == 0
    part = open_trace(out)
    assert 0 < len(part.steps) < len(whole.steps) == 40
    assert [graph.id for graph in part.graphs] == [graph.id for graph in whole.graphs] == ["g1"]


@pytest.mark.parametrize("stretch", ["5-2", "x", "60-70", "0-" + 400 * "9"])
def test_a_stretch_that_is_none_is_refused_and_leaves_nothing(
    stretch: str, long_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "part.trace"
    assert main(["import", str(long_file), "-o", str(out), "--between", stretch]) == 2
    assert stretch[:40] in capsys.readouterr().err
    assert not out.exists()


def otlp_span(number: int, start: object, end: object) -> dict[str, object]:
    return {
        "traceId": f"{number:032x}", "spanId": f"{number:016x}", "name": f"span {number}",
        "startTimeUnixNano": start, "endTimeUnixNano": end,
    }  # fmt: skip


def test_a_span_without_a_time_is_in_no_stretch_and_the_others_keep_their_scope(
    tmp_path: Path,
) -> None:
    spans = [otlp_span(n, str(n * 1_000_000_000), str(n * 1_000_000_000 + 5)) for n in (1, 2, 3)]
    spans += [otlp_span(4, "abc", "2000000000"), otlp_span(5, None, None), otlp_span(6, [], {})]
    scope = {"scope": {"name": "library", "version": "2"}, "spans": spans}
    foreign = tmp_path / "foreign.otlp.jsonl"
    line = {"resourceSpans": [{"resource": {}, "scopeSpans": [scope], "schemaUrl": "some/1"}]}
    foreign.write_text(json.dumps(line) + "\n")
    out = tmp_path / "part.trace"
    assert main(["import", str(foreign), "-o", str(out), "--between", "0.5-1.5"]) == 0
    [file] = (out / "spans").iterdir()
    [resource] = json.loads(gzip.decompress(file.read_bytes()))["resourceSpans"]
    [kept] = resource["scopeSpans"]
    assert (resource["schemaUrl"], kept["scope"]) == ("some/1", scope["scope"])
    assert kept["spans"] == [spans[1]]


def test_a_folder_that_cannot_be_written_whole_is_not_there(
    long_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(otlp, "packed_member", full)
    out = tmp_path / "part.trace"
    with pytest.raises(OSError, match="no space"):
        otlp.write(open_trace(long_file), out, AsItIs())
    assert not out.exists()


def test_of_too_many_spans_the_first_are_shown_and_the_way_to_the_others(long_file: Path) -> None:
    trace = open_trace(long_file, max_spans=4)
    assert len(trace) == 4
    said = [one for one in trace.problems if one.kind == "many"]
    assert "more than 4 spans" in said[0].text
    assert "vizdist import long.json -o part.trace --between" in said[0].text
    assert len(open_trace(long_file, max_spans=11)) == 11
    assert names(long_file, 11) == names(long_file)
