"""`DistributedStep`: what a strategy hands to the client loop; what it makes it of."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from tracer.capture_graph.capture import Batch, CapturedStep, Evaluation, StepCapture
from tracer.model.graph import Graph
from tracer.strategies.inputs.step_input import StepInput
from tracer.strategies.leaving import Leaving

OF_ROUND = "_of_round"  #: marks what clients of one round share, and those of the next do not


@dataclass(frozen=True, slots=True)
class DistributedStep:
    """The graph of one client and the names to run it by, as `CapturedStep` has them.

    `replicas[r]` is the captured step of replica r, None where its batch has no rows. `losses`,
    where there are several, holds the mean over the batch of each, NaN for an empty one.

    `local_init`, if any, is what every client runs itself once the variables have values. Where an
    update waits for gradients of several clients, `global_step` counts updates, and training ends
    with them: a client may take fewer or more steps than that.

    `meet`, if any, is what every client runs before one of them saves or judges what all have.
    `leaving`, if any, is how one whose data end tells so to those whose updates need it.
    """

    graph: Graph
    replicas: tuple[CapturedStep | None, ...]
    feeds: tuple[str, ...]
    loss: str
    train: str
    init: str
    evaluation_feeds: tuple[str, ...] = ()
    metric: str = ""
    losses: str = ""
    local_init: str = ""
    global_step: str = ""
    meet: str = ""
    leaving: Leaving | None = None

    @classmethod
    def alone(cls, step: CapturedStep, graph: Graph) -> "DistributedStep":
        """Of one replica: `graph` is its captured one, with requested devices."""
        names = step.feeds, step.loss, step.train, step.init, step.evaluation_feeds, step.metric
        return cls(graph, (step,), *names)

    def in_round(self, number: int) -> "DistributedStep":
        """The same for all clients that go on together after so many losses."""
        if not any(node.attrs.get(OF_ROUND) for node in self.graph.nodes):
            return self
        own = {"container": f"round_{number}" if number else ""}
        return replace(
            self,
            graph=Graph(
                node.with_(attrs={**node.attrs, **own}) if node.attrs.get(OF_ROUND) else node
                for node in self.graph.nodes
            ),
        )

    def feed(self, batches: Sequence[Batch], seeds: Sequence[int]) -> tuple[Tensor, ...]:
        """The values of `feeds`, in order; `seeds` are the step's own, one a replica."""
        return tuple(
            value
            for step, batch, seed in zip(self.replicas, batches, seeds, strict=True)
            if step is not None
            for value in step.feed(batch, seed)
        )

    def evaluation_feed(self, batch: Batch, seed: int = 0) -> tuple[Tensor, ...]:
        """The values of `evaluation_feeds`, in order."""
        return a_step(self.replicas).evaluation_feed(batch, seed)


def a_step(steps: Iterable[CapturedStep | None]) -> CapturedStep:
    """The first that there is; some replica always has rows."""
    return next(step for step in steps if step is not None)


def captured_steps(
    capture: StepCapture, given: StepInput, evaluation: Evaluation | None = None
) -> list[CapturedStep | None]:
    """The step of each replica's batch, None for an empty one; batches of one shape share one.

    What judges the result is captured with that of the first replica. Where all batches are empty,
    since other workers alone have rows, the first has the step of two rows, the fewest that a batch
    norm takes: it says what variables and gradients there are.
    """
    steps: dict[Any, CapturedStep] = {}
    made: list[CapturedStep | None] = []
    for replica in given.replicas:
        signature = capture.signature(replica.batch)
        if len(replica) and signature not in steps:
            steps[signature] = capture.step(replica.batch, evaluation=evaluation)
            evaluation = None
        made.append(steps.get(signature))
    if not steps:
        x, y = given.replicas[0].batch
        two = x.new_zeros((2, *x.shape[1:])), y.new_zeros((2, *y.shape[1:]))
        made[0] = capture.step(two, evaluation=evaluation)
    return made


def shares_of(rows: Sequence[int], global_rows: int) -> list[float]:
    """How much each replica's loss counts."""
    return [count / global_rows for count in rows]
