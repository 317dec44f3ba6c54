"""What each section says of a step whose every span is known, and of the same step perturbed."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.store.sample_trace import EPOCH, PS, WORKER, training_step, write_trace
from tracer.model.trace_folder import Flag
from vizdist.analysis.mailbox import Transfer
from vizdist.analysis.mechanisms import (
    calls,
    control_flow,
    executor,
    failures,
    leftovers,
    queues,
    transfers,
)
from vizdist.analysis.mechanisms.executor import most_at_once
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.store.columns import SpanRecord
from vizdist.store.spans import Spans
from vizdist.store.trace import open_trace

Change = Callable[[list[SpanRecord]], list[SpanRecord]]
RECV, SEND = "rendezvous.recv", "rendezvous.send"


@pytest.fixture
def step_of(tmp_path: Path) -> Callable[..., OneStep]:
    made = count(1)

    def make(*changes: Change) -> OneStep:
        spans = training_step(1)
        for change in changes:
            spans = change(spans)
        trace = open_trace(write_trace(tmp_path / f"{next(made)}.trace", spans))
        return OneStep(trace, trace.step(1))

    return make


def changed(kind: str, **values: Any) -> Change:
    return lambda spans: [s._replace(**values) if s.kind == kind else s for s in spans]


SENT_LATE = changed("rendezvous.send", start=EPOCH + 490, end=EPOCH + 500)


def without(kind: str) -> Change:
    return lambda spans: [span for span in spans if span.kind != kind]


def with_(*more: SpanRecord) -> Change:
    return lambda spans: [*spans, *more]


def the_transfer(one: OneStep) -> Transfer:
    found = transfers.find(one)
    assert found is not None
    [row] = found.rows
    return row


def test_a_transfer_has_its_key_bytes_wait_and_way(step_of: Callable[..., OneStep]) -> None:
    row = the_transfer(step_of(SENT_LATE))
    assert (row.tensor, row.source, row.target) == ("w", PS, WORKER)
    assert (row.bytes, row.wait_ns, row.transfer_ns) == (256, 50, 100)
    assert (row.first, row.state, row.is_remote, row.frame) == ("receiver", "done", True, "")


def test_a_value_that_was_there_before_it_was_asked_for_makes_its_sender_the_first(
    step_of: Callable[..., OneStep],
) -> None:
    one = step_of(changed(RECV, wait=0), changed("rpc.server", wait=0))
    assert the_transfer(one).first == "sender"


@pytest.mark.parametrize(
    ("flags", "state"),
    [
        (Flag.DEAD, "dead"),
        (Flag.ERROR, "aborted"),
        (Flag.UNFINISHED, "unfinished"),
        (Flag.ERROR | Flag.DEAD, "aborted"),
    ],
)
def test_what_became_of_a_transfer_is_told(
    step_of: Callable[..., OneStep], flags: int, state: str
) -> None:
    one = step_of(changed(RECV, flags=flags | Flag.DEFERRED))
    assert the_transfer(one).state == state
    assert the_transfer(one).is_deferred


def test_where_no_value_came_nobody_was_the_first(step_of: Callable[..., OneStep]) -> None:
    for flag in (Flag.ERROR, Flag.UNFINISHED):
        one = step_of(changed(RECV, flags=flag, link=0, wait=0), without("rpc.server"))
        row = the_transfer(one)
        assert (row.first, row.wait_ns, row.transfer_ns) == ("nobody", 200, 0)
        told = list(transfers.tell(transfers.Transfers([row]), "en"))
        assert "there first in 0, the request in 0" in told[0]
        assert told[1] == "  1 recv got no value"
    assert the_transfer(step_of(changed(RECV, flags=Flag.ERROR), SENT_LATE)).first == "receiver"


def test_in_a_loop_each_iteration_is_a_transfer_of_its_own(
    step_of: Callable[..., OneStep],
) -> None:
    def three_times(spans: list[SpanRecord]) -> list[SpanRecord]:
        [recv] = [span for span in spans if span.kind == RECV]
        more = [
            recv._replace(key=recv.key.replace("0:0", f"77:{i}"), span=900 + i) for i in range(3)
        ]
        return [*(span for span in spans if span.kind != RECV), *more]

    found = transfers.find(step_of(three_times))
    assert found is not None
    assert [(row.frame, row.iteration) for row in found.rows] == [("77", 0), ("77", 1), ("77", 2)]
    assert any("#000077:2" in line for line in transfers.tell(found, "en"))


def test_sends_and_recvs_that_met_leave_nothing(step_of: Callable[..., OneStep]) -> None:
    found = leftovers.find(step_of())
    assert found is not None
    assert (found.sends, found.recvs, found.alone) == (1, 1, [])


def test_a_recv_whose_send_never_came_is_told_with_its_key_and_since_when(
    step_of: Callable[..., OneStep],
) -> None:
    found = leftovers.find(step_of(without(SEND), changed(RECV, flags=Flag.UNFINISHED)))
    assert found is not None
    [alone] = found.alone
    assert (alone.side, alone.task, alone.node) == ("recv", "worker:0", "w")
    assert (alone.since_ns, alone.waited_ns) == (400, 200)
    assert alone.key.endswith(";edge_1_w;0:0")


def test_a_value_that_nobody_fetched_is_left_over(step_of: Callable[..., OneStep]) -> None:
    found = leftovers.find(step_of(without(RECV)))
    assert found is not None
    [alone] = found.alone
    assert (alone.side, alone.task, alone.waited_ns) == ("send", "ps:0", 1000 - 160)


def test_a_device_tells_queueing_from_running(step_of: Callable[..., OneStep]) -> None:
    found = executor.find(step_of())
    assert found is not None
    ps, worker = found.devices
    assert (worker.device, worker.nodes, worker.run_ns, worker.queueing_ns) == (WORKER, 1, 200, 100)
    assert (ps.nodes, ps.run_ns, ps.queueing_ns, ps.longest) == (2, 150, 10, "update_w")


def test_a_dead_node_did_not_run(step_of: Callable[..., OneStep]) -> None:
    one = step_of(changed("op.run", flags=Flag.DEAD))
    found = executor.find(one)
    assert found is not None
    assert [(work.nodes, work.dead, work.run_ns) for work in found.devices] == [
        (0, 2, 0),
        (0, 1, 0),
    ]
    flow = control_flow.find(one)
    assert flow is not None
    assert flow.dead == {PS: 2, WORKER: 1}


def test_without_loops_and_dead_nodes_nothing_is_said_of_control_flow(
    step_of: Callable[..., OneStep],
) -> None:
    assert control_flow.find(step_of()) is None


def test_intervals_that_only_touch_are_not_at_once() -> None:
    one, two, three = [0, 10], [10, 20], [5, 15]
    assert most_at_once(*map(_column, zip(one, two, strict=True))) == 1
    assert most_at_once(*map(_column, zip(one, two, three, strict=True))) == 2


def test_calls_are_counted_by_method_and_pair(step_of: Callable[..., OneStep]) -> None:
    found = calls.find(step_of())
    assert found is not None
    [method] = found.methods
    assert (method.method, method.client, method.server) == ("RecvTensor", "worker:0", "ps:0")
    assert (method.count, method.errors, method.p50_ns, method.p95_ns) == (1, 0, 180, 180)
    lost = calls.find(step_of(without("rpc.server"), changed("rpc.client", flags=Flag.ERROR)))
    assert lost is not None
    assert [(method.server, method.errors) for method in lost.methods] == [("", 1)]


def test_calls_that_nobody_waits_for_have_no_times(step_of: Callable[..., OneStep]) -> None:
    found = calls.find(step_of(changed("rpc.client", name="CleanupGraph", end=EPOCH + 410)))
    assert found is not None
    [method] = found.methods
    assert (method.count, method.p50_ns, method.p95_ns) == (1, None, None)
    _, told = calls.tell(found, "en")
    assert told.split() == ["CleanupGraph", "worker:0", "ps:0", "1", "0", "0", "B"]


@pytest.mark.parametrize("op", ["QueueDequeueV2", "ResourceAccumulatorTakeGradient"])
def test_a_step_waits_at_the_queues_it_works_on(step_of: Callable[..., OneStep], op: str) -> None:
    assert queues.find(step_of()) is None
    found = queues.find(step_of(changed("op.run", op=op, name="next", device=PS)))
    assert found is not None
    [work] = found.nodes
    assert (work.node, work.op, work.count, work.errors) == ("next", op, 3, 0)
    assert (work.took_ns, work.longest_ns) == (350, 200)


def _column(values: tuple[int, ...]) -> "np.ndarray[Any, Any]":
    return np.array(values)


def _iteration(number: int, begin: int, end: int, **rest: Any) -> SpanRecord:
    span = SpanRecord(
        "worker:0", "loops", EPOCH + begin, EPOCH + end, f"loop {number}", "iteration.run",
        step=1, trace_hi=7, trace_lo=1, span=500 + number, device=WORKER, frame="loop",
        frame_id=77, iteration=number,
    )  # fmt: skip
    return span._replace(**rest)


def test_a_frame_has_its_iterations_and_how_many_were_in_flight(
    step_of: Callable[..., OneStep],
) -> None:
    loop = [
        _iteration(0, 0, 40),
        _iteration(1, 20, 60),
        _iteration(2, 30, 90),
        _iteration(3, 90, 95),
    ]
    dead = _iteration(3, 91, 92, kind="op.run", name="mul", op="Mul", flags=Flag.DEAD, span=600)
    follower = _iteration(3, 93, 94, kind="op.run", name="_cloop_Merge", op="Merge", span=601)
    own = _iteration(3, 94, 95, kind="op.run", name="my_cloop/Merge", op="Merge", span=602)
    found = control_flow.find(step_of(with_(*loop, dead, follower, own)))
    assert found is not None
    [frame] = found.frames
    assert (frame.frame, frame.frame_id, frame.device) == ("loop", "77", WORKER)
    assert (frame.iterations, frame.most, frame.dead, frame.took_ns) == (4, 3, 1, 95)
    assert frame.machine == {"Merge": 1}
    assert found.dead == {WORKER: 1}


def test_iterations_one_after_the_other_are_never_two(step_of: Callable[..., OneStep]) -> None:
    loop = [_iteration(0, 0, 20), _iteration(1, 20, 40, flags=Flag.DEFERRED)]
    found = control_flow.find(step_of(with_(*loop)))
    assert found is not None
    [frame] = found.frames
    assert (frame.iterations, frame.most, frame.deferred) == (2, 1, 1)


def test_each_span_of_a_loop_is_looked_at_as_often_however_many_frames_there_are(
    step_of: Callable[..., OneStep], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = []
    plain = Spans.has_word

    def counted(self: Spans, column: str, *words: str) -> Any:
        looked.append(len(self))
        return plain(self, column, *words)

    monkeypatch.setattr(Spans, "has_word", counted)
    each = []
    for many in (20, 200):
        frames = [_iteration(0, i, i + 1, frame_id=70 + i, span=900 + i) for i in range(many)]
        one = step_of(with_(*frames))
        looked.clear()
        found = control_flow.find(one)
        assert found is not None
        assert [frame.frame_id for frame in found.frames] == [str(70 + i) for i in range(many)]
        each.append(sum(looked) / many)
    assert each[1] < 2 * each[0]


def test_two_frames_are_told_apart_by_more_than_their_last_four_digits(
    step_of: Callable[..., OneStep],
) -> None:
    loop = [_iteration(0, i, i + 1, frame_id=i * 10_000 + 959, span=900 + i) for i in (1, 2)]
    found = control_flow.find(step_of(with_(*loop)))
    assert found is not None
    told = [line.split()[1] for line in control_flow.tell(found, "en")]
    assert told[1:] == ["#010959", "#020959"]


def test_what_a_dead_task_left_unfinished_comes_before_the_errors_of_its_peers(
    step_of: Callable[..., OneStep],
) -> None:
    one = step_of(
        changed("rpc.server", flags=Flag.UNFINISHED, end=EPOCH + 470),
        changed(RECV, flags=Flag.ERROR),
        changed("rpc.client", flags=Flag.ERROR),
    )
    found = failures.find(one)
    assert found is not None
    assert [(each.task, each.is_unfinished, each.after_ns) for each in found.failures] == [
        ("ps:0", True, 470),
        ("worker:0", False, 590),
        ("worker:0", False, 600),
    ]
