"""rnn-while: a recurrent network reads scikit-learn's handwritten digits row by row, in a loop.

What to look at: the step holds a real while loop, not eight copies of its body. Its nodes run once
an iteration, in a frame of their own, and up to ten iterations may be in flight, but each needs the
state that the one before leaves. Going forward, every iteration pushes what the backward pass needs
on a stack; a second loop runs as often, takes it off again from the end, and adds up the gradient
of each weight as it goes. On a parameter server the weights come into the loop once a step, as loop
invariants, however often it turns.
"""

from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tracer.capture_graph.optimizers import Adam
from tracer.workloads.batching import DropRemainder, Reading
from tracer.workloads.digits import digit_batches, digit_evaluation
from tracer.workloads.factory import AtLeast
from tracer.workloads.workload import Workload, seeded

ROWS, PIXELS = 8, 8
STATE = 48

_while_loop: Any = torch.while_loop


class RowReader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.randn(STATE) * 0.1)
        self.row = nn.Linear(PIXELS, STATE)
        self.state = nn.Linear(STATE, STATE, bias=False)
        self.head = nn.Linear(STATE, 10)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, ROWS, PIXELS)

        def is_left(i: Tensor, _state: Tensor) -> Tensor:
            return i < ROWS

        def read(i: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
            row = rows.index_select(1, i.reshape(1)).squeeze(1)
            return i + 1, torch.tanh(self.row(row) + self.state(state))

        start = self.start.repeat(len(x), 1)
        _, state = _while_loop(is_left, read, (torch.tensor(0), start))
        logits: Tensor = self.head(state)
        return logits


def workload(
    batch: Annotated[int, AtLeast(1), "images in a batch"] = 64,
    drop_remainder: DropRemainder = True,
) -> Workload:
    """A recurrent network on handwritten digits, row by row: a while loop and its gradient."""
    return Workload(
        make_module=seeded(RowReader),
        loss=functional.cross_entropy,
        optimizer=Adam(learning_rate=0.005),
        batches=digit_batches(Reading(batch, drop_remainder)),
        evaluation=digit_evaluation,
    )
