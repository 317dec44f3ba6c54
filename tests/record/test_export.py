"""Export to a real receiver: what it decodes is what the file holds, whatever it answers first."""

import gzip
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.record.receivers import (
    CERTIFICATE,
    Receiver,
    grpc_receiver,
    http_receiver,
    partly,
)
from tests.record.written_trace import WrittenTrace, as_proto, lines_of, members_of
from tracer.model.step import trace_of_step
from tracer.model.trace_folder import SPANS, Flag, spans_path
from tracer.record import exporter as exporter_room
from tracer.record.export_target import target_from
from tracer.record.exporter import BATCH_LINES, Exported, Exporter, sender_to
from tracer.record.otlp_answer import UNREADABLE
from tracer.record.otlp_http import seconds_of
from tracer.record.otlp_message import request_of
from tracer.record.recorder import Recorder

STEP = trace_of_step("run", "worker:0", 3)
ODD = 'a "quoted" 100%s <img src=x> \\ 名\n'
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda item: st.lists(item, max_size=3),
    max_leaves=4,
)
BOTH = pytest.mark.parametrize("receiving", [http_receiver, grpc_receiver], ids=["http", "grpc"])
Receiving = Callable[..., AbstractContextManager[Receiver]]


@pytest.fixture(autouse=True)
def brief_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter_room, "FIRST_WAIT_S", 0.01)


class Exporting:
    """A trace that is exported while it is written."""

    def __init__(self, folder: Path, url: str, **environ: str) -> None:
        target = target_from(url, environ)
        assert target is not None
        self.exporter = Exporter(sender_to(target))
        self.trace = WrittenTrace(folder, wrote=self.exporter.offer)

    def finish(self, timeout_s: float = 20) -> Exported:
        self.trace.finish()
        return self.exporter.finish(timeout_s)

    @property
    def in_file(self) -> list[Span]:
        return [
            span
            for path in sorted((self.trace.folder / SPANS).iterdir())
            for _, _, document in lines_of(path)
            for span in as_proto(document).resource_spans[0].scope_spans[0].spans
        ]


@contextmanager
def a_few_spans(folder: Path, url: str, **environ: str) -> Iterator[Exporting]:
    exporting = Exporting(folder, url, **environ)
    recorder = exporting.trace.recorder()
    writer, op = recorder.writer(), recorder.site("op.run", name="mm")
    for number in range(10):
        writer.record(op, STEP, number, number + 1)
    yield exporting


def record_one_of_each(recorder: Recorder) -> None:
    recv = recorder.site("rendezvous.recv", name=ODD, attributes={"vizdist.node": ODD})
    waiting = recorder.open(recv, STEP.under(7), recorder.key(ODD))
    waiting.fail(ODD)
    waiting.close(num_bytes=2**40, link=9, extra=5, flags=Flag.REMOTE)
    with recorder.span("session.run", STEP) as span:
        odd: dict[str, Any] = {
            "nan": float("nan"), "inf": float("inf"), "big": 2**64, "least": -(2**63),
            "list": [1, "a", [True, 2.5]], "bad": "gpu\ud83e", "none": None, "yes": True, "e": "",
        }  # fmt: skip
        for name, value in odd.items():
            span.set(name, value)
    client = recorder.site("rpc.client", name="RecvTensor")
    for number in range(2_000):
        recorder.writer().record(client, STEP, number, number + 1, extra=number)


@BOTH
def test_what_a_receiver_decodes_is_what_the_file_holds(
    tmp_path: Path, receiving: Receiving
) -> None:
    with receiving() as receiver:
        exporting = Exporting(tmp_path, receiver.url)
        for task in ("worker:0", "ps:0"):
            recorder = exporting.trace.recorder(task)
            record_one_of_each(recorder)
            exporting.trace.sink.turn(0)
            recorder.close()
        told = exporting.finish()
    in_file = {span.span_id: span.SerializeToString() for span in exporting.in_file}
    received = {span.span_id: span.SerializeToString() for span in receiver.spans}
    assert len(in_file) == 2 * 2_002
    assert received == in_file
    assert (told.taken, told.refused, told.error) == (len(in_file), 0, "")
    tasks = {
        item.value.string_value
        for one in receiver.taken
        for item in one.resource.attributes
        if item.key == "vizdist.task"
    }
    assert tasks == {"worker:0", "ps:0"}


def test_a_busy_receiver_is_asked_again_when_it_says(tmp_path: Path) -> None:
    answers: Any = (429, {"retry-after": "0.2"}), (503, {}), (504, {"retry-after": "soon"})
    with http_receiver(*answers) as receiver, a_few_spans(tmp_path, receiver.url) as exporting:
        began = time.monotonic()
        told = exporting.finish()
        took_s = time.monotonic() - began
    assert len(receiver.requests) == 4
    assert all(request == receiver.requests[0] for request in receiver.requests)
    assert (told.taken, told.refused, told.error) == (10, 0, "")
    assert took_s > 0.2


def test_a_busy_grpc_receiver_is_asked_again_when_it_says(tmp_path: Path) -> None:
    answers = grpc.StatusCode.UNAVAILABLE, (grpc.StatusCode.RESOURCE_EXHAUSTED, 0.2)
    with grpc_receiver(*answers) as receiver, a_few_spans(tmp_path, receiver.url) as exporting:
        began = time.monotonic()
        told = exporting.finish()
        took_s = time.monotonic() - began
    assert len(receiver.requests) == 3
    assert (told.taken, told.refused) == (10, 0)
    assert took_s > 0.2


@pytest.mark.parametrize("status", [400, 401, 404, 500])
def test_what_http_refuses_for_good_is_counted_and_not_sent_again(
    tmp_path: Path, status: int
) -> None:
    with http_receiver((status, {})) as receiver, a_few_spans(tmp_path, receiver.url) as exporting:
        told = exporting.finish()
    assert len(receiver.requests) == 1
    assert (told.taken, told.refused) == (0, 10)
    assert f"HTTP {status}" in told.error
    assert "not now" in told.error


@pytest.mark.parametrize("code", ["RESOURCE_EXHAUSTED", "INVALID_ARGUMENT", "UNAUTHENTICATED"])
def test_what_grpc_refuses_for_good_is_counted_and_not_sent_again(
    tmp_path: Path, code: str
) -> None:
    with (
        grpc_receiver(grpc.StatusCode[code]) as receiver,
        a_few_spans(tmp_path, receiver.url) as exporting,
    ):
        told = exporting.finish()
    assert len(receiver.requests) == 1
    assert (told.taken, told.refused, told.error) == (0, 10, f"{code} not now")


@BOTH
def test_a_part_that_a_receiver_rejects_is_counted(tmp_path: Path, receiving: Receiving) -> None:
    with (
        receiving(partly(3, "too old")) as receiver,
        a_few_spans(tmp_path, receiver.url) as exporting,
    ):
        told = exporting.finish()
    assert len(receiver.requests) == 1
    assert (told.taken, told.refused, told.error) == (7, 3, "too old")


@BOTH
def test_a_receiver_that_is_gone_costs_the_file_nothing(
    tmp_path: Path, receiving: Receiving
) -> None:
    with receiving() as receiver:
        pass
    with a_few_spans(tmp_path, receiver.url) as exporting:
        began = time.monotonic()
        told = exporting.finish(timeout_s=0.5)
    assert (told.taken, told.refused) == (0, 0)
    assert told.error
    assert len(exporting.in_file) == 10
    assert time.monotonic() - began < 10


@BOTH
def test_a_slow_receiver_holds_up_nobody_and_gets_all(tmp_path: Path, receiving: Receiving) -> None:
    with receiving() as receiver:
        receiver.answers.clear()
        exporting = Exporting(tmp_path, receiver.url)
        recorder = exporting.trace.recorder()
        writer, op = recorder.writer(), recorder.site("op.run")
        for turn in range(20):
            for number in range(100):
                writer.record(op, STEP, turn * 100 + number, turn * 100 + number + 1)
            exporting.trace.sink.turn(0)
        assert len(exporting.in_file) == exporting.trace.sink.written == 2_000
        assert exporting.exporter.told.taken == 0
        receiver.answers.set()
        told = exporting.finish()
    assert (told.taken, told.error) == (2_000, "")
    assert len(receiver.spans) == 2_000


@BOTH
def test_headers_and_compression_are_those_of_the_environment(
    tmp_path: Path, receiving: Receiving
) -> None:
    environ = {
        "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Basic%20abc, x-team = blue",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
    }
    with receiving() as receiver, a_few_spans(tmp_path, receiver.url, **environ) as exporting:
        assert exporting.finish().taken == 10
    (headers,) = receiver.headers
    assert (headers["authorization"], headers["x-team"]) == ("Basic abc", "blue")
    if receiving is http_receiver:
        assert headers["content-encoding"] == "gzip"
        assert headers["path"] == "/v1/traces"


@BOTH
def test_a_receiver_is_trusted_for_its_certificate(tmp_path: Path, receiving: Receiving) -> None:
    trusted = {"OTEL_EXPORTER_OTLP_CERTIFICATE": str(CERTIFICATE)}
    with receiving(is_secure=True) as receiver:
        with a_few_spans(tmp_path / "a", receiver.url, **trusted) as exporting:
            assert exporting.finish().taken == 10
        with a_few_spans(tmp_path / "b", receiver.url) as exporting:
            told = exporting.finish(timeout_s=0.2)
    assert (told.taken, told.refused) == (0, 0)
    assert told.error


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=4), st.text(max_size=20))
def test_any_attribute_goes_out_as_the_file_has_it(attributes: dict[str, Any], name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trace = WrittenTrace(Path(folder))
        recorder = trace.recorder()
        with recorder.span("session.run", STEP, name=name) as span:
            for key, value in attributes.items():
                span.set(key, value)
        recorder.close()
        trace.finish()
        ((_, text),) = members_of(spans_path(trace.folder, "worker:0", 0))
    (line,) = text.splitlines()
    sent = request_of([line]).resource_spans
    assert list(sent) == list(as_proto(json.loads(line)).resource_spans)


@pytest.mark.parametrize("body", [b"{}", b'{"partialSuccess":{}}', b"ok"])
def test_a_receiver_that_says_yes_in_other_words_has_the_spans(tmp_path: Path, body: bytes) -> None:
    yes: Any = 200, {}, body
    with http_receiver(yes) as receiver, a_few_spans(tmp_path, receiver.url) as exporting:
        told = exporting.finish()
    assert (told.taken, told.refused, told.error) == (10, 0, UNREADABLE)


def test_a_batch_that_cannot_be_sent_is_counted_and_the_next_one_goes(tmp_path: Path) -> None:
    with http_receiver() as receiver, a_few_spans(tmp_path, receiver.url) as exporting:
        exporting.finish()
        (line,) = lines_in(exporting.trace.folder)
        bad, after = tmp_path / "bad", Exporting(tmp_path / "b", receiver.url)
        broken = line.replace(b'"endTimeUnixNano":"', b'"endTimeUnixNano":"-', 1)
        sizes = [append(bad, [broken] * BATCH_LINES), append(bad, [line])]
        after.exporter.offer(bad, sum(sizes))
        told = after.finish()
    assert (told.taken, told.refused) == (10, 10 * BATCH_LINES)
    assert told.error.startswith("what the file holds cannot be sent")
    assert len(receiver.spans) == 20


def lines_in(folder: Path) -> list[bytes]:
    (path,) = (folder / SPANS).iterdir()
    return [line for _, text in members_of(path) for line in text.splitlines(keepends=True)]


def append(path: Path, lines: list[bytes]) -> int:
    """Adds a member to a span file; returns its size."""
    member = gzip.compress(b"".join(lines))
    with path.open("ab") as file:
        return file.write(member)


@BOTH
def test_a_header_that_cannot_be_sent_is_told_without_its_value(
    tmp_path: Path, receiving: Receiving, caplog: pytest.LogCaptureFixture
) -> None:
    with receiving() as receiver:
        target = target_from(receiver.url, {})
        assert target is not None
        sender = sender_to(replace(target, headers={"x-api-key": "SECRET\nmore"}))
        exporter = Exporter(sender)
        trace = WrittenTrace(tmp_path, wrote=exporter.offer)
        recorder = trace.recorder()
        recorder.writer().record(recorder.site("op.run"), STEP, 1, 2)
        trace.finish()
        told = exporter.finish(20)
    assert (told.taken, told.refused) == (0, 1)
    assert "headers" in told.error or "metadata" in told.error
    assert "SECRET" not in told.error + caplog.text


@pytest.mark.parametrize(
    ("text", "seconds"), [(None, 0), ("7", 7), ("0.5", 0.5), ("-3", 0), ("soon", 0), ("", 0)]
)
def test_retry_after_is_seconds(text: str | None, seconds: float) -> None:
    assert seconds_of(text) == seconds


def test_retry_after_may_be_a_date() -> None:
    later = seconds_of(formatdate(time.time() + 100, usegmt=True))
    assert 90 < later <= 100
    assert seconds_of(formatdate(time.time() - 100, usegmt=True)) == 0
