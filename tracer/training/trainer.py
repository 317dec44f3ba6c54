"""The client loop of one task: make or await the variables, run the steps, judge the result."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tracer.capture_graph.capture import Batch, CapturedStep, Evaluation, variables_of
from tracer.model.cluster import TaskName
from tracer.model.graph import Graph
from tracer.model.step import SpanContext, trace_of_step
from tracer.model.trace_policy import TracePolicy
from tracer.record.recorder import Recorder
from tracer.runtime.interfaces import MasterInterface, StepError
from tracer.runtime.session import NO_TRACING, Session, Tracing

READY_POLL_S = 0.02  #: between two looks whether the chief has made the variables


class Trainable(Protocol):
    """What a workload offers to training; `tracer.workloads.workload` says more."""

    def capture(self, seed: int) -> CapturedStep: ...

    @property
    def batches(self) -> Callable[[int, int, int], Iterator[Batch]]: ...

    @property
    def evaluation(self) -> Callable[[], Evaluation]: ...


@dataclass(frozen=True, slots=True)
class Fit:
    """What a client is to do; the chief also makes the variables and judges the result."""

    steps: int
    is_chief: bool = True
    connect_s: float = 60.0


@dataclass(slots=True)
class Fitted:
    """What came of it: `seconds` are of the steps alone."""

    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0
    accuracy: float | None = None


def tracing_of(
    recorder: Recorder, run_id: str, owner: TaskName | str, policy: TracePolicy
) -> Tracing:
    """Every process computes the trace of a step by itself, from run, owner and number."""
    owner = str(owner)

    def step(number: int) -> SpanContext:
        is_sampled = policy.samples(number) and recorder.has_room()
        return trace_of_step(run_id, owner, number, sampled=is_sampled)

    return Tracing(recorder, trace_of_step(run_id, "run", 0), step)


class Trainer:
    """One client. `open_session(graph, tracing)` makes its sessions.

    Two sessions see the same variables: one runs the numbered, recorded steps; the other, apart
    from the record, sets the variables up before and judges them after.
    """

    def __init__(
        self,
        open_session: Callable[[Graph, Tracing], Session],
        graph: Graph,
        captured: CapturedStep,
        tracing: Tracing,
        fit: Fit,
    ) -> None:
        self._captured = captured
        self._tracing = tracing
        self._fit = fit
        self._session = open_session(graph, tracing)
        self._aside = open_session(graph, NO_TRACING)

    def run(
        self,
        batches: Iterator[Batch],
        evaluation: Evaluation | None,
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
        if evaluation is not None and self._fit.is_chief:
            fitted.accuracy = self._evaluate(evaluation)
        return fitted

    def close(self) -> None:
        self._session.close()
        self._aside.close()

    def _run_steps(
        self, batches: Iterator[Batch], fitted: Fitted, on_step: Callable[[int], None]
    ) -> None:
        captured, recorder = self._captured, self._tracing.recorder
        step = self._session.make_callable(
            (captured.loss, captured.train), captured.feeds, {"vizdist.loss": captured.loss}
        )
        began = time.perf_counter()
        for number in range(1, self._fit.steps + 1):
            on_step(number)
            context = self._tracing.step(number)
            with recorder.span("data.next", context) as span:
                x, y = next(batches)
                span.set("vizdist.batch", len(x))
            loss = step(x, y)[0]
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
        x, y = evaluation.batch
        with self._tracing.recorder.span("train.evaluate", self._tracing.run) as span:
            feeds = dict(zip(self._captured.evaluation_feeds, (x, y), strict=True))
            accuracy = float(self._aside.run(self._captured.metric, feeds))
            span.set("vizdist.accuracy", accuracy)
            span.set("vizdist.examples", len(x))
        return accuracy


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
