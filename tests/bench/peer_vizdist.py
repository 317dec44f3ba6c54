"""Our side of the step benchmarks: one ps, two workers, a client process that dials both.

The same work as peer_tensorflow: each step the client sends the batch with RunStep and fetches the
loss. Variants are `1` or `2` (workers that step at once) and `1-traced`, `2-traced`, which record
every step; `2-sync`, two workers whose mean gradients make one update; `1KB` and `64MB` are steps
that read a variable of that size from the ps. A collector runs all the time. PEER_TRANSPORT says
how the processes talk, PEER_DETAIL what is recorded.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import psutil
import torch

from tests.bench.blocks import at_once, drive, serve_blocks
from tests.built import graph_alone
from tracer.capture_graph.capture import CapturedStep
from tracer.launch.environment import process_settings
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.graph_builder import GraphBuilder
from tracer.model.option import values_of
from tracer.model.step import SpanContext, trace_of_step
from tracer.model.trace_folder import Manifest
from tracer.record.collector import start_collector
from tracer.record.home import make_scratch
from tracer.record.manifest import write_manifest
from tracer.record.recorder import Recorder
from tracer.rpc.master_stub import RemoteMaster
from tracer.runtime.session import Session, Tracing
from tracer.server import Server, ServerConfig
from tracer.strategies.distribution import Building
from tracer.strategies.parameter_server_v1 import ParameterServerV1
from tracer.strategies.strategy import Site
from tracer.workloads import digits_mlp

WORKLOAD = digits_mlp.workload()
TASKS = (TaskName("ps", 0), TaskName("worker", 0), TaskName("worker", 1))
NOT_SAMPLED = SpanContext(0, 1, sampled=False)
SCRATCH = "PEER_SCRATCH"  #: environment: folder of the rings
DETAIL = os.environ.get("PEER_DETAIL", "op")
SYNC = "2-sync"
SIZES = {"1KB": 1 << 10, "64MB": 64 << 20}


def serve(task: TaskName) -> None:
    """Says its address, hears the cluster's, serves until standard input ends."""
    recorder = Recorder(Path(os.environ[SCRATCH]), str(task), detail=DETAIL)
    server = Server(task, ("cpu:0",), ServerConfig(recorder, NOT_SAMPLED, sockets=sockets()))
    print(server.address, flush=True)
    addresses = dict(zip(TASKS, json.loads(sys.stdin.readline()), strict=True))
    server.join(cluster_at(addresses))
    sys.stdin.read()
    os._exit(0)


def sockets() -> Path | None:
    if os.environ.get("PEER_TRANSPORT") != "local":
        return None
    folder = Path(os.environ[SCRATCH]) / "sockets"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def cluster_at(addresses: Mapping[TaskName, str]) -> ClusterSpec:
    cluster = ClusterSpec({})
    for task, address in addresses.items():
        cluster = cluster.with_address(task, address)
    return cluster


def start_servers() -> tuple[list["subprocess.Popen[str]"], ClusterSpec]:
    environment = {**os.environ, **process_settings(len(TASKS))}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.bench.peer_vizdist", str(task)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for task in TASKS
    ]
    addresses = [process.stdout.readline().strip() for process in started if process.stdout]
    for process in started:
        assert process.stdin is not None
        process.stdin.write(json.dumps(addresses) + "\n")
        process.stdin.flush()
    return started, cluster_at(dict(zip(TASKS, addresses, strict=True)))


class Client:
    """Drives one worker; `is_traced` says whether the next steps are recorded."""

    def __init__(
        self, captured: CapturedStep, cluster: ClusterSpec, worker: TaskName, recorder: Recorder
    ) -> None:
        self.is_traced = False
        self._worker = worker
        graph = graph_alone(ParameterServerV1(), captured, worker, cluster)
        master = RemoteMaster(cluster.address(worker), recorder=recorder, sockets=sockets())
        session = Session(master, graph, Tracing(recorder, NOT_SAMPLED, self._context))
        if worker.index == 0:
            session.run(captured.init)
        self._run = session.make_callable((captured.loss, captured.train), captured.feeds)
        self._batch = next(WORKLOAD.batches(0, worker.index, 2))

    def step(self) -> None:
        self._run(*self._batch)

    def _context(self, number: int) -> SpanContext:
        return trace_of_step("bench", str(self._worker), number, sampled=self.is_traced)


def lock_step(captured: CapturedStep, cluster: ClusterSpec) -> Callable[[], object]:
    """A step of both workers: with `sync=true` none ends without the other's gradients."""
    strategy = ParameterServerV1()
    options = values_of(strategy.options, {"sync": "true"})
    steps: list[Callable[[], object]] = []
    for task in TASKS[1:]:
        site = Site(task, cluster, ("cpu:0",), options)
        built = strategy.build([captured], [1.0], site, Building())
        session = Session(RemoteMaster(cluster.address(task), sockets=sockets()), built.graph)
        if task.index == 0:
            session.run(built.init)
        session.run(built.local_init)
        call = session.make_callable((built.loss, built.train), built.feeds)
        batch = next(WORKLOAD.batches(0, task.index, 2))
        steps.append(partial(call, *built.feed([batch], [0])))
    return at_once(steps)


def pull_of(num_bytes: int, cluster: ClusterSpec) -> Callable[[], object]:
    """A step in which worker:0 reads a float32 variable of the ps, and nothing is fetched."""
    b = GraphBuilder()
    shape = [num_bytes // 4]
    with b.device("/job:ps/task:0"):
        value = b.placeholder(shape, name="value")
        variable = b.op("VarHandleOp", name=f"v{num_bytes}", dtype="float32", shape=shape)
        init = b.op("AssignVariableOp", variable, value, name="init", dtype="float32")
        read = b.op("ReadVariableOp", variable, name="read", dtype="float32")
    with b.device("/job:worker/task:0"):
        pulled = b.op("Identity", read, name="pulled")
    master = RemoteMaster(cluster.address(TaskName("worker", 0)), sockets=sockets())
    session = Session(master, b.graph())
    session.run((init.node,), {"value:0": torch.zeros(shape)})
    return session.make_callable((pulled.node,))


def cpu_seconds(pids: list[int]) -> float:
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return float(sum(t.user + t.system for t in times))


def main() -> None:
    torch.set_num_threads(1)
    scratch, trace = make_scratch(), Path(tempfile.mkdtemp())
    os.environ[SCRATCH] = str(scratch)
    write_manifest(trace, Manifest("bench"))
    collector = start_collector(trace, scratch, "bench")
    servers, cluster = start_servers()
    captured = WORKLOAD.capture(0)
    recorder = Recorder(scratch, "client", detail=DETAIL)
    clients = [Client(captured, cluster, task, recorder) for task in TASKS if task.job == "worker"]

    alone = {name: pull_of(size, cluster) for name, size in SIZES.items()}
    pids = [os.getpid(), collector.pid, *(server.pid for server in servers)]

    def block(variant: str, seconds: float) -> Mapping[str, float]:
        if variant == SYNC and variant not in alone:
            alone[variant] = lock_step(captured, cluster)
            drive([alone[variant]], seconds, time.process_time)
        workers, _, traced = variant.partition("-")
        for client in clients:
            client.is_traced = bool(traced)
        steps = [alone[variant]] if variant in alone else [c.step for c in clients[: int(workers)]]
        return drive(steps, seconds, partial(cpu_seconds, pids))

    for _ in range(50):
        for client in clients:
            client.step()
        alone["1KB"]()
    for _ in range(5):
        alone["64MB"]()
    serve_blocks(block)
    for server in servers:
        server.kill()
    collector.stop(20.0)
    shutil.rmtree(scratch)
    shutil.rmtree(trace)
    os._exit(0)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(TaskName.parse(sys.argv[1]))
    else:
        main()
