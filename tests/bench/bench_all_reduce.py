"""All-reduce of 64 MB by two processes: torch.distributed alone, and ours. Prints JSON.

Ways take turns, a block of a few each: `gloo` is torch.distributed without us (in place, no step
around it); `native` the same behind our checks, as a step of a session; `visible` the ring hop by
hop over gRPC, `visible-local` over unix sockets and shared memory. A ratio is gloo's time by ours,
the median over pairs of neighbouring blocks. CPU is of both processes. Names choose ways; BENCH_MB
says another size.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import torch
import torch.distributed

from tracer.launch.environment import process_settings
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.graph_builder import GraphBuilder
from tracer.record.recorder import NO_RECORDER
from tracer.rpc.channels import NOT_SAMPLED
from tracer.rpc.master_stub import RemoteMaster
from tracer.runtime.session import NO_TRACING, Session
from tracer.server import Server, ServerConfig
from tracer.strategies.collective_nodes import CollectiveGroup, CollectiveKeys

RANKS = 2
SIZE_MB = int(os.environ.get("BENCH_MB", "64"))
ELEMENTS = SIZE_MB * (1 << 20) // 4
BLOCKS = int(os.environ.get("BENCH_BLOCKS", "12"))
EACH = 3  #: all-reduces a block

Way = Callable[[int], float]  # runs so many, gives the seconds
dist: Any = torch.distributed


def gloo_rank(rank: int, path: str) -> None:
    """Runs as many as each line of standard input says, and tells the seconds."""
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=RANKS)
    tensor = torch.ones(ELEMENTS)
    print("ready", flush=True)
    for line in sys.stdin:
        dist.barrier()
        began = time.perf_counter()
        for _ in range(int(line)):
            dist.all_reduce(tensor)
        took = time.perf_counter() - began
        tensor.fill_(1.0)
        print(took, flush=True)
    os._exit(0)


def serve(task: int, sockets: str) -> None:
    """Says its address, hears the cluster's, serves until standard input ends."""
    folder = Path(sockets) if sockets else None
    config = ServerConfig(NO_RECORDER, NOT_SAMPLED, sockets=folder)
    server = Server(TaskName("worker", task), ("cpu:0",), config)
    print(server.address, flush=True)
    server.join(cluster_at(json.loads(sys.stdin.readline())))
    sys.stdin.read()
    os._exit(0)


def cluster_at(addresses: list[str]) -> ClusterSpec:
    return ClusterSpec({"worker": dict(enumerate(addresses))})


def start(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.bench.bench_all_reduce", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**process_settings(RANKS), **os.environ},
    )


def said(child: "subprocess.Popen[str]") -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def tell(child: "subprocess.Popen[str]", line: str) -> None:
    assert child.stdin is not None
    child.stdin.write(line + "\n")
    child.stdin.flush()


@contextmanager
def children(commands: list[list[str]]) -> Iterator[list["subprocess.Popen[str]"]]:
    started = [start(*words) for words in commands]
    try:
        yield started
    finally:
        for child in started:
            child.kill()
            child.wait(10)


@contextmanager
def gloo(folder: Path) -> Iterator[tuple[Way, list[int]]]:
    with children([["gloo", str(rank), str(folder / "store")] for rank in range(RANKS)]) as ranks:
        for rank in ranks:
            assert said(rank) == "ready"

        def run(times: int) -> float:
            for rank in ranks:
                tell(rank, str(times))
            return max(float(said(rank)) for rank in ranks)

        yield run, [rank.pid for rank in ranks]


@contextmanager
def ours(hint: str, sockets: str = "") -> Iterator[tuple[Way, list[int]]]:
    with ExitStack() as stack:
        commands = [["serve", str(task), sockets] for task in range(RANKS)]
        tasks = stack.enter_context(children(commands))
        addresses = [said(task) for task in tasks]
        for task in tasks:
            tell(task, json.dumps(addresses))
        master = RemoteMaster(addresses[0], sockets=Path(sockets) if sockets else None)
        stack.callback(master.close)
        session, targets = session_of(master, hint)
        stack.callback(session.close)

        def run(times: int) -> float:
            began = time.perf_counter()
            for _ in range(times):
                session.run(targets)
            return time.perf_counter() - began

        yield run, [task.pid for task in tasks]


def session_of(master: RemoteMaster, hint: str) -> tuple[Session, list[str]]:
    """Each rank takes a tensor out of a queue, sums it, and puts the sum back.

    So the memory goes round as it does in torch.distributed, where nobody else holds it either.
    """
    b = GraphBuilder()
    devices = [str(TaskName("worker", rank).device()) for rank in range(RANKS)]
    queues, values, made = [], [], []
    form: dict[str, Any] = {"component_types": ["float32"], "shapes": [[ELEMENTS]]}
    for rank, device in enumerate(devices):
        with b.device(device):
            queue = b.op("FIFOQueueV2", name=f"queue{rank}", capacity=2, **form)
            shape = b.const([ELEMENTS], "int32", name="shape")
            ones = b.op("Fill", shape, b.const(1.0, name="one"), T="float32")
            made.append(b.op("QueueEnqueueV2", queue, ones, name=f"init{rank}"))
            values.append(b.op("QueueDequeueV2", queue, name=f"take{rank}", **form))
            queues.append(queue)
    sums = CollectiveGroup(b, CollectiveKeys(), devices, hint=hint).all_reduce(values, of="x")
    puts = []
    for queue, total, device in zip(queues, sums, devices, strict=True):
        with b.device(device):
            puts.append(b.op("QueueEnqueueV2", queue, total, name=f"put_{queue.node}").node)
    session = Session(master, b.graph(), NO_TRACING)
    session.run([each.node for each in made])
    check = session.run([f"{sums[0].node}:0", *puts])[0]
    assert check.sum().item() == RANKS * ELEMENTS
    return session, puts


def cpu_s(pids: list[int]) -> float:
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(each.user + each.system for each in times)


def measure(ways: Mapping[str, tuple[Way, list[int]]]) -> dict[str, Any]:
    for run, _ in ways.values():
        run(1)
    blocks: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for number in range(BLOCKS):
        order = list(ways) if number % 2 else list(ways)[::-1]
        for name in order:
            run, pids = ways[name]
            before = cpu_s(pids)
            took = run(EACH)
            blocks[name].append((took / EACH, (cpu_s(pids) - before) / EACH))
    return {name: told(done, blocks["gloo"]) for name, done in blocks.items()}


def told(done: list[tuple[float, float]], raw: list[tuple[float, float]]) -> dict[str, float]:
    pairs = list(zip(raw, done, strict=True))
    return {
        "median_ms": round(1e3 * statistics.median(wall for wall, _ in done), 1),
        "least_ms": round(1e3 * min(wall for wall, _ in done), 1),
        "median_cpu_ms": round(1e3 * statistics.median(cpu for _, cpu in done), 1),
        "ratio": round(statistics.median(a / b for (a, _), (b, _) in pairs), 3),
        "cpu_ratio": round(statistics.median(a / max(b, 1e-9) for (_, a), (_, b) in pairs), 3),
    }


def main(names: list[str]) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sockets = folder / "sockets"
        sockets.mkdir(mode=0o700)
        all_ways = {
            "gloo": lambda: gloo(folder),
            "native": lambda: ours("native"),
            "visible": lambda: ours("ring"),
            "visible-local": lambda: ours("ring", str(sockets)),
        }
        chosen = ["gloo", *(name for name in all_ways if name in names)] if names else all_ways
        ways = {name: stack.enter_context(all_ways[name]()) for name in chosen}
        result = {"mb": SIZE_MB, "ranks": RANKS, "blocks": BLOCKS, "load": os.getloadavg()[0]}
        print(json.dumps(result | {"ways": measure(ways)}, indent=1))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["gloo", rank, path]:
            gloo_rank(int(rank), path)
        case ["serve", task, sockets]:
            serve(int(task), sockets)
        case names:
            main(names)
