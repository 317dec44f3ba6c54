"""A training step of each workload through a whole local session, untraced, against eager torch.

Prints JSON, a line a workload: `bench_executor.py [WORKLOAD …]`. Budget: generated executor ≤ 1.2 ×
eager. Eager is what a user would write: for plain SGD forward, `torch.autograd.grad` and updates in
place, for Adam `torch.optim.Adam`; Dropout draws from the process's generator. Blocks take turns,
so that a noisy minute hits all alike; `cpu` ratios are of CPU time, which a busy machine distorts
less.

`bench_executor.py loop` runs a while loop by ready queue, against the same loop in Python over the
same torch calls: what is more, divided by the nodes that ran, is the executor's price of a node.
Budget: 15 µs.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from itertools import islice

import torch
from torch import Tensor

from tests.bench.blocks import spread
from tests.runtime.loops import doubling
from tracer.capture_graph.capture import Batch
from tracer.capture_graph.optimizers import SGD, Adam
from tracer.model.graph import Graph
from tracer.passes.frames import ROOT, Frames
from tracer.runtime.session import DirectSession
from tracer.runtime.worker_env import ExecutorKind
from tracer.workloads.registry import MODULES
from tracer.workloads.workload import Workload

ROUNDS = 40
BLOCK_STEPS = {"digits-mlp": 200, "digits-cnn": 8, "char-transformer": 2}
ITERATIONS = 500
LOOP = "loop"

Step = Callable[[Tensor, Tensor], object]


def eager_step(workload: Workload) -> Step:
    module = workload.make_module(0)
    parameters = list(module.parameters())
    rule = workload.optimizer
    if isinstance(rule, Adam):
        adam = torch.optim.Adam(parameters, rule.learning_rate, (rule.beta1, rule.beta2))

        def train(x: Tensor, y: Tensor) -> object:
            adam.zero_grad()
            loss = workload.loss(module(x), y)
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
            return loss

        return train
    assert isinstance(rule, SGD)
    rate = rule.learning_rate

    def descend(x: Tensor, y: Tensor) -> object:
        loss = workload.loss(module(x), y)
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.sub_(gradient, alpha=rate)
        return loss

    return descend


def session_step(workload: Workload, executor: ExecutorKind) -> tuple[DirectSession, Step]:
    captured = workload.capture(0)
    session = DirectSession(captured.graph, executor=executor)
    session.run(captured.init)
    run = session.make_callable((captured.loss, captured.train), captured.feeds)
    return session, lambda x, y: run(*captured.feed((x, y), seed=1))


def microseconds(step: Step, batches: list[Batch]) -> tuple[float, float]:
    """Of a step: wall, CPU of all threads."""
    wall, cpu = time.perf_counter(), time.process_time()
    for x, y in batches:
        step(x, y)
    took = time.perf_counter() - wall, time.process_time() - cpu
    return took[0] * 1e6 / len(batches), took[1] * 1e6 / len(batches)


def compare(name: str) -> dict[str, object]:
    workload = MODULES[name]()
    batches = list(islice(workload.batches(0, 0, 1), BLOCK_STEPS[name]))
    generated_session, generated = session_step(workload, "generated")
    queue_session, queue = session_step(workload, "queue")
    steps = {"eager": eager_step(workload), "generated": generated, "queue": queue}
    times: dict[str, list[tuple[float, float]]] = {which: [] for which in steps}
    for round_ in range(ROUNDS):
        for which in steps if round_ % 2 else reversed(steps):
            times[which].append(microseconds(steps[which], batches))
    generated_session.close()
    queue_session.close()
    ratios = {
        f"{which}/eager{' cpu' * kind}": spread(
            [
                one[kind] / other[kind]
                for one, other in zip(times[which], times["eager"], strict=True)
            ]
        )
        for which in ("generated", "queue")
        for kind in (0, 1)
    }
    us = {f"{which} us_per_step": spread([wall for wall, _ in v]) for which, v in times.items()}
    return {"bench": "executor", "workload": name, "rounds": ROUNDS, **us, **ratios}


def python_loop(n: Tensor) -> tuple[Tensor, Tensor]:
    i, s = torch.tensor(0, dtype=torch.int32), torch.tensor(1.0)
    one = torch.tensor(1, dtype=torch.int32)
    while bool(torch.lt(i, n)):
        i, s = torch.add(i, one), torch.add(s, s)
    return i, s


def loop() -> dict[str, object]:
    graph = Graph(node.with_(requested_device="") for node in doubling().nodes)
    frames = Frames(graph)
    num_nodes = ITERATIONS * sum(frames.of_inputs(node.name) != ROOT for node in graph.nodes)
    n = torch.tensor(ITERATIONS, dtype=torch.int32)
    with DirectSession(graph) as session:
        run = session.make_callable(("i:0", "s:0"), ("n:0",))
        steps: dict[str, Callable[[], object]] = {
            "python": lambda: python_loop(n),
            "queue": lambda: run(n),
        }
        times: dict[str, list[tuple[float, float]]] = {which: [] for which in steps}
        for round_ in range(ROUNDS):
            for which in steps if round_ % 2 else reversed(steps):
                wall, cpu = time.perf_counter(), time.process_time()
                steps[which]()
                times[which].append((time.perf_counter() - wall, time.process_time() - cpu))
    pairs = list(zip(times["queue"], times["python"], strict=True))
    us = {
        f"us_per_node over the kernels{' cpu' * kind}": spread(
            [(queue[kind] - python[kind]) * 1e6 / num_nodes for queue, python in pairs]
        )
        for kind in (0, 1)
    }
    return {"bench": "executor", "workload": LOOP, "rounds": ROUNDS, "nodes": num_nodes, **us}


def main() -> None:
    torch.set_num_threads(1)
    for name in sys.argv[1:] or (*BLOCK_STEPS, LOOP):
        told = loop() if name == LOOP else compare(name)
        print(json.dumps({**told, "load": round(os.getloadavg()[0], 1)}), flush=True)


if __name__ == "__main__":
    main()
