"""char-transformer: a small transformer learns to spell, letter by letter.

What to look at: a graph of a thousand nodes in which every block looks alike, and an embedding
whose gradient is as large as its table although a batch touches few of its rows.
"""

from collections.abc import Iterator
from functools import partial
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional

from tracer.capture_graph.capture import Batch, Evaluation
from tracer.capture_graph.optimizers import Adam
from tracer.strategies.inputs.dataset import DataError, Dataset, Examples, Stream
from tracer.strategies.inputs.distribute import InputContext
from tracer.workloads.batching import Batches
from tracer.workloads.docstrings import ALPHABET, letters
from tracer.workloads.factory import AtLeast
from tracer.workloads.workload import Workload, seeded

HELD_OUT_ROWS = 64
CHANNELS, HEADS = 64, 4


class Block(nn.Module):
    """Attention to the letters before, then a perceptron; both beside a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(CHANNELS)
        self.qkv = nn.Linear(CHANNELS, 3 * CHANNELS)
        self.proj = nn.Linear(CHANNELS, CHANNELS)
        self.norm2 = nn.LayerNorm(CHANNELS)
        self.fc1 = nn.Linear(CHANNELS, 4 * CHANNELS)
        self.fc2 = nn.Linear(4 * CHANNELS, CHANNELS)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self._attend(self.norm1(x))
        hidden = functional.gelu(self.fc1(self.norm2(x)))
        out: Tensor = x + self.fc2(hidden)
        return out

    def _attend(self, x: Tensor) -> Tensor:
        rows, length, _ = x.shape
        heads = self.qkv(x).reshape(rows, length, 3, HEADS, CHANNELS // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4).unbind()
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: Tensor = self.proj(seen.transpose(1, 2).reshape(rows, length, CHANNELS))
        return out


class CharTransformer(nn.Module):
    def __init__(self, context: int, layers: int) -> None:
        super().__init__()
        self.letter = nn.Embedding(len(ALPHABET), CHANNELS)
        self.place = nn.Parameter(torch.randn(context, CHANNELS) * 0.02)
        self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
        self.norm = nn.LayerNorm(CHANNELS)
        self.head = nn.Linear(CHANNELS, len(ALPHABET))

    def forward(self, x: Tensor) -> Tensor:
        seen = self.blocks(self.letter(x) + self.place)
        logits: Tensor = self.head(self.norm(seen))
        return logits


def workload(
    batch: Annotated[int, AtLeast(1), "excerpts in a batch"] = 16,
    context: Annotated[int, AtLeast(2), "letters of an excerpt"] = 64,
    layers: Annotated[int, AtLeast(1), "transformer blocks"] = 2,
) -> Workload:
    """A small transformer on the docstrings of Python's standard library, letter by letter."""
    return Workload(
        make_module=seeded(partial(CharTransformer, context, layers)),
        loss=next_letter_loss,
        optimizer=Adam(learning_rate=0.003),
        batches=_batches(batch, context),
        evaluation=lambda: _evaluation(context),
    )


def next_letter_loss(logits: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), y.flatten())


def _batches(size: int, context: int) -> Batches:
    def dataset(seed: int, pipeline: InputContext) -> Dataset:
        rows = pipeline.get_per_replica_batch_size(size)
        worker, workers = pipeline.input_pipeline_id, pipeline.num_input_pipelines
        return Stream(partial(_drawn, rows, context, seed, worker, workers))

    return Batches(dataset)


def _drawn(size: int, context: int, seed: int, worker: int, workers: int) -> Iterator[Examples]:
    """Excerpts from anywhere in this worker's part of the text; one's id is where it starts."""
    text = letters()[0]
    before = sum(len(part) for part in text.tensor_split(workers)[:worker])
    share = _long_enough(text.tensor_split(workers)[worker], context)
    pick = torch.Generator().manual_seed(seed * 1009 + worker)
    while True:
        starts = torch.randint(len(share) - context, (size,), generator=pick)
        yield Examples(before + starts, _excerpts(share, starts, context))


def _long_enough(text: Tensor, context: int) -> Tensor:
    if len(text) <= context:
        raise DataError(
            f"an excerpt of {context} letters does not fit into a text of {len(text)}; "
            "ask for a smaller --option context, or for fewer workers"
        )
    return text


def _excerpts(text: Tensor, starts: Tensor, context: int) -> Batch:
    """Letters, and for each the one that follows it."""
    windows = text.unfold(0, context + 1, 1)[starts]
    return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


def _evaluation(context: int) -> Evaluation:
    """The share of letters that the model gets right, in excerpts spread over the held-out text."""
    text = _long_enough(letters()[1], context)
    starts = torch.linspace(0, len(text) - context - 1, HELD_OUT_ROWS).long()
    return Evaluation(_excerpts(text, starts, context), next_letter_accuracy)


def next_letter_accuracy(logits: Tensor, y: Tensor) -> Tensor:
    return (logits.argmax(-1) == y).float().mean()
