"""What a step draws follows from the seed it is fed, and from nothing else."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from tests.ops.graph_runner import GraphRunner
from tracer.capture_graph.capture import CapturedStep, Evaluation, capture_step
from tracer.capture_graph.errors import CaptureError
from tracer.capture_graph.optimizers import SGD
from tracer.capture_graph.randomness import step_seed

X, Y = torch.ones(4, 6), torch.tensor([0, 1, 2, 0])


class Noisy(nn.Module):
    """Draws in three ways, one of which is not used."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 3)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        noise = torch.rand(6)
        torch.randn(3)
        logits: Tensor = self.fc(self.drop(x + noise))
        return logits


def capture(module: nn.Module | None = None) -> CapturedStep:
    torch.manual_seed(0)
    return capture_step(module or Noisy(), functional.cross_entropy, SGD(0.1), (X, Y))


def logits(step: CapturedStep, seed: int) -> Tensor:
    runner = GraphRunner(step.graph)
    runner.run(step.init)
    feeds = dict(zip(step.feeds, step.feed((X, Y), seed), strict=True))
    (found,) = runner.run(step.logits, feeds=feeds)
    assert found is not None
    return found


def test_a_step_draws_what_eager_torch_draws_after_the_same_seed() -> None:
    torch.manual_seed(0)
    module = Noisy()
    got = logits(capture(), seed=7)
    torch.manual_seed(7)
    torch.testing.assert_close(got, module(X), rtol=1e-6, atol=1e-6)


def test_only_the_seed_decides_and_the_process_draws_on_undisturbed() -> None:
    step = capture()
    torch.manual_seed(3)
    before = torch.get_rng_state()
    once = logits(step, seed=7)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(5)
    assert torch.equal(logits(step, seed=7), once)
    assert not torch.equal(logits(step, seed=8), once)


def test_the_generator_goes_from_draw_to_draw_along_edges() -> None:
    graph = capture().graph
    chain, left = ["seed"], 0
    while states := [edge for edge in graph.out_edges(chain[-1]) if edge.src_port == left]:
        chain, left = [*chain, states[0].dst], 1  # a draw leaves its value first, then the state
    assert [graph[name].op for name in chain] == [
        "Placeholder",
        "aten.rand.generator",
        "aten.randn.generator",
        "aten.bernoulli.p",
    ]
    assert chain[-1].startswith("drop/")


def test_a_step_that_draws_nothing_takes_no_seed() -> None:
    step = capture(nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.0).eval()))
    assert step.feeds == ("x:0", "y:0")
    assert step.feed((X, Y), seed=7) == (X, Y)


def test_an_evaluation_that_draws_has_a_seed_of_its_own() -> None:
    class Sampling(Noisy):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + torch.rand(3)

    held_out = Evaluation((X[:2], Y[:2]), functional.cross_entropy)
    step = capture_step(Sampling(), functional.cross_entropy, SGD(0.1), (X, Y), evaluation=held_out)
    assert step.evaluation_feeds == ("evaluation/x:0", "evaluation/y:0", "evaluation/seed:0")
    assert step.feeds == ("x:0", "y:0", "seed:0")


def test_a_draw_that_takes_no_generator_is_refused_in_words() -> None:
    class Native(Noisy):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(torch.native_dropout(x, 0.5, True)[0])

    with pytest.raises(CaptureError, match=r"aten.native_dropout.default draws .* no generator"):
        capture(Native())


@given(st.integers(0, 2**63), st.integers(0, 64), st.integers(1, 10**6))
def test_seeds_of_neighbours_differ_also_in_the_half_that_torch_takes(
    seed: int, replica: int, step: int
) -> None:
    neighbours = [
        step_seed(seed, replica, step),
        step_seed(seed, replica, step + 1),
        step_seed(seed, replica + 1, step),
        step_seed(seed + 1, replica, step),
    ]
    assert all(0 <= each < 2**63 for each in neighbours)
    assert len({each & 0xFFFFFFFF for each in neighbours}) == 4
