"""Who came first to a mailbox, and by how much: told from spans whose every instant is known."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.captured import WORKERS
from tests.store.sample_trace import EPOCH, PS, WORKER, training_step, write_trace
from tracer.cli import main as tracer
from tracer.model.trace_folder import Flag
from vizdist.analysis.bytes_moved import bytes_moved
from vizdist.analysis.described import describe
from vizdist.analysis.lit import lit_by
from vizdist.analysis.lit_keys import lit_keys
from vizdist.analysis.mailbox import Mailbox, State, Transfer, crosses, mailbox
from vizdist.analysis.report import report_text
from vizdist.i18n import LANGUAGES, Lang, t
from vizdist.store.trace import Trace, open_trace

KEY = training_step(1)[2].key
LATE = {"start": EPOCH + 490, "end": EPOCH + 500}  #: a Send that comes after its request
Opened = Callable[..., Trace]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """A trace of one step in which spans of some kinds are changed; None takes them out."""
    made = count()

    def open_changed(**changes: Any) -> Trace:
        by_kind = {kind.replace("_", "."): values for kind, values in changes.items()}
        spans = [
            span._replace(**(by_kind.get(span.kind) or {}))
            for span in training_step(1)
            if by_kind.get(span.kind, {}) is not None
        ]
        return open_trace(write_trace(tmp_path / f"{next(made)}.trace", spans))

    return open_changed


def box(trace: Trace) -> Mailbox:
    return mailbox(trace, trace.steps[0])


def only(trace: Trace) -> Transfer:
    [row] = box(trace).rows
    return row


def test_a_receiver_that_came_first_waits_from_its_request_to_the_value(opened: Opened) -> None:
    """The request is at the ps from 450, the value from 500, at the worker at 600."""
    row = only(opened(rendezvous_send=LATE))
    assert (row.first, row.asked_ns, row.wait_ns, row.early_ns) == ("receiver", 400, 50, 0)
    assert row.transfer_ns == 100


def test_a_value_that_came_first_lay_there_until_it_was_asked_for(opened: Opened) -> None:
    """It is handed over at 160 and asked for at 450."""
    row = only(opened(rendezvous_recv={"wait": 0}, rpc_server={"wait": 0}))
    assert (row.first, row.wait_ns, row.early_ns) == ("sender", 0, 450 - 160)


def test_a_wait_shorter_than_a_value_lay_there_was_a_look_up(opened: Opened) -> None:
    row = only(opened(rendezvous_recv={"wait": 6}, rpc_server={"wait": 6}))
    assert (row.first, row.early_ns) == ("sender", 450 - 160)


@pytest.mark.parametrize(
    ("flags", "link", "first", "state"),
    [
        (Flag.REMOTE | Flag.DEAD, 105, "receiver", "dead"),
        (Flag.REMOTE | Flag.ERROR, 0, "nobody", "aborted"),
        (Flag.REMOTE | Flag.UNFINISHED, 0, "nobody", "unfinished"),
    ],
)
def test_a_value_that_is_none_is_told_by_its_state(
    opened: Opened, flags: int, link: int, first: str, state: str
) -> None:
    trace = opened(rendezvous_recv={"flags": flags, "link": link}, rendezvous_send=LATE)
    row = next(row for row in box(trace).rows if row.recv)
    assert (row.first, row.state) == (first, state)


def test_a_request_that_came_before_its_step_is_deferred(opened: Opened) -> None:
    assert only(opened(rendezvous_recv={"flags": Flag.REMOTE | Flag.DEFERRED})).is_deferred
    assert not only(opened()).is_deferred


def test_a_value_that_nobody_asked_for_lies_there_to_the_end_of_the_step(opened: Opened) -> None:
    """From 160 to 1000; it did not move."""
    trace = opened(rendezvous_recv=None)
    row = only(trace)
    assert (row.state, row.first, row.early_ns, row.transfer_ns) == ("unclaimed", "sender", 840, 0)
    assert [one.bytes for one in box(trace).traffic.values()] == [0]


def test_links_hold_the_sums_of_their_mailboxes(opened: Opened) -> None:
    trace = opened()
    traffic = box(trace).traffic
    assert {pair: tuple(one) for pair, one in traffic.items()} == {(PS, WORKER): (1, 256, 50)}
    moved = bytes_moved(trace, trace.steps[0]).by_device
    assert {pair: one.bytes for pair, one in traffic.items()} == dict(moved)


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = tmp_path_factory.mktemp("run") / "loop.trace"
    flags = ["--in-process", "--option", "iterations=5"]
    assert tracer(["run", "cross-device-while", *flags, "--out", str(folder)]) == 0
    return open_trace(folder)


def test_every_recv_and_send_of_a_recorded_loop_is_in_one_mailbox(loop: Trace) -> None:
    """A recount of the spans: key by key, what crossed and what was for the client."""
    spans = loop.spans(step=1)
    recvs = spans.take(spans.is_kind("rendezvous.recv"))
    is_client = (recvs.flags & Flag.CLIENT_EDGE) != 0
    found = box(loop)
    assert sorted(row.key for row in found.rows) == sorted(
        recvs.take(~is_client).text("key").tolist()
    )
    assert sorted(end.key for end in found.client) == sorted(
        recvs.take(is_client).text("key").tolist()
    )
    assert sum(row.state == "dead" for row in found.rows) == int(
        ((recvs.flags & Flag.DEAD) != 0).sum()
    )
    assert sum(one.bytes for one in found.traffic.values()) == int(
        recvs.take(~is_client).bytes.sum()
    )


def test_pieces_of_collectives_lie_in_mailboxes_of_who_asked_for_them(
    captured: Callable[..., Path],
) -> None:
    trace = open_trace(captured(*WORKERS))
    step = trace.step(2, "worker:0")
    hops = trace.spans(step=step, kinds=["collective.hop"])
    found = mailbox(trace, step)
    assert sorted(row.key for row in found.pieces) == sorted(hops.text("key").tolist())
    assert {row.first for row in found.pieces} == {"receiver"}
    [(source, target)] = {(row.source, row.target) for row in found.pieces}
    assert ("task:1" in source, "task:0" in target) == (True, True)
    assert found.traffic[source, target].bytes == hops.bytes.sum()


def test_steps_of_workers_that_meet_are_one_step(captured: Callable[..., Path]) -> None:
    trace = open_trace(captured(*WORKERS))
    moved = bytes_moved(trace)
    hops = trace.spans(kinds=["collective.hop"])
    assert (moved.num_steps, len(trace.steps)) == (4, 8)
    assert moved.per_step == hops.bytes.sum() / 4
    assert set(moved.steps_of_tasks.values()) == {4}


def test_a_span_of_a_pair_lights_the_key_of_both(opened: Opened) -> None:
    trace = opened()
    for span in ("0000000000000067", "0000000000000069"):  # the recv, the send
        lit = lit_keys(trace, {"type": "span", "id": span}, 1)
        assert (lit["keys"], lit["task"]) == ([KEY], "worker:0")


def test_a_link_lights_what_went_along_it_and_nothing_else(opened: Opened) -> None:
    trace = opened()
    for name in ("ps:0→worker:0", "ps:0 CPU:0→worker:0 CPU:0"):
        places = lit_by(trace, {"type": "link", "id": name}, 1).selected
        kinds = trace.all.take(places).text("kind").tolist()
        assert sorted(kinds) == ["rendezvous.recv", "rendezvous.send"]
    for name in ("worker:0→ps:0", "ps:0", "ps:0→"):
        assert not len(lit_by(trace, {"type": "link", "id": name}, 1).selected)


def test_a_selected_link_is_described_by_all_that_went_along_it(opened: Opened) -> None:
    found = describe(opened(), {"type": "link", "id": "ps:0→worker:0"}, 1)
    assert found is not None
    assert (found.title, found.bytes, found.runs) == ("ps:0 → worker:0", 256, 1)
    assert (found.start_ns, found.end_ns, found.step) == (400, 600, 1)
    assert describe(opened(), {"type": "link", "id": "worker:0→ps:0"}, 1) is None


def test_a_selected_key_is_called_by_its_tensor(opened: Opened) -> None:
    found = describe(opened(), {"type": "key", "id": KEY}, 1)
    assert found is not None
    assert found.title == "w"


def test_only_what_leaves_its_device_crosses(opened: Opened) -> None:
    assert crosses(opened())
    assert crosses(opened(rendezvous_recv=None))  # there still is a call
    assert crosses(opened(rpc_client=None))
    fed = {"flags": Flag.CLIENT_EDGE}
    assert not crosses(opened(rpc_client=None, rendezvous_recv=fed))


def test_times_of_a_mailbox_count_from_the_start_of_its_step(opened: Opened) -> None:
    trace = opened()
    assert trace.steps[0].start == EPOCH
    assert only(trace).asked_ns == 400


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_recv_without_an_id_is_one_that_was_asked_for(opened: Opened, lang: Lang) -> None:
    """Spans of other tools need not have ids; the report tells their transfers too."""
    trace = opened(rendezvous_recv={"span": 0}, rendezvous_send=LATE)
    assert [row.state for row in box(trace).rows] == ["done"]
    assert t("mechanisms.transfers.receiver", lang) in report_text(trace, 1, lang)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_state_of_a_transfer_has_a_word(lang: Lang) -> None:
    for state in set(get_args(State)) - {"done"}:
        assert t(f"mechanisms.transfers.{state}", lang)
