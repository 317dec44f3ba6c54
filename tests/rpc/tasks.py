"""Served tasks on loopback, with workers that need no graphs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.rpc.fake_worker import FakeMaster, FakeWorker, numbered
from tracer.model.cluster import TaskName
from tracer.record.recorder import NO_RECORDER, Recorder
from tracer.rpc.channels import NOT_SAMPLED
from tracer.rpc.local_wire import LocalConnection
from tracer.rpc.master_stub import RemoteMaster
from tracer.rpc.server import TaskServer, serve
from tracer.rpc.transport import Transport
from tracer.rpc.worker_stub import RemoteWorker
from tracer.runtime.interfaces import Received, StepError

WAIT_S = 10.0


@dataclass
class Task:
    name: TaskName
    transport: Transport
    worker: FakeWorker
    master: FakeMaster
    server: TaskServer
    sockets: Path | None

    def dial(self, **options: Any) -> RemoteMaster:
        """As a client, the way that tasks talk."""
        return RemoteMaster(self.server.address, sockets=self.sockets, **options)

    def stub_of(self, other: "Task") -> RemoteWorker:
        return RemoteWorker(self.transport, other.name, other.server.address)

    def stop(self) -> None:
        self.server.stop()
        self.transport.close()


def start_task(
    name: str,
    sockets: Path | None = None,
    *,
    secret: str = "",
    address: str = "127.0.0.1:0",
    recorder: Recorder = NO_RECORDER,
) -> Task:
    """With `sockets`, a folder, it talks to others by the sockets there instead of gRPC streams."""
    task = TaskName.parse(name)
    transport = Transport(name, secret=secret, recorder=recorder, sockets=sockets)
    worker, master = FakeWorker(task), FakeMaster()
    server = serve(transport, worker, master, address)
    return Task(task, transport, worker, master, server, sockets)


@contextmanager
def tasks(*names: str, sockets: Path | None, secret: str = "") -> Iterator[list[Task]]:
    started = [start_task(name, sockets, secret=secret) for name in names]
    try:
        yield started
    finally:
        for task in started:
            task.stop()


def without_shared_memory(task: Task, peer: Task) -> None:
    """What `task` sends `peer` goes by the stream from here on, as if the slab were full."""
    connection = task.transport.open_connection(peer.server.address)
    if isinstance(connection, LocalConnection):
        connection.pipe.slab = None


class Arrivals:
    """A `done` callback whose values a test can wait for."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.threads: set[str] = set()
        self._more = threading.Condition()

    def __call__(self, item: Any) -> None:
        with self._more:
            self.items.append(item)
            self.threads.add(threading.current_thread().name)
            self._more.notify_all()

    def wait(self, count: int = 1) -> list[Any]:
        with self._more:
            assert self._more.wait_for(lambda: len(self.items) >= count, WAIT_S), (
                f"{len(self.items)} of {count} came in {WAIT_S} s"
            )
            return self.items

    def error(self) -> StepError:
        error = self.wait()[0].error
        assert isinstance(error, StepError)
        return error


def pull(stub: RemoteWorker, key: str, step_id: int = 1) -> Arrivals:
    arrivals = Arrivals()
    stub.recv_tensor(step_id, key, 0, NOT_SAMPLED, arrivals)
    return arrivals


def eventually(true: Callable[[], bool], what: str) -> None:
    """Waits, within bounds, for something that no callback announces."""
    tick = threading.Event()
    for _ in range(int(WAIT_S / 0.01)):
        if true():
            return
        tick.wait(0.01)
    raise AssertionError(f"not within {WAIT_S} s: {what}")


def received(arrivals: Arrivals) -> Received:
    item = arrivals.wait()[0]
    assert isinstance(item, Received)
    return item


def pull_sent(stub: RemoteWorker, task: Task, key: str) -> Arrivals:
    task.worker.table(1).send(key, numbered(3), span=11)
    return pull(stub, key)
