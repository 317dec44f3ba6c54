"""What a span of a user's own code carries: all that OpenTelemetry's API lets it."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
from opentelemetry import trace
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.trace import SpanKind, Status, StatusCode

from tests.record.users import Users, attributes, own, users_of
from tests.record.written_trace import read_table, segment_paths, value
from tracer.model.step import trace_of_step
from tracer.record import recorder as recorder_room
from tracer.record.span_limits import limits_from
from tracer.record.user_span import UserSpan
from vizdist.store.trace import open_trace

RUN = trace_of_step("", "run", 0)
ERROR = 2  #: the code of a status in OTLP


@pytest.fixture
def users(tmp_path: Path) -> Iterator[Users]:
    with users_of(tmp_path) as users:
        yield users


def test_a_span_carries_all_that_the_api_lets_it_carry(users: Users) -> None:
    other = trace.SpanContext(7 << 64 | 1, 9, is_remote=True)
    span = users.tracer.start_span(
        "fetch",
        kind=SpanKind.PRODUCER,
        attributes={"a": 1},
        links=[trace.Link(other, {"why": "x"})],
    )
    span.set_attribute("b", [1.5, 2.5])
    span.add_event("cached", {"hit": True}, timestamp=1_700_000_000_000_000_007)
    span.set_status(StatusCode.OK)
    span.end()
    span.set_attribute("late", 1)
    span.end()
    told = users.spans()["fetch"]
    assert own(told) == {"a": 1, "b": value(told.attributes[-1].value)}
    assert [item.double_value for item in attributes(told)["b"].values] == [1.5, 2.5]
    assert attributes(told)["vizdist.lane"] == "user"
    assert told.kind == Span.SPAN_KIND_PRODUCER
    assert told.status.code == told.status.STATUS_CODE_OK
    (event,) = told.events
    assert (event.name, event.time_unix_nano) == ("cached", 1_700_000_000_000_000_007)
    assert attributes(event) == {"hit": True}
    (link,) = told.links
    assert (link.trace_id, link.span_id) == ((7 << 64 | 1).to_bytes(16), (9).to_bytes(8))
    assert attributes(link) == {"why": "x"}
    assert users.scopes() == {("my.library", "1.2")}


def test_an_exception_is_an_event_and_an_error(users: Users) -> None:
    with pytest.raises(KeyError), users.tracer.start_as_current_span("strict"):
        raise KeyError("gone")
    with pytest.raises(ValueError, match="bad"), users.tracer.start_span("plain"):
        raise ValueError("bad")
    with (
        pytest.raises(ValueError, match="bad"),
        users.tracer.start_as_current_span(
            "calm", record_exception=False, set_status_on_exception=False
        ),
    ):
        raise ValueError("bad")
    spans = users.spans()
    (event,) = spans["strict"].events
    told = attributes(event)
    assert (event.name, told["exception.type"]) == ("exception", "KeyError")
    assert (told["exception.message"], told["exception.escaped"]) == ("'gone'", "False")
    assert "test_user_spans.py" in told["exception.stacktrace"]
    assert spans["strict"].status.message == "KeyError: 'gone'"
    assert spans["plain"].status.code == ERROR
    assert not spans["calm"].events
    assert spans["calm"].status.code == 0


def test_a_status_follows_the_rules_of_the_api(users: Users) -> None:
    span = users.tracer.start_span("s")
    span.set_status(Status(StatusCode.ERROR, "broken"))
    span.set_status(StatusCode.UNSET)
    span.end()
    fine = users.tracer.start_span("fine")
    fine.set_status(StatusCode.OK)
    fine.set_status(StatusCode.ERROR, "too late")
    fine.end()
    spans = users.spans()
    assert (spans["s"].status.code, spans["s"].status.message) == (ERROR, "broken")
    assert (spans["fine"].status.code, spans["fine"].status.message) == (1, "")


def test_limits_cut_a_users_span_and_say_by_how_much(users: Users) -> None:
    users.provider.limits = limits_from(
        {
            "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "2",
            "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "3",
            "OTEL_SPAN_EVENT_COUNT_LIMIT": "1",
            "OTEL_SPAN_LINK_COUNT_LIMIT": "0",
            "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT": "1",
        }
    )
    span = users.tracer.start_span("s", attributes={"a": "12345", "b": ["12345", 7], "c": 1})
    span.set_attribute("a", "abcde")
    span.add_event("first", {"x": 1, "y": 2})
    span.add_event("second")
    span.add_link(trace.SpanContext(1, 2, is_remote=False))
    span.end()
    with users.recorder.span("session.create", RUN) as ours:
        ours.set("vizdist.session.handle", "a long handle of our own")
    spans = users.spans()
    told = spans["s"]
    assert own(told)["a"] == "abc"
    assert attributes(told)["b"].values[0].string_value == "123"
    assert "c" not in own(told)
    assert told.dropped_attributes_count == 1
    assert (told.dropped_events_count, told.dropped_links_count) == (1, 1)
    assert [event.name for event in told.events] == ["first"]
    assert told.events[0].dropped_attributes_count == 1
    assert attributes(spans["session.create"])["vizdist.session.handle"].endswith("of our own")


def test_a_bad_value_costs_neither_the_span_nor_the_users_calm(
    users: Users, caplog: pytest.LogCaptureFixture
) -> None:
    bad: dict[Any, Any] = {
        "surrogate": "gpu\ud83e", "big": 2**64, "none": None, "nan": float("nan"),
        "long": "x" * 5_000_000, "": "empty", "object": object(), 7: "seven",
    }  # fmt: skip
    with users.tracer.start_as_current_span("odd\ud83e", attributes=bad) as span:
        span.add_event("e", bad)
        span.update_name("odd")
    told = own(users.spans()["odd"])
    assert told["surrogate"] == "gpu\ufffd"
    assert told["big"] == str(2**64)
    assert told["nan"] != told["nan"]
    assert len(told["long"]) < 100_000
    assert told["unnamed"] == "empty"
    assert told["7"] == "seven"
    assert not caplog.records


def test_what_cannot_be_written_replaces_no_exception_and_leaves_no_span_open(
    users: Users,
) -> None:
    with pytest.raises(ValueError, match="bad"), users.tracer.start_as_current_span("current"):
        raise ValueError("bad \udcff")
    with pytest.raises(ValueError, match="bad"), users.tracer.start_span("plain"):
        raise ValueError("bad \udcff")
    with users.tracer.start_as_current_span("first") as span:
        span.update_name("renamed \udcff")
        span.add_event("seen \udcff", {"share": np.float64(0.5)})
    spans = users.spans()
    assert set(spans) == {"current", "plain", "renamed \ufffd"}
    assert spans["current"].status.message == "ValueError: bad \ufffd"
    (event,) = spans["renamed \ufffd"].events
    assert (event.name, attributes(event)) == ("seen \ufffd", {"share": 0.5})
    assert not any("vizdist.unfinished" in attributes(told) for told in spans.values())


def test_a_span_is_closed_even_if_what_it_carries_cannot_be_told(
    users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tell(*_: object) -> None:
        raise TypeError("it cannot be packed")

    span = users.tracer.start_span("s", attributes={"a": 1})
    monkeypatch.setattr(users.recorder, "tell", tell)
    with pytest.raises(TypeError):
        span.end()
    assert "vizdist.unfinished" not in attributes(users.spans()["s"])


@pytest.mark.parametrize(
    ("given", "told"),
    [(1_700_000_000.5, 1_700_000_000), (-1, 0), (1 << 70, (1 << 64) - 1)],
)
def test_an_events_time_is_one_that_otlp_can_hold(users: Users, given: Any, told: int) -> None:
    with users.tracer.start_as_current_span("s") as span:
        span.add_event("e", timestamp=given)
    (event,) = users.spans()["s"].events
    assert event.time_unix_nano == told


@pytest.mark.parametrize("given", [1_700_000_000.5, 1 << 70])
def test_a_spans_own_time_is_one_that_a_record_can_hold(users: Users, given: Any) -> None:
    users.tracer.start_span("s", start_time=given).end(end_time=given)
    told = users.spans()["s"]
    assert told.start_time_unix_nano == min(int(given), (1 << 63) - 1)
    assert "vizdist.unfinished" not in attributes(told)


@pytest.mark.parametrize("line", range(1, 9))
def test_two_threads_that_end_a_span_tell_of_it_once(users: Users, line: int) -> None:
    """The other one comes between any two lines of `end`."""
    span = users.tracer.start_span("s")
    span.add_event("e")
    other = threading.Thread(target=span.end)
    lines = iter(range(1, 100))

    def between(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code is not UserSpan.end.__code__:
            return None
        if event == "line" and next(lines) == line:
            other.start()
            other.join()
        return between

    sys.settrace(between)
    span.end()
    sys.settrace(None)
    assert [event.name for event in users.spans()["s"].events] == ["e"]


def test_times_may_be_given(users: Users) -> None:
    second = 1_000_000_000
    start = users.recorder.epoch_ns()
    span = users.tracer.start_span("past", start_time=start - second)
    span.end(end_time=start - second // 2)
    told = users.spans()["past"]
    assert told.start_time_unix_nano == start - second
    assert told.end_time_unix_nano == start - second // 2


def test_a_new_name_is_the_one_that_counts_everywhere(users: Users) -> None:
    span = users.tracer.start_span('a "first" name')
    span.update_name('the "last" \\ one')
    span.end()
    assert set(users.spans()) == {'the "last" \\ one'}
    _, rows = read_table(segment_paths(users.trace.folder)[0])
    assert [row["name"] for row in rows] == ['the "last" \\ one']


def test_names_without_end_are_all_kept(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_room, "NAMED_SITES", 5)
    names = {f"GET /item/{number}" for number in range(20)}
    for name in names:
        users.tracer.start_span(name).end()
    assert set(users.spans()) == names
    _, rows = read_table(segment_paths(users.trace.folder)[0])
    assert {row["name"] for row in rows} == names


def test_a_span_that_never_ends_is_shown_unfinished(users: Users) -> None:
    users.tracer.start_span("open")
    assert attributes(users.spans()["open"])["vizdist.unfinished"] is True


def test_a_viewer_opens_what_was_odd_and_shows_it(users: Users) -> None:
    odd: dict[str, Any] = {"text": "gpu\ud83e", "big": 2**64, "none": None, "": "empty"}
    odd["tensor"] = torch.zeros(3, 2)
    with users.tracer.start_as_current_span("odd", attributes=odd):
        pass
    users.spans()
    trace = open_trace(users.trace.folder)
    (number,) = trace.spans(kinds=["user.span"]).span.tolist()
    shown = trace.span(number).attributes
    assert shown["text"] == "gpu\ufffd"
    assert shown["tensor"] == "Tensor torch.float32 [3, 2]"
    assert shown["unnamed"] == "empty"
