"""Our side of the step benchmarks: one ps, two workers, a client process that dials both.

The same work as peer_tensorflow: each step the client sends the batch with RunStep and fetches the
loss. Variants are `1` or `2` (workers that step at once) and `1-traced`, `2-traced`, which record
every step; a collector runs all the time.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import psutil
import torch

from tests.bench.blocks import serve_blocks
from tracer.capture_graph.capture import CapturedStep
from tracer.launch.environment import process_settings
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.step import SpanContext, trace_of_step
from tracer.model.trace_folder import Manifest
from tracer.record.collector import start_collector
from tracer.record.home import make_scratch
from tracer.record.manifest import write_manifest
from tracer.record.recorder import Recorder
from tracer.rpc.master_stub import RemoteMaster
from tracer.runtime.session import Session, Tracing
from tracer.server import Server, ServerConfig
from tracer.strategies.parameter_server_v1 import ParameterServerV1
from tracer.workloads.digits_mlp import WORKLOAD

TASKS = (TaskName("ps", 0), TaskName("worker", 0), TaskName("worker", 1))
NOT_SAMPLED = SpanContext(0, 1, sampled=False)
SCRATCH = "PEER_SCRATCH"  #: environment: folder of the rings


def serve(task: TaskName) -> None:
    """Says its address, hears the cluster's, serves until standard input ends."""
    recorder = Recorder(Path(os.environ[SCRATCH]), str(task))
    server = Server(task, ("cpu:0",), ServerConfig(recorder, NOT_SAMPLED))
    print(server.address, flush=True)
    addresses = dict(zip(TASKS, json.loads(sys.stdin.readline()), strict=True))
    server.join(cluster_at(addresses))
    sys.stdin.read()
    os._exit(0)


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
        graph = ParameterServerV1().assign(captured.graph, worker, cluster)
        master = RemoteMaster(cluster.address(worker), recorder=recorder)
        session = Session(master, graph, Tracing(recorder, NOT_SAMPLED, self._context))
        if worker.index == 0:
            session.run(captured.init)
        self._run = session.make_callable((captured.loss, captured.train), captured.feeds)
        self._batch = next(WORKLOAD.batches(0, worker.index, 2))

    def step(self) -> None:
        self._run(*self._batch)

    def _context(self, number: int) -> SpanContext:
        return trace_of_step("bench", str(self._worker), number, sampled=self.is_traced)


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
    recorder = Recorder(scratch, "client")
    clients = [Client(captured, cluster, task, recorder) for task in TASKS if task.job == "worker"]

    pids = [os.getpid(), collector.pid, *(server.pid for server in servers)]

    def block(variant: str, seconds: float) -> Mapping[str, float]:
        workers, _, traced = variant.partition("-")
        for client in clients:
            client.is_traced = bool(traced)
        counts = [0, 0]
        before, began = cpu_seconds(pids), time.perf_counter()

        def drive(index: int) -> None:
            while time.perf_counter() - began < seconds:
                clients[index].step()
                counts[index] += 1

        threads = [threading.Thread(target=drive, args=(i,)) for i in range(int(workers))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - began
        cpu = cpu_seconds(pids) - before
        return {"steps": sum(counts), "seconds": took, "cpu_seconds": cpu}

    for _ in range(50):
        for client in clients:
            client.step()
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
