"""A step of digits-mlp through a whole local session, untraced, against eager torch. Prints JSON.

Budget: generated executor ≤ 1.2 × eager. Eager is the shortest loop a user would write: forward,
`torch.autograd.grad`, in-place update. Blocks take turns, so that a noisy minute hits all alike.
"""

import json
import time
from collections.abc import Callable
from itertools import cycle, islice

import torch
from torch import Tensor
from torch.nn import functional

from tests.bench.blocks import spread
from tracer.capture_graph.optimizers import SGD
from tracer.runtime.session import DirectSession
from tracer.runtime.worker_env import ExecutorKind
from tracer.workloads import digits_mlp

WORKLOAD = digits_mlp.workload()
ROUNDS = 40
BLOCK = 200

Step = Callable[[Tensor, Tensor], object]


def eager_step() -> Step:
    module = WORKLOAD.make_module(0)
    parameters = list(module.parameters())
    assert isinstance(WORKLOAD.optimizer, SGD)
    rate = WORKLOAD.optimizer.learning_rate

    def step(x: Tensor, y: Tensor) -> object:
        loss = functional.cross_entropy(module(x), y)
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.sub_(gradient, alpha=rate)
        return loss

    return step


def session_step(executor: ExecutorKind) -> tuple[DirectSession, Step]:
    captured = WORKLOAD.capture(0)
    session = DirectSession(captured.graph, executor=executor)
    session.run(captured.init)
    return session, session.make_callable((captured.loss, captured.train), captured.feeds)


def microseconds(step: Step, batches: list[tuple[Tensor, Tensor]]) -> float:
    start = time.perf_counter()
    for x, y in batches:
        step(x, y)
    return (time.perf_counter() - start) * 1e6 / len(batches)


def main() -> None:
    torch.set_num_threads(1)
    batches = list(islice(cycle(islice(WORKLOAD.batches(0, 0, 1), 20)), BLOCK))
    generated_session, generated = session_step("generated")
    queue_session, queue = session_step("queue")
    steps = {"eager": eager_step(), "generated": generated, "queue": queue}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for round_ in range(ROUNDS):
        for name in steps if round_ % 2 else reversed(steps):
            times[name].append(microseconds(steps[name], batches))
    ratios = {
        f"{name}/eager": spread([a / b for a, b in zip(times[name], times["eager"], strict=True)])
        for name in ("generated", "queue")
    }
    us = {f"{name} us_per_step": spread(values) for name, values in times.items()}
    print(json.dumps({"bench": "executor", "rounds": ROUNDS, **us, **ratios}))
    generated_session.close()
    queue_session.close()


if __name__ == "__main__":
    main()
