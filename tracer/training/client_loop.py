"""What every client does about losses, whatever its steps are: from which step it goes on.

Where the run starts dead tasks again, a client that lost one makes its sessions anew and goes on:
from its own last step if every variable is still there, else all clients from the last checkpoint.
A group, whose clients step together, always takes the second way: the step that broke off may have
moved some of the copies.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from tracer.model.step import SpanContext, trace_of_step
from tracer.runtime.interfaces import StepError
from tracer.runtime.session import Tracing
from tracer.training.checkpoint import Checkpoints
from tracer.training.line import RECOVERABLE, Again, Line, Ready, Round
from tracer.training.saver import Saver, lost_error, torn_error

Found = TypeVar("Found")


class ClientLoop(ABC):
    """Steps, checkpoints of them, and the way back to one."""

    _saver: Saver  #: from `_begin` on

    def __init__(
        self,
        tracing: Tracing,
        checkpoints: Checkpoints | None,
        again: Again | None,
        *,
        is_chief: bool,
        is_group: bool = False,
    ) -> None:
        self._tracing = tracing
        self._checkpoints = checkpoints
        self._is_group = is_group
        self._round = again.round if again else Round(is_chief, has_begun=False)
        self._done = again.done if again else 0  # steps
        self._saved = 0  # step of the last checkpoint
        self._lives = 0  # of its sessions

    @abstractmethod
    def _begin(self, line: Line) -> None:
        """Makes the sessions, or all anew, and waits until every client may go on."""

    def _to_the_end(self, line: Line, run: Callable[[], Found]) -> Found:
        """What `run` finds, which goes on after `_done` steps. Raises StepError."""
        is_ready = False
        while True:
            try:
                if not is_ready:
                    self._begin(line)
                return run()
            except StepError as error:
                if line.recover is None or error.code not in RECOVERABLE:
                    raise
                self._recover(error, line, line.recover)
                is_ready = True

    def _recover(self, error: StepError, line: Line, recover: Callable[[StepError], Round]) -> None:
        """Makes the sessions anew, as often as it takes. Raises the error that ends the run."""
        with self._tracing.recorder.span("session.recover", self._tracing.run) as span:
            span.set("vizdist.error", error.message)
            span.set("vizdist.lost_step", self._done + 1)
            while error.code in RECOVERABLE:
                self._round = recover(error)
                self._lives += 1
                try:
                    self._begin(line)
                    break
                except StepError as another:
                    error = another
            else:
                raise error
            span.set("vizdist.resumed_step", self._done + 1)

    def _context_of(self, number: int) -> SpanContext:
        """A step that is run again is another request, with a trace of its own."""
        context = self._tracing.step(number)
        if not self._lives:
            return context
        life = f"again {self._lives}"
        return trace_of_step(context.trace_id, life, number, sampled=context.sampled)

    def _save_if_due(self, step: int) -> None:
        if self._checkpoints is not None and self._checkpoints.are_due(step):
            self._save()

    def _save_the_last(self) -> None:
        if self._saved < self._done:
            self._save()

    def _save(self) -> None:
        if self._round.leads:
            self._saver.save(self._done)
            self._saved = self._done

    def _restored(self) -> int | None:
        """The step of the last checkpoint, whose variables are restored; None: there is none."""
        step = self._checkpoints.latest() if self._checkpoints else None
        if step is not None:
            self._saver.restore(step)
            self._saved = step
        return step

    def _found_again(self) -> Ready:
        """Of the client that leads, after a task was lost, this one or another."""
        held, lost = self._saver.held, self._saver.lost()
        if not lost and not self._is_group:
            return Ready(self._done, held=held)
        if (step := self._restored()) is None:
            raise lost_error(lost) if lost else torn_error()
        return Ready(step, is_rolled_back=True, held=held)
