"""Our side of the mirrored benchmark: digits MLP 64-32-10, half of a batch of 64 a device.

Two devices in this process, as a task of `tracer run` has them. A variant is what sums gradients
(`ring`, `reduce_to_one` …), or `central_storage`. Untraced; the batch stays, and the loss is
fetched.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial

from torch import Tensor

from tests.bench.blocks import drive, serve_blocks
from tracer.model.cluster import TaskName
from tracer.model.option import values_of
from tracer.record.recorder import NO_RECORDER
from tracer.rpc.channels import NOT_SAMPLED
from tracer.runtime.interfaces import MasterInterface
from tracer.runtime.session import Session
from tracer.server import LocalServer, ServerConfig
from tracer.strategies.central_storage import CentralStorage
from tracer.strategies.distributed_step import DistributedStep
from tracer.strategies.distribution import Building
from tracer.strategies.mirrored import Mirrored
from tracer.strategies.strategy import Site, Topology
from tracer.workloads import digits_mlp

TASK = TaskName("worker", 0)
DEVICES = ("cpu:0", "cpu:1")


def built(variant: str) -> tuple[DistributedStep, tuple[Tensor, ...]]:
    """The step, and what it is fed."""
    is_central, workload = variant == CentralStorage.name, digits_mlp.workload()
    strategy = CentralStorage() if is_central else Mirrored()
    x, y = next(workload.batches(0, 0, 1))
    batches = list(zip(x.chunk(len(DEVICES)), y.chunk(len(DEVICES)), strict=True))
    asked = {} if is_central else {"cross_device_ops": variant}
    options = values_of(strategy.options, asked)
    site = Site(TASK, strategy.cluster(Topology()), DEVICES, options)
    capture = workload.step_capture(0)
    steps = [capture.step(batches[0])] * len(DEVICES)
    step = strategy.build(steps, [1 / len(DEVICES)] * len(DEVICES), site, Building())
    return step, step.feed(batches, [0] * len(DEVICES))


def step_of(master: MasterInterface, variant: str) -> Callable[[], object]:
    step, feeds = built(variant)
    session = Session(master, step.graph)
    session.run(step.init)
    return partial(session.make_callable((step.train, step.loss), step.feeds), *feeds)


def main() -> None:
    server = LocalServer(TASK, DEVICES, ServerConfig(NO_RECORDER, NOT_SAMPLED))
    steps: dict[str, Callable[[], object]] = {}

    def block(variant: str, seconds: float) -> Mapping[str, float]:
        if variant not in steps:
            steps[variant] = step_of(server.master, variant)
            drive([steps[variant]], seconds, time.process_time)
        return drive([steps[variant]], seconds, time.process_time)

    serve_blocks(block)
    server.close()


if __name__ == "__main__":
    main()
