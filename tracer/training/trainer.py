"""The client loop of one task: make or await the variables, run the steps, judge the result."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from torch import Tensor

from tracer.capture_graph.capture import (
    Batch,
    CapturedStep,
    Evaluation,
    StepCapture,
    variables_of,
)
from tracer.capture_graph.randomness import step_seed
from tracer.model.cluster import TaskName
from tracer.model.graph import Graph
from tracer.model.step import SpanContext, trace_of_step
from tracer.model.trace_policy import TracePolicy
from tracer.record.recorder import Recorder
from tracer.runtime.interfaces import MasterInterface, StepError
from tracer.runtime.session import NO_TRACING, Session, Tracing
from tracer.training.signatures import SignatureCache, modes_text

_one_capture = threading.Lock()  # torch.fx traces on one thread; clients may share a module

READY_POLL_S = 0.02  #: between two looks whether the chief has made the variables


class Trainable(Protocol):
    """What a workload offers to training; `tracer.workloads.workload` says more."""

    def step_capture(self, seed: int) -> StepCapture: ...

    @property
    def batches(self) -> Callable[[int, int, int], Iterator[Batch]]: ...

    @property
    def evaluation(self) -> Callable[[], Evaluation | None]: ...


#: (a batch, what to judge the result by or None) → its step, with requested devices
Capture = Callable[[Batch, Evaluation | None], CapturedStep]


@dataclass(frozen=True, slots=True)
class Fit:
    """What a client is to do; the chief also makes the variables and judges the result.

    `seed` and `replica` decide what its steps draw at random.
    """

    steps: int
    is_chief: bool = True
    seed: int = 0
    replica: int = 0
    connect_s: float = 60.0


@dataclass(slots=True)
class Fitted:
    """What came of it: `seconds` are of the steps alone, `signatures` those of its batches."""

    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0
    accuracy: float | None = None
    signatures: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _OpenStep:
    """A captured step in a session of its own, and the callable that runs it."""

    captured: CapturedStep
    session: Session
    run: Callable[..., Sequence[Tensor | None]]


def tracing_of(
    recorder: Recorder, run_id: str, owner: TaskName | str, policy: TracePolicy
) -> Tracing:
    """Every process computes the trace of a step by itself, from run, owner and number."""
    owner = str(owner)

    @lru_cache(1)  # asked for a step's data and for the step itself
    def step(number: int) -> SpanContext:
        is_sampled = policy.samples(number) and recorder.takes_step()
        return trace_of_step(run_id, owner, number, sampled=is_sampled)

    return Tracing(recorder, trace_of_step(run_id, "run", 0), step)


class Trainer:
    """One client. `open_session(graph, tracing)` makes its sessions.

    They all see the same variables. One for each signature of the batches runs the numbered,
    recorded steps; one more, apart from the record, sets the variables up before and judges them
    after.
    """

    def __init__(
        self,
        open_session: Callable[[Graph, Tracing], Session],
        capture: Capture,
        first: Batch,
        evaluation: Evaluation | None,
        tracing: Tracing,
        fit: Fit,
    ) -> None:
        """`first` is a batch of the kind that comes first; its step is captured here."""
        self._open_session = open_session
        self._capture = capture
        self._evaluation = evaluation
        self._tracing = tracing
        self._fit = fit
        self._context = tracing.run  # of the step in progress
        self._steps = SignatureCache(self._open, lambda step: step.session.close())
        self._captured = self._steps.step_for(first).captured
        self._aside = open_session(self._captured.graph, NO_TRACING)

    def run(
        self,
        batches: Iterator[Batch],
        on_step: Callable[[int], None] = lambda _: None,
        line_up: Callable[[], None] = lambda: None,
    ) -> Fitted:
        """Raises StepError.

        `on_step` hears the number of each step before it begins, and 0 while there is none yet;
        `line_up` returns when the first may begin.
        """
        if self._fit.is_chief:
            self._aside.run(self._captured.init)
        else:
            self._await_variables(on_step)
        line_up()
        fitted = Fitted()
        self._run_steps(batches, fitted, on_step)
        fitted.signatures = self._steps.seen
        if self._evaluation is not None and self._fit.is_chief:
            fitted.accuracy = self._evaluate(self._evaluation)
        return fitted

    def close(self) -> None:
        self._steps.close()
        self._aside.close()

    def _open(self, batch: Batch, signature: str, why: str) -> _OpenStep:
        """Captures the step of this signature; what is judged is captured once, with the first."""
        tracing, is_first = self._tracing, not self._steps.seen
        context = self._context if self._context.sampled else tracing.run
        evaluation = self._evaluation if is_first else None
        with _one_capture, tracing.recorder.span("graph.capture", context) as span:
            captured = self._capture(batch, evaluation)
            span.set("vizdist.graph.nodes", len(captured.graph))
            span.set("vizdist.signature", modes_text(signature, evaluation))
            span.set("vizdist.capture.reason", why)
        in_step = Tracing(tracing.recorder, tracing.run, lambda _: self._context)
        session = self._open_session(captured.graph, in_step)
        run = session.make_callable(
            (captured.loss, captured.train), captured.feeds, {"vizdist.loss": captured.loss}
        )
        return _OpenStep(captured, session, run)

    def _run_steps(
        self, batches: Iterator[Batch], fitted: Fitted, on_step: Callable[[int], None]
    ) -> None:
        fit, recorder = self._fit, self._tracing.recorder
        began = time.perf_counter()
        for number in range(1, fit.steps + 1):
            on_step(number)
            self._context = self._tracing.step(number)
            with recorder.span("data.next", self._context) as span:
                batch = _next_batch(batches, number)
                span.set("vizdist.batch", len(batch[0]))
            step = self._steps.step_for(batch)
            seed = step_seed(fit.seed, fit.replica, number)
            loss = step.run(*step.captured.feed(batch, seed))[0]
            assert loss is not None
            fitted.losses.append(loss.item())
        fitted.seconds = time.perf_counter() - began

    def _await_variables(self, on_step: Callable[[int], None]) -> None:
        """Polls until the chief has made them, as TF's `wait_for_session` does."""
        reads = _first_reads(self._captured.graph)
        deadline = time.monotonic() + self._fit.connect_s
        while True:
            on_step(0)
            try:
                self._aside.run(reads)
            except StepError as error:
                if error.code != "FAILED_PRECONDITION" or time.monotonic() > deadline:
                    raise
                time.sleep(READY_POLL_S)
            else:
                return

    def _evaluate(self, evaluation: Evaluation) -> float:
        batch, captured = evaluation.batch, self._captured
        with self._tracing.recorder.span("train.evaluate", self._tracing.run) as span:
            values = captured.evaluation_feed(batch, step_seed(self._fit.seed, 0, 0))
            feeds = dict(zip(captured.evaluation_feeds, values, strict=True))
            accuracy = float(self._aside.run(captured.metric, feeds))
            span.set("vizdist.accuracy", accuracy)
            span.set("vizdist.examples", len(batch[0]))
        return accuracy


def _next_batch(batches: Iterator[Batch], step: int) -> Batch:
    """The next batch that has rows: the mean over none is no number, and would change nothing."""
    for batch in batches:
        if all(part.numel() for part in batch):
            return batch
    raise StepError(
        "OUT_OF_RANGE", f"End of sequence: the data ended before step {step}; let them repeat"
    )


def _first_reads(graph: Graph) -> Sequence[str]:
    """A read of each variable: they all succeed once every variable has its value."""
    variables = {node.name for node in variables_of(graph)}
    reads: dict[str, str] = {}
    for node in graph.nodes:
        if node.op == "ReadVariableOp" and node.inputs[0].node in variables:
            reads.setdefault(node.inputs[0].node, node.name)
    return list(reads.values())


def sessions_of(master: MasterInterface) -> Callable[[Graph, Tracing], Session]:
    def open_session(graph: Graph, tracing: Tracing) -> Session:
        return Session(master, graph, tracing)

    return open_session
