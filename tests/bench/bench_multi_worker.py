"""A training step of two workers: torch's DDP alone, and multi_worker_mirrored. Prints JSON.

Both train one model, a batch a worker, sum gradients by gloo over loopback, and take the same step
of plain SGD; a worker is a process with a core. `native`: torch.distributed does all collectives;
`visible`: the ring hop by hop over gRPC. Gradients go in packs of more than 1 MB, as in DDP's first
bucket, so that some travel while others are computed. Untraced. Budget: native at least 0.95 × DDP
where a step takes 10 ms or more, which is that of mlp-1024; digits-mlp, whose kernels take
microseconds, is reported. Arguments choose models.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from tests.bench.ranks import RANKS, Way, children, in_step, measure, said, serve_counts, tell
from tracer.capture_graph.capture import Batch
from tracer.capture_graph.optimizers import SGD
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.option import values_of
from tracer.record.recorder import NO_RECORDER
from tracer.rpc.channels import NOT_SAMPLED
from tracer.runtime.session import Session
from tracer.server import Server, ServerConfig
from tracer.strategies.distribution import Building
from tracer.strategies.multi_worker_mirrored import MultiWorkerMirrored
from tracer.strategies.strategy import Site
from tracer.workloads import digits_mlp
from tracer.workloads.workload import Workload, seeded

WIDTH, BATCH, CLASSES = 1024, 256, 10
PACKS = {"bytes_per_pack": str(1 << 20)}
BLOCKS = int(os.environ.get("BENCH_BLOCKS", "12"))
EACH = {"mlp-1024": 8, "digits-mlp": 300}  #: steps a block

dist: Any = torch.distributed


def wide() -> nn.Module:
    first, second, last = (
        nn.Linear(WIDTH, WIDTH),
        nn.Linear(WIDTH, WIDTH),
        nn.Linear(WIDTH, CLASSES),
    )
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last)


def random_batches(seed: int, worker: int, workers: int) -> Iterator[Batch]:
    dice = torch.Generator().manual_seed(seed * workers + worker)
    while True:
        x = torch.rand(BATCH, WIDTH, generator=dice)
        yield x, torch.randint(0, CLASSES, (BATCH,), generator=dice)


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "mlp-1024": lambda: Workload(
        seeded(wide), functional.cross_entropy, SGD(learning_rate=0.01), random_batches
    ),
    "digits-mlp": digits_mlp.workload,
}


def timed(step: Callable[[], object]) -> Way:
    """`step` looks at the loss, as the client loop does."""

    def run(times: int) -> float:
        began = time.perf_counter()
        for _ in range(times):
            step()
        return time.perf_counter() - began

    return run


def ddp_rank(rank: int, model: str, path: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=RANKS)
    workload = WORKLOADS[model]()
    module = DistributedDataParallel(workload.make_module(0))
    rule = workload.optimizer
    assert isinstance(rule, SGD)
    optimizer = torch.optim.SGD(module.parameters(), rule.learning_rate)
    x, y = next(workload.batches(0, rank, RANKS))

    def step() -> object:
        optimizer.zero_grad()
        loss = workload.loss(module(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.item()

    serve_counts(timed(step))


def our_rank(rank: int, model: str, collectives: str) -> None:
    torch.set_num_threads(1)
    task, devices = TaskName("worker", rank), ("cpu:0",)
    is_native = collectives == "native"
    config = ServerConfig(NO_RECORDER, NOT_SAMPLED, native_collectives=is_native)
    server = Server(task, devices, config)
    print(server.address, flush=True)
    cluster = ClusterSpec({"worker": dict(enumerate(json.loads(sys.stdin.readline())))})
    server.join(cluster)
    workload, strategy = WORKLOADS[model](), MultiWorkerMirrored()
    batch = next(workload.batches(0, rank, RANKS))
    site = Site(task, cluster, devices, values_of(strategy.options, PACKS))
    captured = workload.step_capture(0).step(batch)
    built = strategy.build([captured], [1 / RANKS], site, Building())
    if not rank:
        with Session(server.master, built.graph) as session:
            session.run(built.init)
    with Session(server.master, built.graph) as session:
        session.run(built.local_init)
    call = Session(server.master, built.graph).make_callable((built.train, built.loss), built.feeds)
    feeds = built.feed([batch], [0])

    def step() -> object:
        _, loss = call(*feeds)
        assert loss is not None
        return loss.item()

    serve_counts(timed(step))


@contextmanager
def ddp(model: str) -> Iterator[tuple[Way, list[int]]]:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "store")
        commands = [["ddp", str(rank), model, path] for rank in range(RANKS)]
        with children("bench_multi_worker", commands) as ranks:
            yield in_step(ranks), [rank.pid for rank in ranks]


@contextmanager
def ours(model: str, collectives: str) -> Iterator[tuple[Way, list[int]]]:
    commands = [["ours", str(rank), model, collectives] for rank in range(RANKS)]
    with children("bench_multi_worker", commands) as ranks:
        addresses = json.dumps([said(rank) for rank in ranks])
        for rank in ranks:
            tell(rank, addresses)
        yield in_step(ranks), [rank.pid for rank in ranks]


def compare(model: str) -> dict[str, object]:
    with ddp(model) as torchs, ours(model, "native") as native, ours(model, "visible") as visible:
        ways = {"ddp": torchs, "native": native, "visible": visible}
        return {"ways": measure(ways, "ddp", BLOCKS, EACH[model])}


def main(names: list[str]) -> None:
    for model in names or WORKLOADS:
        told = {"bench": "multi-worker step", "model": model, "workers": RANKS, "blocks": BLOCKS}
        load = {"load": round(os.getloadavg()[0], 1)}
        print(json.dumps({**told, **load, **compare(model)}, indent=1), flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["ddp", rank, model, path]:
            ddp_rank(int(rank), model, path)
        case ["ours", rank, model, collectives]:
            our_rank(int(rank), model, collectives)
        case names:
            main(names)
