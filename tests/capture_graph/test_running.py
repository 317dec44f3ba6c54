"""Captured steps through both executors of the runtime: the same values, those of eager torch."""

from contextlib import closing

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.capture_graph.models import Block, Convolutional, batches, eager_losses, texts
from tracer.capture_graph.capture import Batch, StepCapture
from tracer.capture_graph.optimizers import Adam
from tracer.capture_graph.randomness import step_seed
from tracer.runtime.session import DirectSession
from tracer.runtime.worker_env import ExecutorKind


def losses(module: nn.Module, data: list[Batch], executor: ExecutorKind) -> Tensor:
    step = StepCapture(module, functional.cross_entropy, Adam(0.01)).step(data[0])
    found = []
    with closing(DirectSession(step.graph, executor=executor)) as session:
        session.run(step.init)
        run = session.make_callable((step.loss, step.train), step.feeds)
        for number, batch in enumerate(data, 1):
            found.append(run(*step.feed(batch, step_seed(1, 0, number)))[0])
    return torch.stack([loss for loss in found if loss is not None])


@pytest.mark.parametrize(
    ("make", "data"), [(Convolutional, batches(16, count=20)), (Block, texts(count=20))]
)
def test_both_executors_train_as_eager_torch(make: type[nn.Module], data: list[Batch]) -> None:
    torch.manual_seed(0)
    module = make()
    generated, queue = (losses(module, data, kind) for kind in ("generated", "queue"))
    assert torch.equal(generated, queue)
    expected = eager_losses(module, torch.optim.Adam(module.parameters(), 0.01), data)
    torch.testing.assert_close(generated, expected, rtol=1e-5, atol=1e-5)
