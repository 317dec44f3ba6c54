"""How long a graph of 10,000 nodes takes to be placed and cut, twice.

Prints JSON: `bench_placement.py`. Budget: placement and both cuts together ≤ 2 s. Devices are drawn
by chance, which is far worse than a real graph: every other edge crosses. One graph is plain, the
other has some 400 loops.
"""

import json
import random
import time
from collections.abc import Callable, Mapping

from tests.bench.blocks import spread
from tracer.model.cluster import TaskName
from tracer.model.graph import Graph, Input
from tracer.model.graph_builder import GraphBuilder
from tracer.ops.registry import lookup
from tracer.passes.partition import partition_by_device, partition_by_worker
from tracer.passes.place import place

NODES = 10_000
ROUNDS = 7
CLIENT = TaskName("worker", 0).device()
DEVICES = (
    TaskName("ps", 0).device(),
    CLIENT,
    TaskName("worker", 0).device(index=1),
    TaskName("worker", 1).device(),
)
LIVES = dict.fromkeys(map(str, DEVICES), 1)


class _Random:
    """Adds nodes until there are enough."""

    def __init__(self, *, has_loops: bool) -> None:
        self._draw = random.Random(0)
        self._builder = GraphBuilder()
        self._values = [self._builder.const([1.0]) for _ in range(20)]
        self._has_loops = has_loops

    def graph(self) -> Graph:
        num_nodes = 0
        while num_nodes < NODES:
            for _ in range(20):
                self._values.append(self._op("AddV2", self._value(), self._value()))
            if self._has_loops:
                self._values += self._loop()
            graph = self._builder.graph()
            num_nodes = len(graph)
        return graph

    def _value(self) -> Input:
        return self._draw.choice(self._values[-200:])

    def _op(self, op: str, *inputs: Input) -> Input:
        with self._builder.device(str(self._draw.choice(DEVICES))):
            return self._builder.op(op, *inputs, T="float32")

    def _loop(self) -> list[Input]:
        limit, start = self._value(), self._value()
        return self._builder.while_loop(
            lambda x: self._op("Less", x, limit), lambda x: self._op("Mul", x, x), [start]
        )


def cpu_ms(act: Callable[[], object]) -> Mapping[str, float]:
    """Of this process: a busy machine makes wall times longer, not these."""
    took = []
    for _ in range(ROUNDS):
        began = time.process_time()
        act()
        took.append(1e3 * (time.process_time() - began))
    return spread(took)


def cut(placed: Graph) -> None:
    for part in partition_by_worker(placed, LIVES):
        partition_by_device(part.graph, LIVES)


def measure(kind: str, graph: Graph) -> None:
    placed = place(graph, DEVICES, CLIENT, lookup)
    told = {
        "graph": kind,
        "nodes": len(graph),
        "place_cpu_ms": cpu_ms(lambda: place(graph, DEVICES, CLIENT, lookup)),
        "cut_cpu_ms": cpu_ms(lambda: cut(placed)),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    for kind, has_loops in (("plain", False), ("loops", True)):
        measure(kind, _Random(has_loops=has_loops).graph())
