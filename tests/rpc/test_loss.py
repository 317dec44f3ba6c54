"""What happens to calls when the other side goes away, hangs, or is somebody else."""

import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
import torch

from tests.rpc.fake_worker import numbered
from tests.rpc.tasks import (
    WAIT_S,
    Arrivals,
    Task,
    eventually,
    pull,
    received,
    start_task,
    tasks,
    without_shared_memory,
)
from tracer.model.cluster import TaskName
from tracer.rpc.channels import NOT_SAMPLED, STREAM, STREAM_SERVICE
from tracer.rpc.frames import START_ABORT, small_frame
from tracer.rpc.hello import hello_message, read_hello
from tracer.rpc.local_socket import receive_message, send_message
from tracer.rpc.local_wire import read_welcome
from tracer.rpc.master_stub import RemoteMaster
from tracer.rpc.messages import Hello, encode_step_notice
from tracer.rpc.worker_stub import RemoteWorker
from tracer.runtime.interfaces import RunGraphRequest, RunStepRequest, StepDone, StepError


@contextmanager
def pair(sockets: Path | None) -> Iterator[tuple[Task, Task]]:
    with tasks("ps:0", "worker:0", sockets=sockets) as (ps, worker):
        yield ps, worker


def run_waiting(stub: RemoteWorker, step_id: int) -> Arrivals:
    arrivals = Arrivals()
    stub.run_graph(RunGraphRequest("s", "wait", step_id, NOT_SAMPLED), arrivals)
    return arrivals


def test_a_task_that_goes_fails_every_call_to_it_at_once(sockets: Path | None) -> None:
    with pair(sockets) as (ps, worker):
        stub = worker.stub_of(ps)
        calls = [run_waiting(stub, 1), *(pull(stub, f"k{i}") for i in range(20))]
        eventually(lambda: len(ps.worker.running) == 1, "the run arrived")
        ps.server.stop()
        for call in calls:
            error = call.error()
            assert (error.code, error.task) == ("UNAVAILABLE", "ps:0")
            assert f"ps:0 at {ps.server.address}" in error.message
        assert pull(stub, "later").error().code == "UNAVAILABLE"


def test_a_task_that_comes_back_on_its_address_is_found_again(sockets: Path | None) -> None:
    with pair(sockets) as (ps, worker):
        stub = worker.stub_of(ps)
        first = pull(stub, "k")
        ps.stop()
        assert first.error().code == "UNAVAILABLE"
        again = start_task("ps:0", sockets, address=ps.server.address)
        try:
            eventually(lambda: _answers(stub), "the task that came back answers")
            again.worker.table(1).send("k", numbered(2))
            assert received(pull(stub, "k")).error is None
        finally:
            again.stop()


def _answers(stub: RemoteWorker) -> bool:
    try:
        stub.get_status()
    except StepError:
        return False
    return True


def test_steps_of_a_master_that_is_gone_are_aborted_and_cleaned_up(sockets: Path | None) -> None:
    with pair(sockets) as (ps, worker):
        stub = worker.stub_of(ps)
        run_waiting(stub, 1)
        run_waiting(stub, 2)
        stub.cleanup_graph(2)
        eventually(lambda: ps.worker.cleaned == [2], "the second step is over")
        worker.stop()
        eventually(lambda: ps.worker.cleaned == [2, 1], "the first step is cleaned up")
        assert ps.worker.aborted[1].code == "UNAVAILABLE"
        assert "worker:0" in ps.worker.aborted[1].message


def test_nothing_is_kept_of_a_peer_that_went_away_in_the_middle_of_a_large_answer(
    sockets: Path | None,
) -> None:
    with pair(sockets) as (ps, worker):
        stub = worker.stub_of(ps)
        run_waiting(stub, 1)
        eventually(lambda: len(ps.worker.running) == 1, "the two are joined")
        without_shared_memory(ps, worker)
        ps.worker.table(1).send("k", torch.empty(256 << 20, dtype=torch.uint8))
        pull(stub, "k")
        frames = ps.server._frames
        eventually(lambda: len(frames.under_way) == 1, "the answer is under way")
        worker.stop()
        eventually(lambda: not len(frames.under_way), "the answer is given up")


def test_a_peer_that_was_lost_is_told_no_farewell_where_it_might_hang(
    sockets: Path | None,
) -> None:
    with pair(sockets) as (ps, worker):
        stub = worker.stub_of(ps)
        lost = pull(stub, "k")
        host, _, port = ps.server.address.rpartition(":")
        ps.stop()
        loss = lost.error()
        with socket.socket() as mute:  # it lets in, and says nothing
            mute.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            mute.bind((host, int(port)))
            mute.listen()
            for say in (stub.delete_worker_session, lambda s: stub.deregister_graph(s, "h")):
                with pytest.raises(StepError) as info:
                    say("s")
                assert info.value is loss


def test_a_task_that_is_nowhere_is_named_with_address_and_reason(sockets: Path | None) -> None:
    with tasks("worker:0", sockets=sockets) as (worker,):
        stub = RemoteWorker(worker.transport, TaskName("ps", 3), "127.0.0.1:1")
        error = pull(stub, "k").error()
        assert (error.code, error.task) == ("UNAVAILABLE", "ps:3")
        assert "ps:3 at 127.0.0.1:1" in error.message
        assert ("nobody answers at its socket" if sockets else "refused") in error.message
        with pytest.raises(StepError, match=r"ps:3 at 127\.0\.0\.1:1.*refused"):
            stub.get_status()
        stub.cleanup_graph(1)  # needs no telling, and dials nobody


def test_another_task_at_the_address_is_not_taken_for_the_one_meant(sockets: Path | None) -> None:
    with pair(sockets) as (ps, worker):
        stub = RemoteWorker(worker.transport, TaskName("ps", 1), ps.server.address)
        error = pull(stub, "k").error()
        assert "this is ps:0, not ps:1" in error.message
        assert ps.worker.tables == {}


def test_a_client_sees_its_master_go(sockets: Path | None) -> None:
    with tasks("worker:0", sockets=sockets) as (worker,):
        client = worker.dial()
        started: list[StepDone] = []

        def stop_midway(_: RunStepRequest, done: StepDone) -> None:
            started.append(done)
            worker.server.hang_up()

        worker.master.on_step = stop_midway
        with pytest.raises(StepError, match="worker:0 at") as info:
            client.run_step(RunStepRequest("s", {}, (), (), NOT_SAMPLED))
        assert info.value.code == "UNAVAILABLE"
        client.close()


@pytest.mark.parametrize(
    "first", [b"GET / HTTP/1.1\r\n\r\n", b"", bytes(16), b"\0\0\0\0\x01" + bytes(11)]
)
def test_a_stranger_on_the_stream_is_refused_in_words(first: bytes) -> None:
    with tasks("ps:0", sockets=None) as (ps,), grpc.insecure_channel(ps.server.address) as channel:
        method: Any = channel.stream_stream(f"/{STREAM_SERVICE}/{STREAM}")
        call = method(iter([first]))
        with pytest.raises(grpc.RpcError) as info:
            list(call)
        assert info.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert info.value.details()
        assert ps.stub_of(ps).get_status().pid == 7


LARGE_KEY = "a tensor that no slab holds"
_CHILD = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
import torch
from tests.rpc.tasks import start_task
task = start_task("ps:0", {sockets})
task.worker.table(1).send({key!r}, torch.empty(1 << 30, dtype=torch.uint8))
print(task.server.address, flush=True)
sys.stdin.read()
"""


@contextmanager
def task_process(sockets: Path | None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A ps in a process of its own, and its address."""
    root = str(Path(__file__).parents[2])
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            _CHILD.format(root=root, key=LARGE_KEY, sockets=sockets and f"Path({str(sockets)!r})"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    with child:
        try:
            yield child, child.stdout.readline().strip()
        finally:
            child.kill()


@pytest.mark.cluster
def test_a_process_killed_in_the_middle_of_a_tensor_fails_the_pull(sockets: Path | None) -> None:
    with task_process(sockets) as (child, address), tasks("worker:0", sockets=sockets) as (worker,):
        stub = RemoteWorker(worker.transport, TaskName("ps", 0), address)
        arrivals = pull(stub, LARGE_KEY)
        connection = worker.transport.open_connection(address)
        assert connection is not None
        eventually(lambda: connection.reader.num_partial == 1, "the first chunk is here")
        child.kill()
        error = arrivals.error()
        assert (error.code, error.task) == ("UNAVAILABLE", "ps:0")
        assert f"ps:0 at {address}" in error.message
        assert pull(stub, "k").error().code == "UNAVAILABLE"


def test_a_peer_that_dies_within_a_frame_fails_its_calls_and_nothing_else() -> None:
    with tempfile.TemporaryDirectory() as folder, tasks("ps:0", sockets=Path(folder)) as (ps,):
        with socket.socket(socket.AF_UNIX) as torn:
            torn.connect(str(Path(folder) / ps.server.address))
            assert read_hello(receive_message(torn)[0]).task == "ps:0"
            send_message(torn, hello_message(Hello("worker:0", "", "both", 0)), [])
            read_welcome(*receive_message(torn))
            whole = b"".join(
                small_frame(START_ABORT, 0, encode_step_notice(1, NOT_SAMPLED, None))[0]
            )
            torn.sendall(struct.pack("<Q", len(whole)) + whole[:-5])
            local = ps.transport.local
            assert local is not None
            eventually(lambda: len(local._guests) == 1, "it was let in")
        eventually(lambda: not local._guests, "its end was seen")
        assert ps.worker.aborted == {}  # half a message is none
        assert ps.stub_of(ps).get_status().pid == 7


def test_a_stranger_on_the_socket_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    with tempfile.TemporaryDirectory() as folder, tasks("ps:0", sockets=Path(folder)) as (ps,):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(str(Path(folder) / ps.server.address))
            receive_message(stranger)
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            with suppress(ConnectionResetError):
                assert stranger.recv(1) == b""
        assert "a stream was refused" in caplog.text
        assert ps.stub_of(ps).get_status().pid == 7


@pytest.mark.cluster
def test_a_killed_process_is_noticed_at_once(sockets: Path | None) -> None:
    with task_process(sockets) as (child, address), tasks("worker:0", sockets=sockets) as (worker,):
        stub = RemoteWorker(worker.transport, TaskName("ps", 0), address)
        assert stub.get_status().pid == 7
        waiting = [pull(stub, "k"), run_waiting(stub, 1)]
        child.kill()
        for call in waiting:
            error = call.error()
            assert error.code == "UNAVAILABLE"
            assert f"ps:0 at {address}" in error.message


@pytest.mark.cluster
@pytest.mark.slow
def test_a_client_gives_up_a_master_that_hangs(sockets: Path | None) -> None:
    with task_process(sockets) as (child, address):
        client = RemoteMaster(address, sockets=sockets)
        request = RunStepRequest("s", {"x": numbered(2)}, (), (), NOT_SAMPLED)
        assert client.run_step(request).fetched["x"].tolist() == [0, 2]
        child.send_signal(signal.SIGSTOP)
        hung = psutil.Process(child.pid)
        eventually(lambda: hung.status() == psutil.STATUS_STOPPED, "it is stopped")
        began = time.monotonic()
        with pytest.raises(StepError, match=f"ps:0 at {address}") as info:
            client.run_step(request)
        assert info.value.code == "UNAVAILABLE"
        assert time.monotonic() - began < 30  # not the 70 s that a step may take
        client.close()


def test_a_transport_that_was_closed_dials_nobody(sockets: Path | None) -> None:
    with tasks("ps:0", "worker:0", sockets=sockets) as (ps, worker):
        stub = worker.stub_of(ps)
        worker.transport.close()
        assert pull(stub, "k").error().code == "CANCELLED"
        assert worker.transport.num_dialed == 0


def test_a_rare_call_that_our_own_closing_cuts_off_is_an_error_in_words(
    sockets: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tasks("ps:0", "worker:0", sockets=sockets) as (ps, worker):
        under_way, errors = threading.Event(), []

        def slow(*_: object) -> None:
            under_way.set()
            time.sleep(0.3)

        def ask() -> None:
            with pytest.raises(StepError, match="worker:0 closed its connections") as info:
                worker.stub_of(ps).deregister_graph("s", "h")
            errors.append(info.value.code)

        monkeypatch.setattr(ps.worker, "deregister_graph", slow)
        asking = threading.Thread(target=ask)
        asking.start()
        assert under_way.wait(WAIT_S)
        worker.transport.close()
        asking.join(WAIT_S)
        assert errors == ["CANCELLED"]


@pytest.mark.cluster
@pytest.mark.slow
def test_a_process_that_hangs_is_given_up_after_six_seconds(sockets: Path | None) -> None:
    with task_process(sockets) as (child, address), tasks("worker:0", sockets=sockets) as (worker,):
        stub = RemoteWorker(worker.transport, TaskName("ps", 0), address)
        arrivals = Arrivals()
        stub.run_graph(RunGraphRequest("s", "any", 1, NOT_SAMPLED), arrivals)
        arrivals.wait()
        waiting = pull(stub, "k")

        async def is_ready() -> bool:
            channel = worker.transport.channel(address)
            return channel.get_state() is grpc.ChannelConnectivity.READY

        loop = worker.transport.loop
        eventually(lambda: loop.call(is_ready(), WAIT_S), "its pings are answered")
        child.send_signal(signal.SIGSTOP)
        error = waiting.error()
        assert error.code == "UNAVAILABLE"
        assert f"ps:0 at {address}" in error.message
