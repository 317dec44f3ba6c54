"""RecvTensor between two processes, 1 KB and 64 MB, over either transport in turn. Prints JSON.

A block is pulls one after another, by a thread that waits for each. CPU is of both processes.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import psutil
import torch

from tests.bench.blocks import spread
from tracer.launch.environment import process_settings
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.collective import Arrival
from tracer.model.graph import Graph
from tracer.model.step import SpanContext
from tracer.rpc.channels import NOT_SAMPLED
from tracer.rpc.server import serve
from tracer.rpc.transport import Transport
from tracer.rpc.worker_stub import RemoteWorker
from tracer.runtime.interfaces import (
    ExecutionDone,
    Received,
    RecvDone,
    RunDone,
    RunGraphRequest,
    ServedWorker,
    StepError,
    WorkerStatus,
)

PS = TaskName("ps", 0)
BLOCKS = 20
SIZES = {"1 KB": (1 << 10, 500), "64 MB": (64 << 20, 2)}  #: bytes, pulls a block


class Source(ServedWorker):
    """Answers every pull at once, with as many bytes as the key says."""

    task = PS

    def __init__(self) -> None:
        self._tensors = {
            str(size): torch.zeros(size, dtype=torch.uint8) for size, _ in SIZES.values()
        }

    def recv_tensor(
        self, step_id: int, key: str, request_id: int, context: SpanContext, done: RecvDone
    ) -> None:
        done(Received(self._tensors[key]))

    def mark_recv_finished(self, request_id: int) -> None: ...

    def complete_instance(
        self, arrival: Arrival, context: SpanContext, done: ExecutionDone
    ) -> None: ...

    def peer_was_lost(self, task: str, error: StepError) -> None: ...

    def get_status(self, _: SpanContext | None = None, /) -> WorkerStatus:
        return WorkerStatus(())

    def create_worker_session(
        self,
        session: str,
        cluster: ClusterSpec,
        isolated: bool = False,
        context: SpanContext | None = None,
    ) -> None: ...

    def delete_worker_session(self, session: str) -> None: ...

    def register_graph(
        self, session: str, graph: Graph, context: SpanContext, graph_id: str = ""
    ) -> str:
        return ""

    def deregister_graph(self, session: str, graph_handle: str) -> None: ...

    def run_graph(self, request: RunGraphRequest, done: RunDone) -> None: ...

    def start_abort(self, step_id: int, error: StepError) -> None: ...

    def cleanup_graph(self, step_id: int) -> None: ...

    def cleanup_all(self, containers: tuple[str, ...] = ()) -> None: ...


def source(sockets: Path | None) -> None:
    server = serve(Transport(str(PS), sockets=sockets), Source(), None, "127.0.0.1:0")
    print(server.address, flush=True)
    sys.stdin.read()
    server.stop()


@contextmanager
def dialed(sockets: Path | None) -> Iterator[tuple[RemoteWorker, psutil.Process]]:
    """A stub of a source in a process of its own."""
    child = subprocess.Popen(
        [sys.executable, __file__, "source", *([str(sockets)] if sockets else [])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **process_settings(2)},
    )
    assert child.stdout is not None
    assert child.stdin is not None
    transport = Transport("worker:0", sockets=sockets)
    try:
        address = child.stdout.readline().strip()
        yield RemoteWorker(transport, PS, address), psutil.Process(child.pid)
    finally:
        transport.close()
        child.stdin.close()
        child.wait(10)


def pull(stub: RemoteWorker, size: int) -> None:
    arrived = threading.Event()
    items: list[Received] = []

    def done(item: Received) -> None:
        items.append(item)
        arrived.set()

    stub.recv_tensor(1, str(size), 0, NOT_SAMPLED, done)
    arrived.wait(60)
    tensor = items[0].tensor
    assert tensor is not None
    assert tensor.nbytes == size


def measure(one: Callable[[], None], count: int, other: psutil.Process) -> tuple[float, float]:
    """Wall and CPU microseconds of one pull."""

    def cpu() -> float:
        return sum(sum(p.cpu_times()[:2]) for p in (other, psutil.Process()))

    before, began = cpu(), time.perf_counter()
    for _ in range(count):
        one()
    return (time.perf_counter() - began) * 1e6 / count, (cpu() - before) * 1e6 / count


def main() -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ways = {"grpc": dialed(None), "local": dialed(folder)}
        ends = {way: stack.enter_context(made) for way, made in ways.items()}
        rounds: dict[tuple[str, str], list[tuple[float, float]]] = {
            (name, way): [] for name in SIZES for way in ends
        }
        for number in range(-1, BLOCKS):  # the first is for warming up
            for name, way in list(rounds)[:: 1 if number % 2 else -1]:
                (stub, other), (size, count) = ends[way], SIZES[name]
                block = measure(partial(pull, stub, size), count, other)
                rounds[name, way] += [block] if number >= 0 else []
    report = {
        f"{name} {way}": {
            "us": spread([wall for wall, _ in blocks]),
            "cpu_us": spread([cpu for _, cpu in blocks]),
            "MB_per_s": spread([SIZES[name][0] / wall for wall, _ in blocks]),
        }
        for (name, way), blocks in rounds.items()
    }
    print(json.dumps({"bench": "RecvTensor", "load": os.getloadavg(), **report}, indent=1))


if __name__ == "__main__":
    if sys.argv[1:2] == ["source"]:
        source(Path(sys.argv[2]) if len(sys.argv) > 2 else None)
    elif "MALLOC_MMAP_THRESHOLD_" in os.environ:
        main()
    else:  # the settings of a task, which must be there before torch is loaded
        environment = {**os.environ, **process_settings(2)}
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)
