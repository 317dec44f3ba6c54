"""The local rendezvous against the probes of the real C++ class (golden/e_rendezvous.json)."""

import gc
import json
import threading
from pathlib import Path

import pytest
import torch

from tests.runtime.graphs import PS_0, WORKER_1
from tracer.model.step import RendezvousKey, RendezvousKeyError, SpanContext
from tracer.runtime.devices import make_devices
from tracer.runtime.interfaces import Received, StepError
from tracer.runtime.rendezvous import LocalRendezvous
from tracer.runtime.worker import Worker
from tracer.runtime.worker_cache import WorkerCache
from tracer.runtime.worker_env import WorkerEnv

PROBES = {
    row["probe"]: row["observed"]
    for row in json.loads(
        (Path(__file__).parent.parent / "golden" / "e_rendezvous.json").read_text()
    )["in_process_rendezvous_probes"]
}
ABORTED = StepError("ABORTED", "step aborted by test")
KEY = "key"


class Box:
    """Waiting recvs, written as the probes write them."""

    def __init__(self) -> None:
        self.got: list[Received] = []
        self.threads: list[int] = []

    def __call__(self, received: Received) -> None:
        self.got.append(received)
        self.threads.append(threading.get_ident())

    def __str__(self) -> str:
        return " / ".join(map(told, self.got)) if self.got else "pending"


def told(received: Received) -> str:
    if received.error is not None:
        return f"{received.error.code}: {received.error.message}"
    value = "(uninitialized tensor)" if received.tensor is None else int(received.tensor)
    return f"OK is_dead={int(received.is_dead)} value={value}"


def send(rendezvous: LocalRendezvous, value: int, key: str = KEY) -> str:
    try:
        rendezvous.send(key, torch.tensor(value))
    except StepError as error:
        return f"{error.code}: {error.message}"
    return "OK"


def recv(rendezvous: LocalRendezvous, key: str = KEY) -> Box:
    box = Box()
    rendezvous.recv(key, box)
    return box


@pytest.fixture
def rendezvous() -> LocalRendezvous:
    return LocalRendezvous()


def test_a_sent_value_waits_for_its_recv_and_is_gone_after_it(rendezvous: LocalRendezvous) -> None:
    send(rendezvous, 1)
    assert str(recv(rendezvous)) == PROBES["Send then Recv"]
    second = recv(rendezvous)
    assert str(second) == "pending"
    assert rendezvous.unsent() == [KEY]


def test_a_waiting_recv_is_called_on_the_senders_thread_before_send_returns(
    rendezvous: LocalRendezvous,
) -> None:
    waiting = recv(rendezvous)
    seen: list[str] = []

    def sender() -> None:
        send(rendezvous, 2)
        seen.append(str(waiting))

    thread = threading.Thread(target=sender)
    thread.start()
    thread.join()
    expected = PROBES[
        "Recv before Send: callback has run before Send returns; on the sender's thread?"
    ]
    on_senders_thread = "yes" if waiting.threads == [thread.ident] else "no"
    assert (
        expected
        == f"before_send=no after_send=yes on_senders_thread={on_senders_thread} -> {seen[0]}"
    )


def test_equal_keys_queue_first_in_first_out(rendezvous: LocalRendezvous) -> None:
    both = f"{send(rendezvous, 1)} / {send(rendezvous, 2)}"
    assert both == PROBES["two Sends of one key: statuses"]
    assert str(recv(rendezvous)) == PROBES["... first Recv"]
    assert str(recv(rendezvous)) == PROBES["... second Recv"]
    assert str(recv(rendezvous)) == "pending"


def test_two_waiting_recvs_are_served_in_order(rendezvous: LocalRendezvous) -> None:
    first, second = recv(rendezvous), recv(rendezvous)
    send(rendezvous, 1)
    assert f"{first} / {second}" == PROBES["two waiting Recvs, one Send: first / second"]
    send(rendezvous, 2)
    assert f"{first} / {second}" == PROBES["... after another Send: first / second"]


def test_iterations_are_different_keys(rendezvous: LocalRendezvous) -> None:
    send(rendezvous, 1, "k;0:0")
    assert str(recv(rendezvous, "k;0:1")) == "pending"
    assert rendezvous.unreceived() == ["k;0:0"]


def test_a_dead_value_travels_as_dead(rendezvous: LocalRendezvous) -> None:
    rendezvous.send(KEY, None, is_dead=True)
    assert str(recv(rendezvous)) == PROBES["dead Send, then Recv"]


def test_the_first_abort_ends_everything_before_and_after(rendezvous: LocalRendezvous) -> None:
    waiting = recv(rendezvous)
    send(rendezvous, 1, "sent before")
    rendezvous.abort(ABORTED)
    assert str(waiting) == PROBES["StartAbort with a waiting Recv: its callback gets"]
    assert (
        str(recv(rendezvous, "sent before"))
        == PROBES["Recv after abort, for a key whose Send had come before the abort"]
    )
    assert str(recv(rendezvous)) == PROBES["Recv after abort, other key"]
    assert send(rendezvous, 1) == PROBES["Send after abort"]
    rendezvous.abort(StepError("INTERNAL", "another"))
    assert (
        str(recv(rendezvous))
        == PROBES["Recv after a second StartAbort with another status (first one wins?)"]
    )
    assert not rendezvous.unsent() + rendezvous.unreceived()


def test_a_cancelled_recv_is_derived_and_leaves_its_key_usable(
    rendezvous: LocalRendezvous,
) -> None:
    waiting = recv(rendezvous)
    rendezvous.cancel(KEY, waiting)
    expected = PROBES["Recv waiting, its step's CancellationManager cancelled"]
    assert expected.startswith(str(waiting))
    assert waiting.got[0].error is not None
    assert waiting.got[0].error.derived
    sent = send(rendezvous, 3)
    assert f"{sent} / {recv(rendezvous)}" == PROBES["... then Send and a new Recv of the same key"]
    at_once = recv(rendezvous)
    rendezvous.cancel(KEY, at_once)
    assert PROBES["... Recv with an already cancelled manager"].startswith(str(at_once))
    rendezvous.cancel(KEY, waiting)  # a second time, when nothing waits: nothing happens
    assert len(waiting.got) == 1


def test_a_key_is_written_as_tensorflow_writes_it() -> None:
    key = RendezvousKey(str(PS_0.device()), 7890, str(WORKER_1.device()), "edge_3_a")
    plain = PROBES["CreateKey(src, incarnation=7890, dst, 'edge_3_a', frame 0 iter 0)"]
    assert str(key) == plain
    of_loop = PROBES["CreateKey(... incarnation=2^64-1, frame 12 iter 3)"]
    assert str(key._replace(incarnation=2**64 - 1, frame=12, iteration=3)) == of_loop
    parsed = RendezvousKey.parse(plain)
    kept = (
        f"OK src_device={parsed.src_device} src_incarnation={parsed.incarnation} "
        f"dst_device={parsed.dst_device} edge_name={parsed.edge_name}"
    )
    assert kept == PROBES["ParseKey of that key: what is kept apart"]


PARSED = [probe[10:-2] for probe in PROBES if probe.startswith("ParseKey('")]


@pytest.mark.parametrize("text", PARSED)
def test_a_key_is_refused_where_tensorflow_refuses_it(text: str) -> None:
    answer = PROBES[f"ParseKey('{text}')"]
    if answer == "OK":
        assert RendezvousKey.parse(text).src_device == "/job:ps"
        return
    with pytest.raises(RendezvousKeyError) as caught:
        RendezvousKey.parse(text)
    assert f"INVALID_ARGUMENT: {caught.value}".startswith(answer)
    worker = Worker(WorkerEnv(PS_0, make_devices(PS_0, ["cpu:0"])), WorkerCache())
    got = Box()
    worker.recv_tensor(1, text, 0, SpanContext(0, 1, sampled=False), got)
    assert str(got).startswith(answer)


def test_a_recv_that_nobody_serves_waits_where_tensorflows_gives_up(
    rendezvous: LocalRendezvous,
) -> None:
    """The probes wait 50 ms; here a recv waits for ever, and its step has the time limit."""
    for probe in (
        "second Recv of the same key, timeout 50 ms (the value was consumed by the first)",
        "... third Recv (timeout 50 ms)",
        "Send for iteration 0, Recv for iteration 1 (timeout 50 ms): different keys",
    ):
        assert PROBES[probe] == "DEADLINE_EXCEEDED: Timed out waiting for notification"
    send(rendezvous, 1, "k;0:0")
    late = [recv(rendezvous, key) for key in ("k;0:1", "k;0:0", "k;0:0")]
    assert list(map(str, late)) == ["pending", "OK is_dead=0 value=1", "pending"]
    rendezvous.abort(StepError("DEADLINE_EXCEEDED", "Timed out waiting for notification"))
    assert {str(late[0]), str(late[2])} == {PROBES[probe]}


def test_a_rendezvous_that_is_dropped_calls_nobody() -> None:
    waiting = recv(LocalRendezvous())
    gc.collect()
    dropped = "rendezvous dropped (last Unref by the user) with a waiting Recv: callback gets"
    assert str(waiting) == PROBES[dropped]


def test_every_probe_has_its_story() -> None:
    """One of them is a speed of another language's: "speed of the local rendezvous"."""
    here = Path(__file__).read_text()
    told = {p for p in PROBES if p in here} | {f"ParseKey('{text}')" for text in PARSED}
    assert len(PROBES) == 31
    assert not PROBES.keys() - told


def test_many_senders_and_receivers_lose_and_double_nothing(rendezvous: LocalRendezvous) -> None:
    keys = [f"k{i}" for i in range(200)]
    boxes = {key: Box() for key in keys}

    def send_some(first: int) -> None:
        for i in range(first, len(keys), 2):
            send(rendezvous, i, keys[i])

    def recv_some(first: int) -> None:
        for key in keys[first : first + 100]:
            rendezvous.recv(key, boxes[key])

    threads = [threading.Thread(target=send_some, args=(first,)) for first in (0, 1)]
    threads += [threading.Thread(target=recv_some, args=(first,)) for first in (0, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [int(boxes[k].got[0].tensor) for k in keys] == list(range(200))  # type: ignore[arg-type]
    assert {len(box.got) for box in boxes.values()} == {1}
    assert not rendezvous.unsent() + rendezvous.unreceived()
