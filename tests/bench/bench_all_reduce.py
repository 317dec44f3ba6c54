"""All-reduce of 64 MB by two processes: torch.distributed alone, and ours. Prints JSON.

`gloo` is torch.distributed without us (in place, no step around it); `native` the same behind our
checks, as a step of a session; `visible` the ring hop by hop over gRPC, `visible-local` over unix
sockets and shared memory. Budgets: native at least 0.95 × gloo, visible 0.5 ×. Names choose ways;
BENCH_MB says another size.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed

from tests.bench.ranks import RANKS, Way, children, in_step, measure, said, serve_counts, tell
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.graph_builder import GraphBuilder
from tracer.record.recorder import NO_RECORDER
from tracer.rpc.channels import NOT_SAMPLED
from tracer.rpc.master_stub import RemoteMaster
from tracer.runtime.session import NO_TRACING, Session
from tracer.server import Server, ServerConfig
from tracer.strategies.collective_nodes import CollectiveGroup, CollectiveKeys

SIZE_MB = int(os.environ.get("BENCH_MB", "64"))
ELEMENTS = SIZE_MB * (1 << 20) // 4
BLOCKS = int(os.environ.get("BENCH_BLOCKS", "12"))
EACH = 3  #: all-reduces a block

dist: Any = torch.distributed


def gloo_rank(rank: int, path: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=RANKS)
    tensor = torch.ones(ELEMENTS)

    def run(times: int) -> float:
        dist.barrier()
        began = time.perf_counter()
        for _ in range(times):
            dist.all_reduce(tensor)
        took = time.perf_counter() - began
        tensor.fill_(1.0)
        return took

    serve_counts(run)


def serve(task: int, sockets: str) -> None:
    """Says its address, hears the cluster's, serves until standard input ends."""
    folder = Path(sockets) if sockets else None
    config = ServerConfig(NO_RECORDER, NOT_SAMPLED, sockets=folder)
    server = Server(TaskName("worker", task), ("cpu:0",), config)
    print(server.address, flush=True)
    server.join(ClusterSpec({"worker": dict(enumerate(json.loads(sys.stdin.readline())))}))
    sys.stdin.read()
    os._exit(0)


@contextmanager
def gloo(folder: Path) -> Iterator[tuple[Way, list[int]]]:
    commands = [["rank", str(rank), str(folder / "store")] for rank in range(RANKS)]
    with children("bench_all_reduce", commands) as ranks:
        yield in_step(ranks), [rank.pid for rank in ranks]


@contextmanager
def ours(hint: str, sockets: str = "") -> Iterator[tuple[Way, list[int]]]:
    with ExitStack() as stack:
        commands = [["serve", str(task), sockets] for task in range(RANKS)]
        tasks = stack.enter_context(children("bench_all_reduce", commands))
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
        told = measure(ways, "gloo", BLOCKS, EACH)
        result = {"mb": SIZE_MB, "ranks": RANKS, "blocks": BLOCKS, "load": os.getloadavg()[0]}
        print(json.dumps(result | {"ways": told}, indent=1))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["rank", rank, path]:
            gloo_rank(int(rank), path)
        case ["serve", task, sockets]:
            serve(int(task), sockets)
        case names:
            main(names)
