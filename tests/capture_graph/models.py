"""Small models that hold what makes capturing hard, data for them, and eager torch beside them."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.ops.graph_runner import GraphRunner
from tracer.capture_graph.capture import Batch, CapturedStep
from tracer.capture_graph.randomness import step_seed


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(6, 5)
        self.fc2 = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc2(functional.relu(self.fc1(x)))
        return logits


class Convolutional(nn.Module):
    """Buffers, in-place ops, an op with several outputs, chance."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.act = nn.ReLU(inplace=True)
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x.reshape(-1, 1, 4, 4))
        x += 1
        x = self.pool(self.act(self.norm(x)))
        logits: Tensor = self.head(self.drop(x.flatten(1)))
        return logits


class Attending(nn.Module):
    """Views of views, random numbers, and a constant tensor that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.tensor(2.0)
        self.norm = nn.LayerNorm(4)
        self.qkv = nn.Linear(4, 12)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm(x.reshape(-1, 4, 4))).chunk(3, -1)
        seen = functional.scaled_dot_product_attention(q, k, v) * self.scale
        logits: Tensor = self.head(self.drop(seen).mean(1))
        return logits


class Block(nn.Module):
    """A transformer block that reads letters: embeddings, causal attention, GELU, a tied head."""

    def __init__(self, letters: int = 11, width: int = 16, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.letters = nn.Embedding(letters, width)
        self.places = nn.Embedding(8, width)
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )
        self.head = nn.Linear(width, letters, bias=False)
        self.head.weight = self.letters.weight

    def forward(self, x: Tensor) -> Tensor:
        seen = self.letters(x) + self.places(torch.arange(x.shape[1]))
        seen = seen + self.attention(self.norm1(seen))
        logits: Tensor = self.head(seen + self.mlp(self.norm2(seen)))
        return logits.flatten(0, 1)

    def attention(self, x: Tensor) -> Tensor:
        split = (each.unflatten(-1, (self.heads, -1)) for each in self.qkv(x).chunk(3, -1))
        q, k, v = (each.transpose(1, 2) for each in split)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: Tensor = self.out(seen.transpose(1, 2).flatten(2))
        return out


def batches(width: int, rows: int = 8, count: int = 6) -> list[Batch]:
    random = torch.Generator().manual_seed(1)
    return [
        (
            torch.randn(rows, width, generator=random),
            torch.randint(0, 3, (rows,), generator=random),
        )
        for _ in range(count)
    ]


def texts(rows: int = 4, count: int = 6) -> list[Batch]:
    """Rows of eight letters; what is asked for is the letter after each."""
    random = torch.Generator().manual_seed(2)
    letters = [torch.randint(0, 11, (rows, 9), generator=random) for _ in range(count)]
    return [(each[:, :-1], each[:, 1:].flatten()) for each in letters]


def captured_losses(step: CapturedStep, runner: GraphRunner, data: Sequence[Batch]) -> Tensor:
    """Of one run from the first values on; step n draws from seed n."""
    runner.run(step.init)
    losses = []
    for number, batch in enumerate(data, 1):
        feeds = dict(zip(step.feeds, step.feed(batch, step_seed(1, 0, number)), strict=True))
        losses += runner.run(step.loss, step.train, feeds=feeds)[:1]
    return torch.stack([loss for loss in losses if loss is not None])


def eager_losses(
    module: nn.Module, optimizer: torch.optim.Optimizer, data: Sequence[Batch]
) -> Tensor:
    losses = []
    for number, (x, y) in enumerate(data, 1):
        torch.manual_seed(step_seed(1, 0, number))
        optimizer.zero_grad()
        loss = functional.cross_entropy(module(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def assert_same_state(
    runner: GraphRunner,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    slots: Mapping[str, str],
) -> None:
    """Parameters, buffers, and the optimizer's state by torch's names for our slots."""
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        ours = runner.resources[path := name.replace(".", "/")].value
        torch.testing.assert_close(ours, value.detach(), rtol=1e-5, atol=2e-6)
        for theirs, slot in slots.items() if value.requires_grad else ():
            ours, kept = runner.resources[f"{path}/{slot}"].value, optimizer.state[value][theirs]
            torch.testing.assert_close(ours, kept, rtol=1e-5, atol=2e-6)
