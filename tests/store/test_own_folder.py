"""Our own folder: live columns and columns rebuilt from the span files tell the same."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.store.recorded_trace import record_trace
from tracer.model.trace_folder import COLUMN_LIST, COLUMNS, INDEX, SPANS, Manifest
from tracer.record.manifest import write_manifest
from vizdist.store import details
from vizdist.store.problems import TraceError
from vizdist.store.trace import Trace, open_trace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return record_trace(tmp_path / "run.trace")


def table(trace: Trace) -> list[tuple[object, ...]]:
    """Every column of every span, spelled out, rows by what they are, in order of span id."""
    spans = trace.all
    order = np.argsort(spans.span)
    columns = [
        (spans.text(column.name) if column.type == "text" else spans.columns[column.name])[order]
        for column in COLUMN_LIST
        if column.name != "row"
    ]
    rows = [spans.rows[row] for row in spans.row[order]]
    return list(zip(rows, *(column.tolist() for column in columns), strict=True))


def test_one_trace_sent_both_ways_gives_equal_tables(folder: Path) -> None:
    live = open_trace(folder)
    assert not (folder / INDEX).exists()
    shutil.rmtree(folder / COLUMNS)
    indexed = open_trace(folder)
    assert (folder / INDEX).is_dir()
    assert len(live) > 20
    assert table(indexed) == table(live)
    assert [row.task for row in indexed.rows] == [row.task for row in live.rows]


def test_a_few_spans_are_cut_out_of_their_lines_as_whole_lines_hold_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = open_trace(folder)
    monkeypatch.setattr(details, "FEW", 0)
    whole = trace.attributes(range(len(trace)))
    monkeypatch.undo()
    monkeypatch.setattr(details, "orjson", None)  # by which whole lines are read
    assert {place: trace.attributes([place])[place] for place in whole} == whole
    assert len(whole) == len(trace)


def test_a_link_is_not_taken_for_the_span_that_it_leads_to() -> None:
    trace, one, other = "7" * 32, "0" * 15 + "1", "0" * 15 + "2"
    link = f'{{"traceId":"{trace}","spanId":"{other}","attributes":[]}}'
    begins = f'"startTimeUnixNano":"1","links":[{link}]}}'
    spans = f'{{"traceId":"{trace}","spanId":"{one}",{begins},{link[:-1]},{begins}'
    line = f'{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{spans}]}}]}}]}}'
    assert (details._cut_out(line, 2) or {})["links"] == [json.loads(link)]
    assert details._cut_out(line, 3) is None


def test_an_index_is_made_once_and_again_when_its_files_change(folder: Path) -> None:
    shutil.rmtree(folder / COLUMNS)
    open_trace(folder)
    made = (folder / INDEX / "index.json").stat().st_mtime_ns
    open_trace(folder)
    assert (folder / INDEX / "index.json").stat().st_mtime_ns == made
    [file] = (folder / SPANS).glob("ps*")
    file.write_bytes(file.read_bytes() + b"\x1f\x8b torn")
    torn = open_trace(folder)
    assert [(p.kind, p.count) for p in torn.problems] == [("damaged", 7)]


def test_a_read_only_folder_gets_its_index_in_the_cache(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.rmtree(folder / COLUMNS)
    before = sorted(folder.iterdir())
    make = "vizdist.store.index.tempfile.mkdtemp"
    real = __import__("tempfile").mkdtemp

    def read_only(prefix: str, dir: Path) -> str:  # noqa: A002 (the name tempfile uses)
        if dir == folder:
            raise PermissionError("read-only file system")
        return str(real(prefix=prefix, dir=dir))

    monkeypatch.setattr(make, read_only)
    assert len(open_trace(folder)) > 20
    assert sorted(folder.iterdir()) == before
    assert list((tmp_path / "cache" / "vizdist").glob("run.trace-*/index.json"))


def test_a_span_brings_its_attributes_from_its_file(folder: Path) -> None:
    trace = open_trace(folder)
    [place, *_] = np.flatnonzero(trace.all.is_kind("data.next"))
    detail = trace.span(int(trace.all.span[place]))
    assert detail.attributes["vizdist.batch"] == 64
    assert "no more examples" in detail.status
    assert detail.flags == ("error",)
    assert not detail.attributes_missing
    shutil.rmtree(folder / SPANS)
    assert trace.span(int(trace.all.span[place])).attributes_missing


def test_a_step_knows_its_graph(folder: Path) -> None:
    trace = open_trace(folder)
    graph = trace.graph(2)
    assert graph is not None
    assert (graph.id, list(graph.stages), graph.task) == ("g1", ["full", "worker"], "worker:0")
    assert [node.name for node in graph.stages["full"]] == ["w", "mm"]
    assert graph.stages["worker"][0].partition == "/job:ps/replica:0/task:0"


def test_a_graph_whose_piece_is_lost_says_so(folder: Path) -> None:
    shutil.rmtree(folder / COLUMNS)
    shutil.rmtree(folder / INDEX, ignore_errors=True)
    trace = open_trace(folder)
    shutil.rmtree(folder / SPANS)
    graph = trace.graph()
    assert graph is not None
    assert not graph.stages
    assert graph.problems[0].kind == "graph"


def test_unfinished_spans_are_there_and_marked(folder: Path) -> None:
    trace = open_trace(folder)
    assert trace.flag_counts["unfinished"] == 1
    tiles = trace.tiles(trace.start, trace.end + 1, 16)
    assert tiles.spans.flags.tolist().count(2) == 1


def test_a_lost_span_file_is_said(folder: Path) -> None:
    next((folder / SPANS).glob("ps*")).unlink()
    assert ("missing-task", "ps:0") in {(p.kind, p.where) for p in open_trace(folder).problems}


def test_a_run_that_recorded_nothing_yet_is_an_empty_trace(tmp_path: Path) -> None:
    write_manifest(tmp_path, Manifest("run-1"))
    trace = open_trace(tmp_path)
    assert (len(trace), trace.rows, trace.steps, trace.graphs) == (0, (), (), ())
    assert trace.graph() is None
    assert len(trace.tiles(0, 1, 16).spans) == 0
    assert trace.arrows(0, 1).total == 0


def test_a_folder_without_spans_is_no_trace(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="neither manifest"):
        open_trace(tmp_path)


def test_damaged_columns_are_replaced_by_the_span_files(folder: Path) -> None:
    whole = table(open_trace(folder))
    [segment] = (folder / COLUMNS).glob("*.arrow")
    segment.write_bytes(segment.read_bytes()[:-40])
    mended = open_trace(folder)
    assert table(mended) == whole
    assert [problem.kind for problem in mended.problems] == ["segment"]
