"""What leaves: other formats that hold the same, and copies that name nothing of their owner's."""

import csv
import gzip
import json
from pathlib import Path

import pytest

from tests.store.recorded_trace import record_trace
from tests.store.sample_trace import training_step, write_trace
from tracer.model.graph import Graph, Input, Node
from tracer.model.graph_table import chunks_of_graph
from tracer.model.step import trace_of_step
from tracer.model.trace_folder import Manifest
from tracer.record.clock import FakeClock
from tracer.record.manifest import write_manifest
from tracer.record.recorder import Recorder
from tracer.record.sink import Sink
from vizdist.cli import main
from vizdist.store.exporters.csv_table import plain
from vizdist.store.trace import Trace, open_trace

SECRETS = ("Zanzibar", "hush.example", "topsecret", "10.20.30.40", "/home/someone")


@pytest.fixture
def secret_run(tmp_path: Path) -> Path:
    """A run whose host, layers, users' attributes, events and errors all name something secret."""
    folder, scratch = tmp_path / "secret.trace", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    write_manifest(
        folder,
        Manifest(
            "run-Zanzibar", host="hush.example", command=["tracer", "/home/someone/Zanzibar.py"],
            workload="Zanzibar-net", strategy="one_device", outcome="failed", error="topsecret",
        ),
    )  # fmt: skip
    clock = FakeClock(1_700_000_000_000_000_000)
    about = {"host.name": "hush.example", "service.name": "topsecret-service"}
    recorder = Recorder(scratch, "worker:0", about, clock)
    nodes = [
        Node("Zanzibar", "NoOp", reason="first device", source="/home/someone/net.py:3"),
        Node("Zanzibar/weight", "VarHandleOp", reason="colocated, loc:@Zanzibar"),
        Node("Zanzibar/mm", "MatMul", (Input("Zanzibar/weight"),), reason="with Zanzibar/weight"),
    ]
    run, step = trace_of_step("r", "run", 0), trace_of_step("r", "run", 1)
    for chunk in chunks_of_graph("g1", "full", Graph(nodes)):
        with recorder.span("graph.chunk", run, name="full") as span:
            for name, value in chunk.items():
                span.set(name, value)
    with recorder.span("cache.get", run, name="channel") as span:
        span.set("vizdist.cache.key", "10.20.30.40:2222")
    with recorder.span("session.run", step) as root:
        root.set("topsecret.key", "x")
        site = recorder.site(
            "op.run", name="Zanzibar/mm",
            attributes={"vizdist.op": "MatMul", "vizdist.node": "Zanzibar/mm"},
        )  # fmt: skip
        recorder.writer().record(site, root.context, clock.now_ns(), clock.now_ns() + 500)
        with pytest.raises(ValueError, match="hush"), recorder.span("data.next", root.context):
            raise ValueError("no data on hush.example")
    sink = Sink(folder, scratch)
    sink.turn(clock.now_ns(), at_end=True)
    sink.tell()
    sink.close()
    return folder


def all_text(path: Path) -> str:
    """Everything that a file or folder holds, inflated, graph tables too."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    parts = [str([str(file.relative_to(path)) for file in files])]
    for file in files:
        data = file.read_bytes()
        text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        parts.append(text.decode(errors="replace"))
    if path.suffix not in (".csv", ".json"):
        parts.append(repr(open_trace(path).graphs))
    return "\n".join(parts)


def columns(trace: Trace) -> list[tuple[object, ...]]:
    """What the trace says of every span, in the order of their ids."""
    details = [trace.span(int(span)) for span in sorted(trace.all.span.tolist())]
    return [
        (d.id, d.trace_id, d.parent, d.link, d.kind, d.name, d.start, d.end, d.bytes, d.flags,
         d.task, d.lane, d.depth, sorted(d.attributes.items(), key=str), d.status)
        for d in details
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["copy.otlp.jsonl", "copy.otlp.jsonl.gz", "copy.trace"])
def test_an_otlp_copy_says_the_same_of_every_span(tmp_path: Path, name: str) -> None:
    original = record_trace(tmp_path / "run.trace")
    assert main(["export", str(original), str(tmp_path / name)]) == 0
    copy = open_trace(tmp_path / name)
    assert columns(copy) == columns(open_trace(original))
    assert [graph.stages for graph in copy.graphs] == [
        graph.stages for graph in open_trace(original).graphs
    ]


def test_a_copied_folder_has_a_manifest_whose_counts_are_its_own(tmp_path: Path) -> None:
    original = record_trace(tmp_path / "run.trace")
    assert main(["export", str(original), str(tmp_path / "copy.trace")]) == 0
    manifest = open_trace(tmp_path / "copy.trace").manifest
    assert manifest.run_id == "run-1"
    assert manifest.written == len(open_trace(original))
    assert [p.kind for p in open_trace(tmp_path / "copy.trace").problems] == [
        p.kind for p in open_trace(original).problems
    ]


def test_a_foreign_file_leaves_as_otlp_too(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "name": "gemm", "pid": 1, "tid": 2, "ts": 10, "dur": 5, "args": {"m": 64}},
        {"ph": "X", "name": "copy", "pid": 1, "tid": 3, "ts": 12, "dur": 1},
    ]
    (tmp_path / "chrome.json").write_text(json.dumps({"traceEvents": events}))
    out = tmp_path / "copy.jsonl"
    assert main(["export", str(tmp_path / "chrome.json"), str(out)]) == 0
    copy = open_trace(out)
    assert sorted(copy.all.words["name"]) == ["copy", "gemm"]
    assert any(copy.span(int(s)).attributes.get("m") == 64 for s in copy.all.span.tolist())


@pytest.mark.parametrize(
    ("name", "form"),
    [("a.jsonl.gz", "otlp"), ("a.trace", "otlp"), ("a.json", "perfetto"), ("a.csv", "csv")],
)
def test_a_redacted_copy_names_nothing(
    secret_run: Path, tmp_path: Path, name: str, form: str
) -> None:
    assert all(secret in all_text(secret_run) for secret in SECRETS[:4])
    out = tmp_path / name
    assert main(["export", str(secret_run), str(out), "--format", form, "--redact"]) == 0
    said = all_text(out)
    assert not [secret for secret in SECRETS if secret.lower() in said.lower()]
    assert "MatMul" in said


@pytest.mark.parametrize(
    ("name", "form"), [("a.jsonl", "otlp"), ("a.json", "perfetto"), ("a.csv", "csv")]
)
def test_a_foreign_trace_may_have_names_anywhere(tmp_path: Path, name: str, form: str) -> None:
    """Its processes, threads, categories and methods are whatever somebody called them."""
    named = {"ph": "M", "pid": 1, "tid": 2}
    events = [
        {**named, "name": "process_name", "args": {"name": "python /home/someone/Zanzibar.py"}},
        {**named, "name": "thread_name", "args": {"name": "topsecret loader"}},
        {
            "ph": "X", "name": "hush.example fetch", "cat": "topsecret", "pid": 1, "tid": 2,
            "ts": 1, "dur": 2, "args": {
                "rpc.method": "Zanzibar/Get", "vizdist.bytes": ["/home/someone"],
                "vizdist.request_id": "not hex: topsecret",
            },
        },
    ]  # fmt: skip
    (tmp_path / "x.json").write_text(json.dumps({"traceEvents": events}))
    out = tmp_path / name.replace("a.", "copy.")
    assert main(["export", str(tmp_path / "x.json"), str(out), "--format", form, "--redact"]) == 0
    said = all_text(out).lower()
    assert not [secret for secret in (*SECRETS, "loader", "python") if secret.lower() in said]


def test_a_redacted_copy_still_belongs_together(secret_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "shared.trace"
    assert main(["export", str(secret_run), str(out), "--redact"]) == 0
    copy, original = open_trace(out), open_trace(secret_run)
    assert [row[:4] for row in columns(copy)] == [row[:4] for row in columns(original)]
    _, weight, product = copy.graphs[0].stages["full"]
    assert (weight.op, product.op) == ("VarHandleOp", "MatMul")
    assert product.inputs == (weight.name,)
    assert product.reason == f"with {weight.name}"
    (op,) = [d for d in map(copy.span, copy.all.span.tolist()) if d.kind == "op.run"]
    assert op.name == op.attributes["vizdist.node"] == product.name
    assert op.end - op.start == 500
    assert copy.manifest.workload != ""
    assert (copy.manifest.outcome, copy.manifest.error) == ("failed", "redacted")


def test_perfetto_gets_a_process_a_task_and_a_flow_an_arrow(tmp_path: Path) -> None:
    steps = [span for n in range(3) for span in training_step(n + 1, at=n * 1500)]
    trace = open_trace(write_trace(tmp_path / "run.trace", steps))
    out = tmp_path / "run.json"
    assert main(["export", str(trace.path), str(out), "--format", "perfetto"]) == 0
    events = json.loads(out.read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert len(slices) == len(trace)
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == set(trace.tasks)
    begun = {e["id"]: e for e in events if e["ph"] == "s"}
    ended = {e["id"]: e for e in events if e["ph"] == "f"}
    assert begun.keys() == ended.keys()
    assert len(begun) == len(trace.relations.source) > 0
    for flow in (*begun.values(), *ended.values()):
        assert any(
            one["ts"] <= flow["ts"] <= one["ts"] + one["dur"]
            for one in slices
            if (one["pid"], one["tid"]) == (flow["pid"], flow["tid"])
        )


def test_a_table_is_a_line_a_span_and_no_formula(tmp_path: Path) -> None:
    steps = [s._replace(name="=cmd|'/c calc'!A1") for s in training_step(1, at=0)]
    trace = open_trace(write_trace(tmp_path / "run.trace", steps))
    out = tmp_path / "run.csv"
    assert main(["export", str(trace.path), str(out), "--format", "csv"]) == 0
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(trace)
    assert {row["name"] for row in rows} == {"'=cmd|'/c calc'!A1"}
    assert sum(int(row["duration_ns"]) for row in rows) == int(trace.all.duration.sum())


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\tx"])
def test_what_a_spreadsheet_would_compute_is_text(text: str) -> None:
    assert plain(text) == f"'{text}"


def foreign_file(path: Path, *tasks: str) -> Path:
    """A resource a service, each with one span of its own name."""
    resources = [
        {
            "resource": {
                "attributes": [{"key": "service.name", "value": {"stringValue": task}}]
            },
            "scopeSpans": [
                {
                    "scope": {"name": "library", "version": "2"},
                    "spans": [
                        {
                            "traceId": f"{number:032x}", "spanId": f"{number:016x}",
                            "name": f"span {number}",
                            "startTimeUnixNano": str(number * 1_000_000_000),
                            "endTimeUnixNano": str(number * 1_000_000_000 + 500),
                        }
                    ],
                }
            ],
        }
        for number, task in enumerate(tasks, 1)
    ]  # fmt: skip
    path.write_text(json.dumps({"resourceSpans": resources}) + "\n")
    return path


def test_no_name_of_a_task_leads_out_of_the_folder_or_is_lost(tmp_path: Path) -> None:
    tasks = ("a", "../../escaped/evil", "a/b", "a:b", "checkout 17", "..", "", "长" * 300)
    inside = tmp_path / "in" / "side"
    inside.mkdir(parents=True)
    out = inside / "s.trace"
    foreign = foreign_file(tmp_path / "trav.otlp.jsonl", *tasks)
    assert main(["import", str(foreign), "-o", str(out)]) == 0
    assert len(list((out / "spans").iterdir())) == len(tasks)
    assert {path.name for path in tmp_path.iterdir()} == {"in", foreign.name}
    assert [path.name for path in inside.iterdir()] == ["s.trace"]
    assert sorted(open_trace(out).tasks) == sorted(open_trace(foreign).tasks)


@pytest.mark.parametrize(
    ("out", "hint"), [("run.trace", "is there already"), ("no/such/x.csv", "there is no folder")]
)
def test_nothing_is_overwritten(
    tmp_path: Path, out: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    original = record_trace(tmp_path / "run.trace")
    assert main(["export", str(original), str(tmp_path / out)]) == 2
    assert hint in capsys.readouterr().err
