"""One step as the master sees it: one run_graph a partition, one outcome for the client.

All parts are issued before any is waited for. The first failure aborts the parts that still run;
the outcome is the first error that is not the echo of another. A step that takes too long is
aborted, and its error says which keys its workers still waited for.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial

import torch

from tracer.model.step import new_step_id
from tracer.runtime.client_graph import ClientGraph, ClientPart
from tracer.runtime.interfaces import (
    RunGraphRequest,
    RunGraphResult,
    RunStepRequest,
    RunStepResult,
    StepError,
)
from tracer.runtime.states import STEP, Machine, Step

Lost = Callable[[], StepError | None]
StepEnded = Callable[["MasterStep", RunStepResult | StepError], None]

GRACE_S = 2.0  #: how long the other parts of a failed step may take to end


class MasterStep:
    """`deadline` is in seconds of `time.monotonic`; `was_made`: so was its graph, before."""

    def __init__(
        self,
        graph: ClientGraph,
        request: RunStepRequest,
        timeout_s: float,
        ended: StepEnded,
        *,
        was_made: bool = True,
        step_id: int = 0,
    ) -> None:
        self.step_id = step_id or new_step_id()
        self._was_made = was_made
        self.deadline = time.monotonic() + timeout_s
        self._graph = graph
        self._request = request
        self._timeout_s = timeout_s
        self._ended = ended
        self._lock = threading.Lock()
        self._state = Machine("step", self.step_id, STEP, Step.ISSUED)
        self._running = dict.fromkeys(range(len(graph.parts)))
        self._tells_parts = False  # of an abort: before all know, none may be cleaned up
        self._fetched: dict[str, torch.Tensor] = {}
        self._errors: list[StepError] = []

    def issue(self) -> None:
        if not self._graph.parts:
            self._finish()
        for number, part in enumerate(self._graph.parts):
            ended = partial(self._part_ended, number)
            try:
                part.worker.run_graph(self._run_graph_request(part), ended)
            except StepError as error:
                ended(RunGraphResult(error=error))

    def _run_graph_request(self, part: ClientPart) -> RunGraphRequest:
        request = self._request
        return RunGraphRequest(
            request.session,
            part.handle,
            self.step_id,
            request.context,
            {key: request.feeds[name] for name, key in part.feed_keys},
            part.fetch_keys,
        )

    def _part_ended(self, number: int, result: RunGraphResult) -> None:
        names = self._graph.parts[number].names
        with self._lock:
            if self._state.state is Step.DONE or number not in self._running:
                return
            del self._running[number]
            for key, tensor in result.fetched.items():
                self._fetched[names[key]] = tensor
            fails = result.error is not None and self._state.state is Step.ISSUED
            if result.error is not None:
                self._errors.append(result.error)
            if fails:
                self._begin_abort("part failed")
            is_over = self._is_over()
        if fails and result.error is not None:
            self._abort_parts(result.error)
        elif is_over:
            self._finish()

    def _is_over(self) -> bool:
        """Whether to finish now; says so once."""
        is_over = not self._running and not self._tells_parts
        if is_over:
            self._state.move("all parts ended")
        return is_over

    def _begin_abort(self, event: str) -> None:
        self._state.move(event)
        self._tells_parts = True
        self.deadline = time.monotonic() + GRACE_S

    def abort(self, error: StepError) -> None:
        """Ends the step from outside; `error` is its root cause if no part has failed."""
        with self._lock:
            if self._state.state is not Step.ISSUED:
                return
            self._errors.append(error)
            self._begin_abort("time out" if error.code == "DEADLINE_EXCEEDED" else "part failed")
        self._abort_parts(error)

    def _abort_parts(self, error: StepError) -> None:
        """Also those that ended: what they have sent is not fetched any more."""
        for part in self._graph.parts:
            with contextlib.suppress(StepError):  # who cannot be reached has his own error
                part.worker.start_abort(self.step_id, error.as_derived())
        with self._lock:
            self._tells_parts = False
            is_over = self._state.state is Step.ABORTING and self._is_over()
        if is_over:
            self._finish()

    def expire(self) -> None:
        """Time is up: the first time the step is aborted, the second time it is given up."""
        if self._state.state is Step.ISSUED:
            self.abort(
                StepError(
                    "DEADLINE_EXCEEDED",
                    f"step {self._request.context.step} did not end within {self._timeout_s:g} s",
                )
            )
            return
        with self._lock:
            if self._state.state is not Step.ABORTING:
                return
            self._state.move("given up")
            silent = ", ".join(self._graph.parts[number].task for number in self._running)
        root = root_error(self._errors)
        text = f"{root.message}\n\t no answer from {silent}"
        self._errors.append(StepError(root.code, text, derived=True))
        self._finish()

    def _finish(self) -> None:
        self._clean_up()
        if self._errors:
            self._ended(self, root_error(self._errors))
        else:
            self._ended(self, RunStepResult(self._fetched, self.step_id, self._was_made))

    def _clean_up(self) -> None:
        clean_up(self._graph, self.step_id)


def clean_up(graph: ClientGraph, step_id: int) -> None:
    """Lets every part forget a step; one that cannot be reached has nothing to forget."""
    for part in graph.parts:
        with contextlib.suppress(StepError):
            part.worker.cleanup_graph(step_id)


def root_error(errors: Iterable[StepError]) -> StepError:
    """The first error that is not derived, else the first; with what its echoes add."""
    errors = list(errors)
    root = next((error for error in errors if not error.derived), errors[0])
    lines = dict.fromkeys(
        line
        for error in errors
        if error.derived and error.message.startswith(root.message)
        for line in error.message.removeprefix(root.message).splitlines()
        if line.strip()
    )
    text = "\n".join((root.message, *lines))
    return StepError(root.code, text, task=root.task, node=root.node, derived=root.derived)


def never() -> StepError | None:
    """Nothing but time ends a step from outside."""
    return None


class Watchdog:
    """Looks after running steps from a thread of its own, which starts with the first step.

    `lost()` is why none of them can end well, if so: a task that they wait for may be one that they
    have no connection to, such as who else puts gradients into an accumulator.
    """

    def __init__(self, period_s: float, lost: Lost = never) -> None:
        self._period_s = period_s
        self._lost = lost
        self._steps: dict[int, MasterStep] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, step: MasterStep) -> None:
        self._steps[step.step_id] = step
        if self._thread is None:
            self._start()

    def forget(self, step: MasterStep) -> None:
        self._steps.pop(step.step_id, None)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._closed.is_set():
                thread = threading.Thread(target=self._loop, name="step watchdog", daemon=True)
                self._thread = thread
                thread.start()

    def _loop(self) -> None:
        while not self._closed.wait(self._period_s):
            now, lost = time.monotonic(), self._lost()
            for step in list(self._steps.values()):
                if lost is not None:
                    step.abort(lost)
                if now > step.deadline:
                    step.expire()

    def close(self) -> None:
        self._closed.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(5.0)
