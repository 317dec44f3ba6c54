"""At every instant a task waits for one value at most: the next one, and only when nothing runs."""

from pathlib import Path

import numpy as np

from tests.store.sample_trace import EPOCH, write_trace
from vizdist.analysis.recv_parts import value_at
from vizdist.analysis.waiting import idle_wait
from vizdist.figures.timeline import marks_of
from vizdist.store.columns import SpanRecord
from vizdist.store.trace import Trace, open_trace


def op(begin: int, end: int, task: str = "worker:0") -> SpanRecord:
    return SpanRecord(task, "executor CPU:0", EPOCH + begin, EPOCH + end, "mm", "op.run")


def recv(begin: int, came: int, end: int, depth: int = 0) -> SpanRecord:
    return SpanRecord(
        "worker:0", "recv CPU:0", EPOCH + begin, EPOCH + end, "w", "rendezvous.recv",
        depth=depth, wait=came - begin,
    )  # fmt: skip


def opened(folder: Path, *spans: SpanRecord) -> Trace:
    return open_trace(write_trace(folder / "x.trace", spans))


def idle_of_recvs(trace: Trace) -> list[int]:
    idle = idle_wait(trace, trace.all)
    return [int(ns) for ns in idle[trace.all.is_kind("rendezvous.recv")]]


def test_a_wait_behind_running_ops_costs_nothing(tmp_path: Path) -> None:
    assert idle_of_recvs(opened(tmp_path, op(0, 500), recv(100, 400, 450))) == [0]


def test_what_is_left_of_a_wait_after_the_last_op_costs(tmp_path: Path) -> None:
    assert idle_of_recvs(opened(tmp_path, op(0, 300), recv(100, 400, 450))) == [100]


def test_ops_of_another_task_do_not_count(tmp_path: Path) -> None:
    assert idle_of_recvs(opened(tmp_path, op(0, 500, "ps:0"), recv(100, 400, 450))) == [300]


def test_of_two_values_the_next_to_come_is_waited_for(tmp_path: Path) -> None:
    trace = opened(tmp_path, recv(0, 100, 120), recv(0, 250, 260, depth=1))
    assert idle_of_recvs(trace) == [100, 150]


def test_a_value_exists_no_earlier_than_its_send_begins(tmp_path: Path) -> None:
    """The wait is measured where the value will be, from when the request arrived there."""
    send = SpanRecord(
        "ps:0", "executor CPU:0", EPOCH + 300, EPOCH + 320, "w_S1", "rendezvous.send", span=7
    )
    early = recv(100, 180, 450)._replace(span=8, link=7)
    late = recv(310, 360, 450, depth=1)._replace(span=9, link=7)
    trace = opened(tmp_path, send, early, late)
    recvs = trace.all.take(trace.all.is_kind("rendezvous.recv"))
    assert (value_at(trace, recvs) - EPOCH).tolist() == [300, 360]
    assert idle_of_recvs(trace) == [200, 50]
    waits = marks_of(trace, recvs)["wait"]
    assert waits.tolist() == [200, 50]


def test_idle_time_is_what_looking_at_every_nanosecond_gives(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    for turn in range(20):
        begins = random.integers(0, 300, 8)
        ops = [op(at, at + int(random.integers(0, 40))) for at in begins.tolist()]
        asked = random.integers(0, 200, 3).tolist()
        recvs = [
            recv(at, at + int(random.integers(1, 150)), at + 160, depth)
            for depth, at in enumerate(asked)
        ]
        trace = opened(tmp_path / str(turn), *ops, *recvs)
        assert idle_of_recvs(trace) == [brute_force(one, ops, recvs) for one in recvs]


def brute_force(one: SpanRecord, ops: list[SpanRecord], recvs: list[SpanRecord]) -> int:
    """How many ns before the value nothing ran, no other value came and this one was asked for."""
    came = one.start + one.wait
    at = came
    others = {other.start + other.wait for other in recvs}
    while at > one.start and not any(o.start < at <= o.end for o in ops):
        at -= 1
        if at in others:
            break
    return came - at


def test_ops_have_no_wait(tmp_path: Path) -> None:
    trace = opened(tmp_path, op(0, 10), recv(20, 30, 40))
    assert idle_wait(trace, trace.all)[trace.all.is_kind("op.run")].tolist() == [0]
