"""What users build modules of: layers of every kind, values read in odd places, what is refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.capture_graph.models import assert_same_state, captured_losses
from tests.ops.graph_runner import GraphRunner
from tracer.capture_graph.capture import Batch, Evaluation, StepCapture
from tracer.capture_graph.errors import CaptureError
from tracer.capture_graph.optimizers import SGD
from tracer.capture_graph.randomness import step_seed
from tracer.capture_graph.trace import LossFn

SEQUENCES, IMAGES = (2, 5, 8), (2, 3, 6, 6)


class Made(nn.Module):
    """Of layers and a function that calls them."""

    def __init__(self, call: Callable[[Any, Tensor], Any], *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.call = call

    def forward(self, x: Tensor) -> Any:
        return self.call(self.layers, x)


class Averaging(nn.Module):
    """Replaces its buffer, where others write into theirs."""

    average: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.register_buffer("average", torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        self.average = self.average * 0.9 + x.mean((0, 1)) * 0.1
        logits: Tensor = self.fc(x) + self.average
        return logits


def zeroed(layers: Any, x: Tensor) -> Tensor:
    made: Tensor = layers[0](x).clone()
    made[:, 0] = 0
    return made


def checkpointed(layers: Any, x: Tensor) -> Tensor:
    made: Tensor = checkpoint(layers[0], x, use_reentrant=False)
    return made


def mean_square(outputs: Tensor, y: Tensor) -> Tensor:
    return (outputs**2).mean() + y.sum()


def penalized(module: nn.Module) -> LossFn:
    def loss(outputs: Tensor, y: Tensor) -> Tensor:
        penalty = torch.stack([parameter.square().sum() for parameter in module.parameters()])
        return mean_square(outputs, y) + penalty.sum()

    return loss


def batches(shape: tuple[int, ...]) -> list[Batch]:
    random = torch.Generator().manual_seed(1)
    return [(torch.randn(shape, generator=random), torch.ones(1)) for _ in range(3)]


def assert_trains_as_eager(module: nn.Module, loss: LossFn, data: list[Batch]) -> None:
    step = StepCapture(module, loss, SGD(0.05, 0.9)).step(data[0])
    runner, optimizer = GraphRunner(step.graph), torch.optim.SGD(module.parameters(), 0.05, 0.9)
    got = captured_losses(step, runner, data)
    expected = []
    for number, (x, y) in enumerate(data, 1):
        torch.manual_seed(step_seed(1, 0, number))
        optimizer.zero_grad()
        found = loss(module(x), y)
        found.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        expected.append(found.detach())
    torch.testing.assert_close(got, torch.stack(expected), rtol=1e-5, atol=1e-6)
    assert_same_state(runner, module, optimizer, {"momentum_buffer": "Momentum"})


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "a whole encoder layer, its masks drawn from turned tensors": (
        lambda: Made(
            lambda layers, x: layers[0](x), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        ),
        SEQUENCES,
    ),
    "a recurrent layer": (
        lambda: Made(
            lambda layers, x: layers[0](x)[0], nn.LSTM(8, 6, 2, batch_first=True, dropout=0.3)
        ),
        SEQUENCES,
    ),
    "norms in groups, a pool, a flat end": (
        lambda: nn.Sequential(
            *(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.AdaptiveAvgPool2d(1)),
            nn.Flatten(),
        ),
        IMAGES,
    ),
    "statistics that a parametrization updates in place": (
        lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8)),
        SEQUENCES,
    ),
    "a part that is written to": (lambda: Made(zeroed, nn.Linear(8, 8)), SEQUENCES),
    "a layer that is called twice": (
        lambda: Made(lambda layers, x: layers[0](layers[0](x).relu()), nn.Linear(8, 8)),
        SEQUENCES,
    ),
    "a checkpoint, which runs its layers again in the backward pass": (
        lambda: Made(
            checkpointed,
            nn.Sequential(nn.Linear(8, 8), nn.Tanh()),
        ),
        SEQUENCES,
    ),
    "a buffer that is replaced": (Averaging, SEQUENCES),
    "a BatchNorm that stays in eval mode": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4).eval()),
        IMAGES,
    ),
}


@pytest.mark.parametrize("what", MODULES)
def test_it_trains_as_in_eager_torch(what: str) -> None:
    make, shape = MODULES[what]
    torch.manual_seed(0)
    assert_trains_as_eager(make(), mean_square, batches(shape))


def test_a_loss_may_read_the_modules_parameters() -> None:
    torch.manual_seed(0)
    module = nn.Linear(8, 8)
    assert_trains_as_eager(module, penalized(module), batches(SEQUENCES))


def test_what_a_module_returns_may_be_anything_that_its_loss_reads() -> None:
    torch.manual_seed(0)
    module = Made(lambda layers, x: {"one": layers[0](x), "two": x.sum()}, nn.Linear(8, 8))

    def loss(outputs: Any, y: Tensor) -> Tensor:
        one, two = outputs["one"], outputs["two"]
        return mean_square(one, y) + mean_square(two, y)

    assert_trains_as_eager(module, loss, batches(SEQUENCES))
    graph = StepCapture(module, loss, SGD(0.1)).step(batches(SEQUENCES)[0]).graph
    assert "loss" in graph
    assert "logits" not in graph


@pytest.mark.parametrize(
    ("loss", "why"),
    [
        (lambda _outputs, _y: 3.0, "the loss is a float; a step needs a tensor"),
        (lambda outputs, _y: outputs.sum(1), r"the loss has shape \[2, 8\].*\.mean\(\)"),
        (lambda outputs, _y: outputs.detach().sum(), "depends on no parameter .* detach"),
    ],
)
def test_a_loss_that_cannot_be_followed_back_is_refused_in_words(loss: LossFn, why: str) -> None:
    with pytest.raises(CaptureError, match=why):
        StepCapture(nn.Linear(8, 8), loss, SGD(0.1)).step(batches(SEQUENCES)[0])


def test_a_variable_named_like_a_feed_is_refused() -> None:
    module = nn.Linear(8, 8)
    module.register_parameter("x", nn.Parameter(torch.ones(1)))
    with pytest.raises(CaptureError, match=r"a variable named 'x'.* rename it"):
        StepCapture(module, mean_square, SGD(0.1))


def test_each_layer_keeps_its_own_mode_when_an_evaluation_is_captured() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4).eval(), nn.Dropout())
    capture = StepCapture(module, mean_square, SGD(0.1))
    capture.evaluation(Evaluation(batches(IMAGES)[0], mean_square))
    assert [layer.training for layer in module] == [True, False, True]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (
            lambda layers, x: layers[0](x) * (2 if x.sum() > 0 else 1),
            r"capture_graph/test_modules.py:\d+ asks for the value of a tensor",
        ),
        (
            lambda layers, x: layers[0](x)[x > 0],
            r"aten.index.Tensor \(.*test_modules.py:\d+\) has a shape that follows from values",
        ),
        (
            lambda layers, x: torch.fft.rfft(layers[0](x)).abs(),
            r"aten._fft_r2c.default \(.*test_modules.py:\d+\): torch.complex64 has no name",
        ),
        (
            lambda layers, x: checkpointed([layers[1]], layers[0](x)),
            r"aten.bernoulli.p in layers/1.* draws random numbers again in the backward pass",
        ),
    ],
)
def test_what_no_graph_can_hold_is_refused_with_its_line(
    call: Callable[[Any, Tensor], Tensor], why: str
) -> None:
    module = Made(call, nn.Linear(8, 8), nn.Sequential(nn.Dropout(0.5), nn.Tanh()))
    with pytest.raises(CaptureError, match=why):
        StepCapture(module, mean_square, SGD(0.1)).step(batches(SEQUENCES)[0])
