"""The client loop of one task: make or await the variables, run the steps, judge the result."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from torch import Tensor

from tracer.capture_graph.capture import Evaluation, StepCapture, variables_of
from tracer.capture_graph.randomness import step_seed
from tracer.model.cluster import TaskName
from tracer.model.graph import Graph
from tracer.model.metric import Metric, metric_name
from tracer.model.step import SpanContext, trace_of_step
from tracer.model.trace_policy import TracePolicy
from tracer.record.open_span import RareSpan
from tracer.record.recorder import Recorder
from tracer.runtime.interfaces import MasterInterface, StepError
from tracer.runtime.session import NO_TRACING, Session, Tracing
from tracer.strategies.distributed_step import DistributedStep
from tracer.strategies.distribution import Building
from tracer.strategies.inputs.dataset import Dataset
from tracer.strategies.inputs.distribute import InputContext
from tracer.strategies.inputs.next_input import next_input
from tracer.strategies.inputs.prefetch import prefetched
from tracer.strategies.inputs.step_input import StepInput
from tracer.training.checkpoint import Checkpoints
from tracer.training.client_loop import ClientLoop
from tracer.training.line import NO_LINE, Again, Line, Ready
from tracer.training.saver import Saver
from tracer.training.signatures import Key, SignatureCache, key_of, modes_text

_one_capture = threading.Lock()  # torch.fx traces on one thread; clients may share a module

READY_POLL_S = 0.02  #: between two looks whether the chief has made the variables


class Trainable(Protocol):
    """What a workload offers to training; `tracer.workloads.workload` says more."""

    def step_capture(self, seed: int) -> StepCapture: ...

    def dataset(self, seed: int, context: InputContext) -> Dataset: ...

    @property
    def evaluation(self) -> Callable[[], Evaluation | None]: ...


#: (what the replicas are fed, what to judge the result by or None, a record) → its step
Capture = Callable[[StepInput, Evaluation | None, Building], DistributedStep]


@dataclass(frozen=True, slots=True)
class Fit:
    """What a client is to do; the chief also makes the variables and judges the result.

    `steps` are taken, fewer where the data end. `seed` and `replica`, the number of its first one,
    decide what its steps draw at random. The clients of a group step together. `prefetch` inputs
    are read ahead; of those for a step that `samples` names it is recorded.
    """

    steps: int
    is_chief: bool = True
    seed: int = 0
    replica: int = 0
    connect_s: float = 60.0
    checkpoints: Checkpoints | None = None
    again: Again | None = None
    is_group: bool = False
    prefetch: int = 0
    samples: Callable[[int], bool] = lambda _: True


@dataclass(slots=True)
class Fitted:
    """What came of it: `seconds` are of the steps alone, `signatures` those of its batches.

    `first_step` has the first of the losses.
    """

    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0
    metric: Metric | None = None
    signatures: list[str] = field(default_factory=list)
    first_step: int = 1


@dataclass(frozen=True, slots=True)
class _OpenStep:
    """A step in a session of its own, and the callable that runs it."""

    built: DistributedStep
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


class Trainer(ClientLoop):
    """One client. `open_session(graph, tracing)` makes its sessions.

    They all see the same variables. One for each signature of the batches runs the numbered,
    recorded steps; one more, apart from the record, sets the variables up before and judges them
    after.
    """

    _built: DistributedStep  #: of the first input
    _aside: Session

    def __init__(
        self,
        open_session: Callable[[Graph, Tracing], Session],
        capture: Capture,
        first: StepInput,
        evaluation: Evaluation | None,
        tracing: Tracing,
        fit: Fit,
    ) -> None:
        """`first` is an input of the kind that comes first."""
        super().__init__(
            tracing, fit.checkpoints, fit.again, is_chief=fit.is_chief, is_group=fit.is_group
        )
        self._first = first
        self._open_session = open_session
        self._capture = capture
        self._evaluation = evaluation
        self._fit = fit
        self._losses: dict[int, float] = {}
        self._context = tracing.run  # of the step in progress
        self._steps = SignatureCache(self._open, _close)
        self._unopened: dict[Key, DistributedStep] = {}  # their session was lost
        self._beside: list[Session | Saver] = []  # the sessions that run no steps
        self._met = -1  # after which step, in this round

    def run(self, inputs: Callable[[], Iterator[StepInput]], line: Line = NO_LINE) -> Fitted:
        """`inputs()` gives them from the first one on. Raises StepError."""
        fitted = Fitted()

        fit, tracing = self._fit, self._tracing
        ahead = fit.prefetch, tracing.recorder, tracing.run, fit.samples

        def steps() -> Fitted:
            with prefetched(inputs(), *ahead) as given:
                self._run_steps(given, fitted, line)
            self._end(fitted)
            return fitted

        return self._to_the_end(line, steps)

    def _end(self, fitted: Fitted) -> None:
        self._meet()
        self._save_the_last()
        fitted.signatures = self._steps.seen
        fitted.losses = list(self._losses.values())
        fitted.first_step = min(self._losses, default=1)
        if self._evaluation is not None and self._fit.is_chief:
            fitted.metric = self._evaluate(self._evaluation)

    def _save(self) -> None:
        if self._done:
            self._meet()
        super()._save()

    def _meet(self) -> None:
        """So that the one who saves or judges has what is of all."""
        is_wanted = self._evaluation is not None or self._checkpoints is not None
        if self._built.meet and is_wanted and self._met != self._done:
            # in its step 1, as clients meet in steps of one number
            with self._open_session(self._built.graph, NO_TRACING) as session:
                session.run(self._built.meet)
            self._met = self._done

    def close(self) -> None:
        """Also after a loss: what cannot be reached any more frees itself."""
        self._steps.close()
        self._close_beside()

    def _close_beside(self) -> None:
        while self._beside:
            with suppress(StepError):
                self._beside.pop().close()

    def _begin(self, line: Line) -> None:
        self._close_beside()
        self._steps.renew(self._renewed)
        if not self._steps.seen:
            self._built = self._steps.step_for(self._first).built
        self._built, self._met = self._built.in_round(self._round.number), -1
        graph = self._built.graph
        self._saver = Saver(self._open_session, graph, self._fit.checkpoints, self._tracing)
        self._aside = self._open_session(graph, NO_TRACING)
        self._beside += [self._aside, self._saver]
        ready = self._ready_again if self._round.has_begun else self._ready
        told = ready(line)
        if self._built.local_init:
            with self._open_session(graph, NO_TRACING) as session:  # clients may meet in its step 1
                session.run(self._built.local_init)
        self._done = line.line_up(told)

    def _open(self, given: StepInput, signature: str, why: str) -> _OpenStep:
        key = key_of(given)
        built = self._unopened.get(key) or self._built_for(given, signature, why)
        self._unopened[key] = built
        step = self._in_session(built)
        del self._unopened[key]
        return step

    def _built_for(self, given: StepInput, signature: str, why: str) -> DistributedStep:
        """The step of this signature; what is judged is captured once, with the first."""
        tracing, is_first = self._tracing, not self._steps.seen
        context = self._context if self._context.sampled else tracing.run
        evaluation = self._evaluation if is_first else None
        with _one_capture, tracing.recorder.span("graph.capture", context) as span:
            built = self._capture(given, evaluation, Building(tracing.recorder, span.context))
            span.set("vizdist.graph.nodes", len(built.graph))
            span.set("vizdist.signature", modes_text(signature, evaluation))
            span.set("vizdist.capture.reason", why)
        return built

    def _in_session(self, built: DistributedStep) -> _OpenStep:
        tracing, built = self._tracing, built.in_round(self._round.number)
        in_step = Tracing(tracing.recorder, tracing.run, lambda _: self._context)
        session = self._open_session(built.graph, in_step)
        record = {"vizdist.loss": built.loss}
        told = {"vizdist.replica.losses": built.losses, "vizdist.global_step": built.global_step}
        record |= {name: fetch for name, fetch in told.items() if fetch}
        fetches = (built.train, *record.values())
        try:
            run = session.make_callable(fetches, built.feeds, record)
        except StepError:
            with suppress(StepError):
                session.close()
            raise
        return _OpenStep(built, session, run)

    def _run_steps(self, inputs: Iterator[StepInput], fitted: Fitted, line: Line) -> None:
        fit, recorder = self._fit, self._tracing.recorder
        self._losses = {step: loss for step, loss in self._losses.items() if step <= self._done}
        is_over = False
        for number in range(1, self._done + 1):
            is_over = next_input(inputs, number, recorder, NO_TRACING.run).is_last
        began = time.perf_counter()
        try:
            reached = self._done
            if is_over and reached < fit.steps:
                self._tell_of_end()
                self._leave(fit.connect_s)
            while reached < fit.steps and not is_over:
                number = self._done + 1
                line.on_step(number)
                self._context = self._context_of(number)
                given = next_input(inputs, number, recorder, self._context)
                step = self._steps.step_for(given)
                if given.is_last:
                    self._tell_of_end()
                _, loss, *others = step.run(*self._feeds(step.built, given, number))
                assert loss is not None
                self._losses[number] = loss.item()
                self._done = number
                counted = others[-1] if step.built.global_step else None
                reached = number if counted is None else int(counted)
                self._save_if_due(number)
                is_over = given.is_last
                if is_over and reached < fit.steps:
                    self._leave()
        finally:
            fitted.seconds += time.perf_counter() - began

    def _tell_of_end(self) -> None:
        if self._built.leaving:
            self._aside.run(self._built.leaving.tell)

    def _leave(self, patience_s: float = 0.0) -> None:
        """The data ended with the step before. Raises StepError if others wait for their gradients.

        Who had none left from the start may look before the others have told that of theirs.
        """
        if (leaving := self._built.leaving) is None:
            return
        deadline = time.monotonic() + patience_s
        while error := leaving.error(self._aside.run(leaving.left).tolist(), self._done):
            if time.monotonic() > deadline:
                raise error
            time.sleep(READY_POLL_S)

    def _feeds(self, built: DistributedStep, given: StepInput, number: int) -> tuple[Tensor, ...]:
        fit, batches = self._fit, [replica.batch for replica in given.replicas]
        replicas = range(fit.replica, fit.replica + len(batches))
        return built.feed(batches, [step_seed(fit.seed, each, number) for each in replicas])

    def _ready(self, line: Line) -> Ready:
        """For the first step of a run, or the next after the checkpoint that it found."""
        step = None
        if not self._round.leads:
            step = self._checkpoints.latest() if self._checkpoints else None
            self._await_variables(line)
        elif (step := self._restored()) is None:
            self._aside.run(self._built.init)
            self._save_if_due(0)
        return Ready(step or 0, held=self._saver.held)

    def _ready_again(self, line: Line) -> Ready:
        """After a task was lost, this one or another."""
        if self._round.leads:
            return self._found_again()
        self._await_variables(line)
        return Ready(self._done, held=self._saver.held)

    def _renewed(self, step: _OpenStep) -> _OpenStep:
        """The same graph in a new session."""
        _close(step)
        return self._in_session(step.built)

    def _await_variables(self, line: Line) -> None:
        """Polls until the chief has made them, as TF's `wait_for_session` does."""
        if not (reads := _first_reads(self._built.graph)):
            return
        deadline = time.monotonic() + self._fit.connect_s
        while True:
            line.on_step(0)
            try:
                self._aside.run(reads)
            except StepError as error:
                if error.code != "FAILED_PRECONDITION" or time.monotonic() > deadline:
                    raise
                time.sleep(READY_POLL_S)
            else:
                return

    def _evaluate(self, evaluation: Evaluation) -> Metric:
        batch, built = evaluation.batch, self._built
        with self._tracing.recorder.span("train.evaluate", self._tracing.run) as span:
            values = built.evaluation_feed(batch, step_seed(self._fit.seed, 0, 0))
            feeds = dict(zip(built.evaluation_feeds, values, strict=True))
            name = evaluation.name or metric_name(evaluation.metric)
            metric = Metric(name, float(self._aside.run(built.metric, feeds)))
            record_metric(span, metric, len(batch[0]))
        return metric


def record_metric(span: RareSpan, metric: Metric, examples: int) -> None:
    span.set("vizdist.metric", metric.name)
    span.set("vizdist.metric.value", metric.value)
    span.set("vizdist.examples", examples)


def _close(step: _OpenStep) -> None:
    with suppress(StepError):
        step.session.close()


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
