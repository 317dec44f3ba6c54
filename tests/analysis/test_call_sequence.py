"""The calls of a step: who called whom and when, and which of them are told as one."""

from pathlib import Path
from typing import Any

import pytest

from tests.store.sample_trace import EPOCH, training_step, write_trace
from tracer.model.trace_folder import Flag
from vizdist.analysis.call_sequence import CLIENT, FEW, UNKNOWN, Call, bundled, call_sequence
from vizdist.analysis.mechanisms.calls import methods_of
from vizdist.store.columns import SpanRecord
from vizdist.store.trace import Trace, open_trace


def call_pair(
    at: int, span: int, method: str, client: str, server: str, **client_side: Any
) -> list[SpanRecord]:
    """A call of 100 ns, served from the 20th to the 80th."""
    trace: dict[str, Any] = {"step": 1, "trace_hi": 7, "trace_lo": 1}
    begin = EPOCH + at
    asked = SpanRecord(client, "rpc", begin, begin + 100, method, "rpc.client", span=span, **trace)
    served = SpanRecord(
        server, "rpc", begin + 20, begin + 80, method, "rpc.server", span=span + 1, parent=span,
        **trace,
    )  # fmt: skip
    return [asked._replace(**client_side), served]


def trace_of(folder: Path, *more: list[SpanRecord], client: str = "worker:0") -> Trace:
    root, *rest = training_step(1)
    spans = [root._replace(task=client), *rest, *(span for pair in more for span in pair)]
    return open_trace(write_trace(folder / "t.trace", spans))


def call(sent: int, method: str = "RecvTensor", target: str = "ps:0") -> Call:
    return Call(
        method, "worker:0", target, sent, sent + 1, sent + 2, sent + 3, sent + 4, 8, "w", "", "0a",
        is_notice=False, is_dead=False, is_control=False, is_deferred=False, is_failed=False,
        is_unfinished=False,
    )  # fmt: skip


def test_a_recv_tensor_is_held_until_its_value_exists(tmp_path: Path) -> None:
    trace = trace_of(tmp_path)
    found = call_sequence(trace, trace.steps[0])
    assert found is not None
    [one] = found.calls
    assert (one.method, one.source, one.target) == ("RecvTensor", "worker:0", "ps:0")
    times = (one.sent, one.served, one.exists, one.answered, one.done)
    assert times == (410, 450, 500, 560, 590)
    assert (found.is_local, found.lifelines) == (True, [CLIENT, "worker:0", "ps:0"])


def test_a_client_that_asks_a_master_has_a_lifeline_of_its_own(tmp_path: Path) -> None:
    asked = call_pair(10, 900, "RunStep", "launcher", "worker:0")
    run = call_pair(40, 902, "RunGraph", "worker:0", "ps:0")
    trace = trace_of(tmp_path, asked, run, client="launcher")
    found = call_sequence(trace, trace.steps[0])
    assert found is not None
    assert (found.master, found.is_local) == ("worker:0", False)
    ends = [(one.method, one.source, one.target) for one in found.calls]
    assert ends == [
        ("RunStep", CLIENT, "worker:0"),
        ("RunGraph", "worker:0", "ps:0"),
        ("RecvTensor", "worker:0", "ps:0"),
    ]


def test_a_graph_that_is_registered_while_its_step_waits_is_told_with_it(tmp_path: Path) -> None:
    inside, before = (
        [span._replace(step=0, trace_lo=99) for span in
         call_pair(at, number, "RegisterGraph", "worker:0", "ps:0")]
        for at, number in ((20, 900), (-300, 902))
    )  # fmt: skip
    trace = trace_of(tmp_path, inside, before)
    found = call_sequence(trace, trace.steps[0])
    assert found is not None
    assert [one.method for one in found.calls] == ["RegisterGraph", "RecvTensor"]


def test_a_call_that_nobody_took_is_known_by_its_caller_alone(tmp_path: Path) -> None:
    asked, _ = call_pair(30, 900, "RunGraph", "worker:0", "ps:0", flags=Flag.ERROR)
    trace = trace_of(tmp_path, [asked])
    found = call_sequence(trace, trace.steps[0])
    assert found is not None
    lost = found.calls[0]
    assert (lost.served, lost.exists, lost.is_failed, lost.is_notice) == (
        UNKNOWN, UNKNOWN, True, False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "is_value"), [(0, True), (Flag.CONTROL, False), (Flag.ERROR, True)]
)
def test_whether_a_call_brings_a_value_is_known_by_the_recv_of_its_key(
    tmp_path: Path, flags: int, is_value: bool
) -> None:
    root, *rest = training_step(1)
    key = rest[1].key
    changes: dict[str, dict[str, Any]] = {
        "rendezvous.recv": {"flags": flags}, "rpc.client": {"key": key}
    }  # fmt: skip
    spans = [root, *(span._replace(**changes.get(span.kind, {})) for span in rest)]
    trace = open_trace(write_trace(tmp_path / "t.trace", spans))
    found = call_sequence(trace, trace.steps[0])
    assert found is not None
    [one] = found.calls
    assert (one.key, one.is_control, one.is_value) == (key, not is_value, is_value)


def test_calls_of_one_kind_that_follow_closely_are_one_bundle() -> None:
    near = [call(0), call(10), call(30), call(900), call(20, target="ps:1")]
    sizes = [(len(one.calls), one.calls[0].target) for one in bundled(near, 1000)]
    assert sizes == [(3, "ps:0"), (1, "ps:1"), (1, "ps:0")]


def test_of_many_bundles_all_calls_of_one_kind_are_one() -> None:
    far = [call(100 * at) for at in range(FEW + 1)]
    [one] = bundled([*far], 100 * len(far))
    assert (len(one.calls), one.bytes) == (FEW + 1, 8 * (FEW + 1))
    assert len(bundled(far[:FEW], 100 * FEW)) == FEW


@pytest.mark.parametrize("known", [True, False])
def test_methods_are_counted_by_pair_with_the_times_of_their_callers(
    tmp_path: Path, known: bool
) -> None:
    more = [call_pair(at, 900 + at, "RecvTensor", "ps:0", "worker:0") for at in (0, 10, 20)]
    pairs = more if known else [[asked] for asked, _ in more]
    trace = trace_of(tmp_path, *pairs)
    found = methods_of(trace, trace.all.take(trace.all.is_kind("rpc.client")))
    assert [(one.client, one.server, one.count, one.p50_ns) for one in found] == [
        ("ps:0", "worker:0" if known else "", 3, 100),
        ("worker:0", "ps:0", 1, 180),
    ]
