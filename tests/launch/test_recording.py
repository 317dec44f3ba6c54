"""What a run records, where its spans go too, and what `OTEL_*` says, on real processes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.launch.commands import manifest, tracer, tracer_here
from tests.record.receivers import Receiver, grpc_receiver, http_receiver
from tests.record.written_trace import as_proto, lines_of, value
from tracer.cli import main
from tracer.launch.recording import RecordingError, bytes_from
from tracer.model.schema import kinds_beyond
from tracer.model.trace_folder import SPANS
from tracer.record.room import folder_bytes

pytestmark = pytest.mark.cluster

ONE_DEVICE = ("digits-mlp", "--strategy", "one_device")
PARAMETER_SERVER = ("digits-mlp", "--strategy", "parameter_server_v1", "--workers", "2")


def run(out: Path, *arguments: str, cwd: Path | None = None) -> tuple[dict[str, Any], str]:
    """What a run printed to stdout and to stderr."""
    done = tracer("run", *arguments, "--json", "--out", str(out), cwd=cwd)
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed, done.stderr


def spans_of(trace: Path) -> Iterator[Span]:
    for path in sorted((trace / SPANS).iterdir()):
        for _, _, document in lines_of(path):
            for scope in as_proto(document).resource_spans[0].scope_spans:
                yield from scope.spans


def kind_of(span: Span) -> str:
    return str(value(span.attributes[0].value))


def steps_of(trace: Path, task: str) -> set[int]:
    """Numbers of the steps of which a task recorded an op."""
    path = trace / SPANS / f"{task.replace(':', '-')}.0.otlp.jsonl.gz"
    return {
        int(item.value.int_value)
        for _, _, document in lines_of(path)
        for span in as_proto(document).resource_spans[0].scope_spans[0].spans
        for item in span.attributes
        if item.key == "vizdist.step.number"
    }


def by_id(spans: Iterator[Span] | list[Span]) -> dict[bytes, bytes]:
    return {span.span_id: span.SerializeToString(deterministic=True) for span in spans}


@pytest.mark.parametrize(
    "receiving",
    [
        pytest.param(http_receiver, id="http"),
        pytest.param(grpc_receiver, id="grpc", marks=pytest.mark.slow),
    ],
)
def test_a_receiver_gets_every_span_of_every_task_as_the_file_has_it(
    tmp_path: Path, receiving: Any
) -> None:
    with receiving() as receiver:
        where = ("--endpoint", receiver.url)
        printed, said = run(tmp_path / "t", *PARAMETER_SERVER, "--steps", "10", *where)
    in_file = by_id(spans_of(tmp_path / "t"))
    assert by_id(receiver.spans) == in_file
    counts = printed["spans"]
    assert counts["recorded"] == counts["written"] == counts["exported"] == len(in_file) > 1000
    assert counts["not_exported"] == 0
    export = manifest(tmp_path / "t")["export"]
    assert (export["exported"], export["error"]) == (len(in_file), "")
    assert export["endpoint"].startswith(receiver.url)
    assert "did not reach" not in said
    assert tasks_of(receiver) == {"launcher", "ps:0", "worker:0", "worker:1"}


def tasks_of(receiver: Receiver) -> set[str]:
    return {
        item.value.string_value
        for one in receiver.taken
        for item in one.resource.attributes
        if item.key == "vizdist.task"
    }


@pytest.mark.slow
def test_a_receiver_that_is_not_there_fails_no_run_and_is_told_of(tmp_path: Path) -> None:
    with http_receiver() as receiver:
        pass
    where = ("--endpoint", receiver.url, "--flush-timeout", "0.2")
    printed, said = run(tmp_path / "t", *ONE_DEVICE, "--steps", "5", *where)
    counts = printed["spans"]
    assert counts["recorded"] == counts["written"] == counts["not_exported"] > 0
    assert counts["exported"] == 0
    assert f"waiting for {receiver.url}/v1/traces to take the rest" in said
    assert f"{counts['written']} spans did not reach {receiver.url}" in said
    assert manifest(tmp_path / "t")["export"]["not_exported"] == counts["written"]


@pytest.mark.slow
def test_the_environment_names_receiver_service_and_attributes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with http_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=blue")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "digits")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=lab")
        printed, _ = run(tmp_path / "t", *ONE_DEVICE, "--steps", "3", "--in-process")
    assert printed["spans"]["exported"] == printed["spans"]["written"]
    assert {headers["x-team"] for headers in receiver.headers} == {"blue"}
    for one in receiver.taken:
        resource = {item.key: item.value.string_value for item in one.resource.attributes}
        assert resource["service.name"] == "digits"
        assert resource["deployment.environment.name"] == "lab"


@pytest.mark.slow
def test_a_sampler_takes_the_same_steps_on_every_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    run(tmp_path / "t", *PARAMETER_SERVER, "--steps", "20")
    steps = {task: steps_of(tmp_path / "t", task) for task in ("worker:0", "worker:1", "ps:0")}
    assert 3 <= len(steps["worker:0"]) <= 17
    assert steps["worker:0"] == steps["worker:1"] == steps["ps:0"]


@pytest.mark.slow
def test_where_the_sdk_is_disabled_a_run_records_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with http_receiver() as receiver:
        monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
        where = ("--endpoint", receiver.url)
        printed, _ = run(tmp_path / "t", *PARAMETER_SERVER, "--steps", "3", *where)
    assert printed["spans"] == {"recorded": 0, "written": 0}
    assert not receiver.requests
    assert printed["loss"] > 0


def test_less_detail_is_fewer_kinds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    less = ("--detail", "step", "--in-process", "--json", "--out", str(tmp_path / "t"))
    done = tracer_here(capsys, "run", *PARAMETER_SERVER, "--steps", "5", *less)
    few = json.loads(done.stdout)
    kinds = {kind_of(span) for span in spans_of(tmp_path / "t")}
    assert few["spans"]["recorded"] == few["spans"]["written"]
    assert {"session.run", "data.next", "graph.chunk"} <= kinds
    assert not kinds & kinds_beyond("step")


@pytest.mark.slow
def test_recording_stops_at_the_size_that_is_given_and_the_run_goes_on(tmp_path: Path) -> None:
    size = ("--max-trace-size", "200KB")
    printed, said = run(tmp_path / "t", *ONE_DEVICE, "--steps", "6000", *size)
    told = manifest(tmp_path / "t")
    assert printed["steps"] == 6000
    assert 0 < told["unrecorded_steps"] < 6000
    assert max(steps_of(tmp_path / "t", "worker:0")) == 6000 - told["unrecorded_steps"]
    assert f"{told['unrecorded_steps']} steps are not in the trace" in said
    assert "200000 bytes" in told["stopped"]
    assert printed["spans"]["recorded"] == printed["spans"]["written"]
    assert folder_bytes(tmp_path / "t") > 200_000


FACTORY = """
import torch
from opentelemetry import trace
from torch.nn import functional

tracer = trace.get_tracer("my.training", "0.1")

class Data:
    def __iter__(self):
        for _ in range(4):
            with tracer.start_as_current_span("augment", attributes={"rows": 8}):
                x = torch.randn(8, 3)
            yield x, x.sum(1, keepdim=True)

def make():
    with tracer.start_as_current_span("make"):
        return {"module": torch.nn.Linear(3, 1), "loss": functional.mse_loss, "data": Data()}
"""


@pytest.mark.parametrize("how", [(), ("--in-process",)], ids=["processes", "in process"])
def test_a_users_own_spans_join_the_run(tmp_path: Path, how: tuple[str, ...]) -> None:
    (tmp_path / "train.py").write_text(FACTORY)
    run(
        tmp_path / "t", "train:make", "--strategy", "one_device", "--steps", "4", *how,
        cwd=tmp_path,
    )  # fmt: skip
    spans = list(spans_of(tmp_path / "t"))
    steps = {s.trace_id: s for s in spans if kind_of(s) == "session.run"}
    nexts = {s.span_id: s for s in spans if kind_of(s) == "data.next"}
    augments = [s for s in spans if s.name == "augment" and s.trace_id in steps]
    assert len(augments) == 4
    for span in augments:
        assert kind_of(span) == "user.span"
        around = nexts[span.parent_span_id]
        assert around.start_time_unix_nano <= span.start_time_unix_nano
        assert span.end_time_unix_nano <= around.end_time_unix_nano


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--endpoint", "receiver"), "--endpoint receiver: write http://HOST:4318"),
        (("--endpoint", "http://me:secret@receiver"), "OTEL_EXPORTER_OTLP_HEADERS"),
        (("--flush-timeout", "-1"), "--flush-timeout -1: must be 0 seconds or more"),
        (("--detail", "ops"), "step, rpc, op"),
        (("--max-trace-size", "0"), "--max-trace-size 0: write bytes"),
        (("--max-trace-size", "1PB"), "KB, MB, GB, TB"),
    ],
)
def test_what_cannot_be_recorded_so_is_refused(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["run", *ONE_DEVICE, *arguments])
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 2
    assert says in capsys.readouterr().err.replace("'", "")


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("500MB", 500_000_000), ("10 gb", 10**10), ("2KB", 2000)]
)
def test_a_size_may_have_a_unit(text: str, size: int) -> None:
    assert bytes_from(text) == size
    with pytest.raises(RecordingError):
        bytes_from(f"-{text}")
