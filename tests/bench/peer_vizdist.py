"""Our side of bench_parameter_server: one ps, two workers, a client that dials both, nothing recorded.

The same work as peer_tensorflow: each step the client sends the batch with RunStep and fetches the loss.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping

import psutil
import torch

from tests.bench.blocks import serve_blocks
from tracer.capture_graph.capture import CapturedStep
from tracer.launch.environment import thread_settings
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.step import SpanContext
from tracer.record.recorder import NO_RECORDER
from tracer.rpc.master_stub import RemoteMaster
from tracer.runtime.session import Session
from tracer.server import Server, ServerConfig
from tracer.strategies.parameter_server_v1 import ParameterServerV1
from tracer.workloads.digits_mlp import WORKLOAD

TASKS = (TaskName("ps", 0), TaskName("worker", 0), TaskName("worker", 1))
NOT_SAMPLED = SpanContext(0, 1, sampled=False)


def serve(task: TaskName) -> None:
    """Says its address, hears the cluster's, serves until standard input ends."""
    server = Server(task, ("cpu:0",), ServerConfig(NO_RECORDER, NOT_SAMPLED))
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
    environment = {**os.environ, **thread_settings(len(TASKS))}
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


def training_step(
    captured: CapturedStep, cluster: ClusterSpec, worker: TaskName
) -> Callable[[], object]:
    graph = ParameterServerV1().assign(captured.graph, worker, cluster)
    session = Session(RemoteMaster(cluster.address(worker)), graph)
    if worker.index == 0:
        session.run(captured.init)
    run = session.make_callable((captured.loss, captured.train), captured.feeds)
    x, y = next(WORKLOAD.batches(0, worker.index, 2))
    return lambda: run(x, y)


def cpu_seconds(processes: list["subprocess.Popen[str]"]) -> float:
    times = [psutil.Process(p.pid).cpu_times() for p in processes] + [psutil.Process().cpu_times()]
    return float(sum(t.user + t.system for t in times))


def main() -> None:
    torch.set_num_threads(1)
    servers, cluster = start_servers()
    captured = WORKLOAD.capture(0)
    steps = [training_step(captured, cluster, task) for task in TASKS if task.job == "worker"]

    def block(variant: str, seconds: float) -> Mapping[str, float]:
        counts = [0, 0]
        before, began = cpu_seconds(servers), time.perf_counter()

        def drive(index: int) -> None:
            while time.perf_counter() - began < seconds:
                steps[index]()
                counts[index] += 1

        threads = [threading.Thread(target=drive, args=(i,)) for i in range(int(variant))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - began
        cpu = cpu_seconds(servers) - before
        return {"steps": sum(counts), "seconds": took, "cpu_seconds": cpu}

    for _ in range(50):
        for step in steps:
            step()
    serve_blocks(block)
    for server in servers:
        server.kill()
    os._exit(0)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(TaskName.parse(sys.argv[1]))
    else:
        main()
