import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tracer.model.step import SpanContext
from tracer.rpc.frames import Parts
from tracer.rpc.messages import (
    decode_error,
    decode_received,
    decode_recv_tensor,
    decode_run_callable,
    decode_run_graph,
    decode_run_step,
    decode_run_step_result,
    decode_step_notice,
    encode_error,
    encode_fetched,
    encode_received,
    encode_recv_tensor,
    encode_run_callable,
    encode_run_graph,
    encode_run_step,
    encode_step_notice,
)
from tracer.runtime.interfaces import (
    Received,
    RunCallableRequest,
    RunGraphRequest,
    RunStepRequest,
    StepError,
)

U64 = st.integers(0, 2**64 - 1)
CONTEXTS = st.builds(SpanContext, U64, U64, U64, st.integers(0, 2**32 - 1), st.booleans())
CONTEXT = SpanContext(2**64 - 1, 2, 3, 4, sampled=True)


def payload(parts: Parts) -> memoryview:
    data = b"".join(parts[0])
    assert len(data) == parts[1]
    return memoryview(data)


@given(U64, st.text(), U64, CONTEXTS)
def test_a_pull_names_step_key_request_and_context(
    step_id: int, key: str, request_id: int, context: SpanContext
) -> None:
    back = decode_recv_tensor(payload(encode_recv_tensor(step_id, key, request_id, context)))
    assert back == (step_id, key, request_id, context)


@given(U64, st.integers(0, 2**61), st.booleans())
def test_a_value_comes_with_its_send_and_its_wait(span: int, wait_ns: int, late: bool) -> None:
    item = Received(torch.ones(2, 3), False, span, None, wait_ns, late)
    back = decode_received(payload(encode_received(item)))
    assert back.tensor is not None
    assert torch.equal(back.tensor, torch.ones(2, 3))
    assert back._replace(tensor=None) == item._replace(tensor=None)


def test_a_dead_value_travels_without_a_tensor() -> None:
    back = decode_received(payload(encode_received(Received(None, True, 7))))
    assert back == Received(None, True, 7)


def test_run_graph_travels_with_feeds_by_key() -> None:
    request = RunGraphRequest(
        "s", "handle", 2**57 - 1, CONTEXT, {"k1": torch.arange(3), "k2": torch.ones(())}, ("f",)
    )
    back = decode_run_graph(payload(encode_run_graph(request, CONTEXT.under(9))))
    assert back.context == CONTEXT.under(9)
    assert (back.session, back.graph_handle, back.step_id) == ("s", "handle", 2**57 - 1)
    assert back.fetch_keys == ("f",)
    assert {key: value.tolist() for key, value in back.feeds.items()} == {"k1": [0, 1, 2], "k2": 1}


def test_run_step_travels_there_and_back() -> None:
    request = RunStepRequest("s", {"x:0": torch.ones(2)}, ("y", "z:1"), ("train",), CONTEXT)
    back = decode_run_step(payload(encode_run_step(request, CONTEXT)))
    assert back.feeds["x:0"].tolist() == [1, 1]
    assert (back.session, back.fetches, back.targets) == ("s", ("y", "z:1"), ("train",))
    result = decode_run_step_result(payload(encode_fetched({"y": torch.zeros(1)}, 77)))
    assert result.step_id == 77
    assert result.fetched["y"].tolist() == [0]


def test_a_call_of_a_partial_run_says_whose_it_is_and_whether_it_is_the_last() -> None:
    request = RunStepRequest("s", {}, (), (), CONTEXT, "7", 2**61)
    back = decode_run_step(payload(encode_run_step(request, CONTEXT)))
    assert (back.partial_run, back.request_id) == ("7", 2**61)
    part = RunGraphRequest("s", "h", 1, CONTEXT, {}, (), "last")
    assert decode_run_graph(payload(encode_run_graph(part, CONTEXT))).call == "last"


def test_a_callable_travels_by_handle_with_its_feeds_in_order() -> None:
    request = RunCallableRequest("s", 3, (torch.ones(2), torch.arange(3)), CONTEXT, 9)
    back = decode_run_callable(payload(encode_run_callable(request, CONTEXT)))
    assert [feed.tolist() for feed in back.feeds] == [[1, 1], [0, 1, 2]]
    assert back._replace(feeds=()) == request._replace(feeds=())
    fresh = decode_run_step_result(payload(encode_fetched({}, 1, was_made=False)))
    assert not fresh.was_made


@pytest.mark.parametrize("derived", [True, False])
def test_an_error_keeps_code_place_and_whether_it_is_an_echo(derived: bool) -> None:
    error = StepError("ABORTED", "中文 {}", task="ps:0", node="add", derived=derived)
    back = decode_error(encode_error(error))
    assert vars(back) == vars(error)


def test_notices_name_the_step_and_may_carry_why() -> None:
    assert decode_step_notice(payload(encode_step_notice(5, CONTEXT, None))) == (5, CONTEXT, None)
    step_id, _, error = decode_step_notice(
        payload(encode_step_notice(6, CONTEXT, StepError("UNAVAILABLE", "gone", task="ps:0")))
    )
    assert step_id == 6
    assert error is not None
    assert (error.code, error.task) == ("UNAVAILABLE", "ps:0")
