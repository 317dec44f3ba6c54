"""What the timeline canvas is told: hues, marks, rows, steps, and how busy a run was."""

import json
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.store.sample_trace import EPOCH, training_step, write_trace
from vizdist.figures.tile_bytes import tile_bytes
from vizdist.figures.timeline import HUES, covered, head, hues_of, strip
from vizdist.store.columns import SpanRecord
from vizdist.store.trace import Trace, open_trace


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    spans = [span for n in (1, 2) for span in training_step(n, at=(n - 1) * 1500)]
    return open_trace(write_trace(tmp_path / "x.trace", spans))


def unpacked(body: bytes) -> dict[str, Any]:
    (length,) = struct.unpack_from("<I", body)
    tile = json.loads(body[4 : 4 + length])
    for column in tile["columns"]:
        at = 4 + length + column["offset"]
        tile[column["name"]] = np.frombuffer(body, column["dtype"], tile["count"], at)
    return dict(tile)


def test_an_op_that_waits_at_a_queue_is_not_at_work(tmp_path: Path) -> None:
    spans = [span._replace(op="QueueDequeueV2") if span.op else span for span in training_step(1)]
    trace = open_trace(write_trace(tmp_path / "queue.trace", spans))
    ops = trace.all.is_kind("op.run")
    assert {HUES[hue] for hue in hues_of(trace.all)[ops]} == {"idle"}


def test_every_span_has_the_hue_of_what_it_does(trace: Trace) -> None:
    names = trace.all.text("name")
    told = {f"{name}": HUES[hue] for name, hue in zip(names, hues_of(trace.all), strict=True)}
    assert told["mm"] == "compute"
    assert told["update_w"] == "update"
    assert told["step 1"] == "frame"
    assert told["RecvTensor"] == "idle"
    kinds = dict(zip(trace.all.text("kind"), hues_of(trace.all), strict=True))
    assert (HUES[kinds["rendezvous.send"]], HUES[kinds["rendezvous.recv"]]) == ("send", "recv")


def test_a_tile_carries_queueing_wait_and_bytes(trace: Trace) -> None:
    tile = unpacked(tile_bytes(trace, trace.tiles(trace.start, trace.end, 1000)))
    spans = enumerate(zip(tile["kind"], tile["name"], strict=True))
    by_name = {(tile["kinds"][kind], tile["names"][name]): i for i, (kind, name) in spans}
    product, value = by_name["op.run", "mm"], by_name["rendezvous.recv", "w"]
    assert tile["queue"][product] == 100
    assert (tile["wait"][value], tile["bytes"][value]) == (50, 256)
    assert tile["ops"][tile["op"][product]] == "MatMul"
    assert tile["stood"][value] == 50


def test_rows_say_between_which_instants_they_hold_spans(trace: Trace) -> None:
    rows = head(trace)["rows"]
    assert [(row["task"], row["label"]) for row in rows][:2] == [
        ("worker:0", "client"),
        ("worker:0", "executor"),
    ]
    executor = next(row for row in rows if row["lane"] == "executor" and row["task"] == "worker:0")
    assert (executor["first"], executor["last"], executor["stepped"]) == (200, 1900, True)


def test_a_lane_names_its_device_only_where_there_are_several(tmp_path: Path) -> None:
    spans = [
        SpanRecord(task, lane, EPOCH, EPOCH + 5, "x", "op.run")
        for task, lane in [("a:0", "executor CPU:0"), ("b:0", "op GPU:0"), ("b:0", "op GPU:1")]
    ]
    rows = head(open_trace(write_trace(tmp_path / "x.trace", spans)))["rows"]
    assert [row["label"] for row in rows] == ["executor", "op GPU:0", "op GPU:1"]


def test_the_strip_is_as_high_as_a_task_was_busy_and_has_the_larger_hue(trace: Trace) -> None:
    shown = strip(trace, 25)  # 100 ns a part
    worker, ps = shown["tasks"]
    assert (shown["from"], shown["to"]) == (0, 2500)
    assert worker["busy"][:5] == [0, 0, 100, 100, 0]
    assert ps["busy"][:9] == [0, 50, 0, 0, 0, 0, 0, 100, 0]
    assert shown["hues"][worker["hue"][2]] == "compute"
    assert shown["hues"][ps["hue"][7]] == "update"
    assert worker["stood"][:6] == [0, 0, 0, 0, 50, 0], "from 450 to 500 the value was awaited"
    assert worker["ready"][:3] == [0, 100, 0], "the product was ready at 100 and began at 200"


def test_a_run_without_spans_of_ops_still_has_a_strip(tmp_path: Path) -> None:
    spans = [SpanRecord("a:0", "client", EPOCH, EPOCH, "x", "session.run")]
    shown = strip(open_trace(write_trace(tmp_path / "x.trace", spans)))
    assert [task["task"] for task in shown["tasks"]] == ["a:0"]


@given(
    some.lists(some.tuples(some.integers(0, 900), some.integers(0, 90)), max_size=12),
    some.lists(some.integers(0, 1000), min_size=2, max_size=6, unique=True),
)
def test_covered_time_equals_counting(spans: list[tuple[int, int]], edges: list[int]) -> None:
    starts = np.array([start for start, _ in spans], np.int64)
    ends = np.array([start + length for start, length in spans], np.int64)
    at = np.array(sorted(edges), np.int64)
    counted = [
        sum(s <= t < e for s, e in zip(starts, ends, strict=True) for t in range(low, high))
        for low, high in pairwise(at.tolist())
    ]
    assert np.diff(covered(starts, ends, at)).tolist() == counted
