"""Files of others open: what could be read is shown, what could not is said."""

import gzip
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from tracer.model.trace_folder import Flag
from vizdist.store.problems import TraceError
from vizdist.store.trace import Trace, open_trace

GOLDEN = Path(__file__).parent.parent / "golden" / "imports"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def opened(name: str) -> Trace:
    return open_trace(GOLDEN / name)


def counts(trace: Trace) -> dict[str, int]:
    return {problem.kind: problem.count for problem in trace.problems}


def names(trace: Trace) -> list[str]:
    return list(trace.all.text("name"))


def test_a_windows_path_keeps_its_backslashes() -> None:  # I01
    trace = opened("I01/win_path.json")
    assert names(trace) == [r"C:\Users\x\train.py(3): run", "ok"]
    assert counts(trace) == {"escapes": 1}


@pytest.mark.parametrize(
    ("name", "shown", "problem"),
    [
        ("I02/ctrl_chars.json", "cfg���", {"control": 1}),
        ("I02/bad_utf8.json", "cfg ���", {"utf8": 3}),
    ],
)
def test_broken_letters_are_shown_as_such(name: str, shown: str, problem: dict[str, int]) -> None:
    trace = opened(name)
    assert names(trace) == [shown]
    assert counts(trace) == problem


def test_bare_words_are_not_available() -> None:  # I03
    bandwidth = opened("I03/inf_bandwidth.json")
    attributes = bandwidth.span(1).attributes
    assert attributes == {"bytes": 200, "memory bandwidth (GB/s)": None}
    assert counts(bandwidth) == {"token": 1}
    token = opened("I03/na_token.json")
    assert token.span(1).attributes == {"occupancy": None, "x": None, "y": "N/A"}
    assert counts(token) == {"token": 2}


@pytest.mark.parametrize(
    ("name", "num_spans", "kinds"),
    [
        ("perfetto_incomplete_array.json", 1, {"cut"}),
        ("I04/cut60.json", 120, {"cut"}),
        ("I04/cut60.json.gz", 119, {"cut", "torn"}),
        ("I04/cut_in_gz_payload.json.gz", 199, {"cut"}),
    ],
)
def test_a_cut_file_gives_its_whole_events(name: str, num_spans: int, kinds: set[str]) -> None:
    trace = opened(name)
    assert abs(len(trace) - num_spans) <= 12
    assert set(counts(trace)) == kinds
    [cut] = [problem for problem in trace.problems if problem.kind == "cut"]
    assert cut.count == len(trace)
    assert f"{trace.end / 1e9:.6f} s" in cut.text


def test_an_empty_file_is_called_empty() -> None:  # I04
    with pytest.raises(TraceError, match=r"empty\.json is empty"):
        opened("I04/empty.json")


@pytest.mark.parametrize("unit", ["us", "ns", "ms", "s"])
def test_times_are_microseconds_unless_the_user_says_otherwise(unit: str) -> None:  # I05
    path = GOLDEN / f"I05/{unit}.json"
    assert sorted(open_trace(path, time_unit=unit).all.duration) == [100_000, 300_000, 1_000_000]
    questioned = open_trace(path)
    assert Counter(problem.kind for problem in questioned.problems)["time-unit"] == (unit != "us")


def test_an_unknown_time_unit_is_refused() -> None:
    with pytest.raises(TraceError, match="allowed are ns, us, ms, s"):
        open_trace(GOLDEN / "I05/us.json", time_unit="min")


def test_times_are_exact(tmp_path: Path) -> None:  # I06
    events = '{"ph":"X","name":"%s","ts":%s,"dur":%s,"pid":1,"tid":1}'
    path = tmp_path / "t.json"
    path.write_text(
        "["
        + events % ("a", "1712195495519689.047", "0.953")
        + ","
        + events % ("b", "1712195495519690.000", "2")
        + "]"
    )
    trace = open_trace(path)
    assert trace.all.start.tolist() == [1712195495519689047, 1712195495519690000]
    assert trace.all.end.tolist() == [1712195495519690000, 1712195495519692000]
    assert not trace.problems


def test_every_event_is_a_span_or_counted() -> None:  # I08
    trace = opened("xprof_catapult_mixed_phases.json")
    events = json.loads((GOLDEN / "xprof_catapult_mixed_phases.json").read_text())["traceEvents"]
    phases = Counter(event.get("ph") for event in events)
    skipped = counts(trace)["skipped"]
    assert len(trace) + skipped == sum(phases.values()) - phases["E"] - phases["M"]
    unfinished = opened("perfetto_extreme_vals.json")
    assert unfinished.flag_counts["unfinished"] == 1


def test_overlapping_spans_keep_their_ends_and_get_rows() -> None:  # I09
    trace = opened("perfetto_overlap_complete.json")
    assert counts(trace)["overlap"] == 1
    for row in range(len(trace.rows)):
        own = trace.all.take(trace.all.row == row)
        assert (own.start[1:] >= own.end[:-1]).all()


def test_a_file_without_a_span_says_what_it_holds() -> None:  # I08
    with pytest.raises(TraceError, match="1 × phase XXX"):
        opened("perfetto_string_pid_tid.json")


def test_an_orphan_stands_at_the_root_and_is_marked() -> None:  # I14
    trace = opened("I14/zero_parent.json")
    assert counts(trace) == {"orphan": 1}
    flagged = trace.all.take((trace.all.flags & Flag.ORPHAN) != 0)
    assert list(flagged.text("name")) == ["orphan"]
    assert counts(opened("I14/trace_id_64_vs_128.json")) == {}
    assert counts(opened("otlp_proto_example_trace.json")) == {"orphan": 1}


def test_circles_are_cut_and_marked() -> None:  # I15
    trace = opened("I15/cycles.json")
    assert len(trace) == 11
    assert counts(trace)["cycle"] == 1 + 2 + 5
    parents = {int(s): int(p) for s, p in zip(trace.all.span, trace.all.parent, strict=True)}
    for start in trace.all.span.tolist():
        climbed, span = 0, start
        while span := parents[span]:
            climbed += 1
            assert climbed < 11
    assert trace.flag_counts["cycle"] == 8


@pytest.mark.parametrize("name", ["base64", "int_as_number", "snake_case"])
def test_dialects_give_the_same_span(name: str) -> None:  # I16
    one, other = opened("I16/hex.json"), opened(f"I16/{name}.json")
    for column in ("span", "trace_hi", "trace_lo", "start", "end"):
        assert one.all.columns[column].tolist() == other.all.columns[column].tolist()
    assert names(one) == names(other) == ["twin"]
    attributes = other.span(5).attributes
    assert attributes == ({} if name == "snake_case" else {"n": 7})


@pytest.mark.parametrize("is_prefixed", [True, False])
def test_protobuf_gives_the_same_span(tmp_path: Path, is_prefixed: bool) -> None:  # I16
    message = TracesData()
    span = message.resource_spans.add().scope_spans.add().spans.add()
    twin = opened("I16/hex.json").all
    span.span_id = int(twin.span[0]).to_bytes(8, "big")
    span.trace_id = (int(twin.trace_hi[0]) << 64 | int(twin.trace_lo[0])).to_bytes(16, "big")
    span.name = "twin"
    span.start_time_unix_nano, span.end_time_unix_nano = int(twin.start[0]), int(twin.end[0])
    span.attributes.add(key="n").value.int_value = 7
    data = message.SerializeToString()
    path = tmp_path / "x.pb"
    path.write_bytes(len(data).to_bytes(4, "big") + data if is_prefixed else data)
    trace = open_trace(path)
    for column in ("span", "trace_hi", "trace_lo", "start", "end"):
        assert trace.all.columns[column].tolist() == twin.columns[column].tolist()
    assert (names(trace), trace.span(5).attributes) == (["twin"], {"n": 7})


def test_a_document_a_line_is_read(tmp_path: Path) -> None:  # I16
    assert len(opened("jaegerui_otlp_multi.jsonl")) == 4
    packed = tmp_path / "x.jsonl.gz"
    packed.write_bytes(gzip.compress((GOLDEN / "jaegerui_otlp_multi.jsonl").read_bytes()))
    assert len(open_trace(packed)) == 4


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(TraceError, match="known are OTLP"):
        opened("jaeger_ui_trace_01.json")


@pytest.mark.parametrize("name", ["chinese_names", "utf8_bom", "utf16"])
def test_any_unicode_encoding_is_read(name: str) -> None:  # I25
    trace = opened(f"I25/{name}.json")
    assert names(trace) == ["前向传播", "梯度汇总"]
    assert trace.span(2).attributes["user"] == "张伟"


def test_script_in_names_stays_text(tmp_path: Path) -> None:  # D01
    shutil.copy(GOLDEN / "D01/xss.json", tmp_path / "<b>name<b>.json")
    trace = open_trace(tmp_path / "<b>name<b>.json")
    assert names(trace)[0].startswith("<img src=x onerror=")
    assert trace.rows[0].task.startswith("<img")
    assert "<" not in trace.id
    assert trace.span(1).attributes["csv"].startswith("=HYPERLINK")


@pytest.mark.parametrize(
    ("name", "num_spans"),
    [
        ("hta_cpu_only_gloo_rank34of300.json.gz", 16),
        ("hta_cuda_event_sync_multi_stream.json.gz", 57),
    ],
)
def test_profiles_of_torch_open(name: str, num_spans: int) -> None:
    trace = opened(name)
    assert len(trace) == num_spans
    assert trace.end > trace.start
