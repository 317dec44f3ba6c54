"""Registering a graph of 10,000 nodes over four workers, from the client's request to all handles.

Prints JSON: prune, place, cut, and each worker's registration, near (no wire). `cpu_s` is CPU time,
which a busy machine distorts less. Budget: 4 s in all. `bench_register.py [NODES] [traced]`.
"""

import json
import os
import statistics
import sys
import time

from tests.clusters import running_cluster
from tracer.model.cluster import ClusterSpec
from tracer.model.graph import Graph
from tracer.model.graph_builder import GraphBuilder

ROUNDS = 5
WORKERS = 4
CLUSTER = ClusterSpec.of_counts(worker=WORKERS)


def layered(num_nodes: int) -> Graph:
    """Chains over the workers; one value in ten goes on to the next worker, so 10 % is cut."""
    b = GraphBuilder()
    heads = []
    for worker in range(WORKERS):
        with b.device(f"/job:worker/task:{worker}"):
            heads.append(b.const([1.0], name=f"start{worker}"))
    for number in range(num_nodes - 2 * WORKERS):
        worker = number % WORKERS
        with b.device(f"/job:worker/task:{worker}"):
            other = heads[(worker + 1) % WORKERS] if number % 10 == 0 else heads[worker]
            heads[worker] = b.op("AddV2", heads[worker], other, name=f"n{number}", T="float32")
    for worker in range(WORKERS):
        with b.device(f"/job:worker/task:{worker}"):
            b.op("Identity", heads[worker], name=f"end{worker}", T="float32")
    return b.graph()


def main(num_nodes: int, *, trace: bool) -> None:
    graph = layered(num_nodes)
    walls, cpus = [], []
    for _ in range(ROUNDS):
        with running_cluster("near", CLUSTER, trace=trace) as cluster:
            session = cluster.session(graph)
            wall, cpu = time.perf_counter(), time.process_time()
            session.make_callable([f"end{worker}:0" for worker in range(WORKERS)])
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
    told = {
        "bench": "registration",
        "nodes": len(graph),
        "workers": WORKERS,
        "traced": trace,
        "wall_s": {"min": round(min(walls), 2), "median": round(statistics.median(walls), 2)},
        "cpu_s": {"min": round(min(cpus), 2), "median": round(statistics.median(cpus), 2)},
        "load": os.getloadavg(),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sizes = [int(text) for text in arguments if text.isdigit()]
    main(sizes[0] if sizes else 10_000, trace="traced" in arguments)
