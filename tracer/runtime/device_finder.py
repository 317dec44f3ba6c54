"""Waits until every task of a cluster has said which devices it has (TF `DeviceFinder`).

A bounded wait: who is missing, where it was looked for and what the last try said is told while
waiting and is in the error at the end. Each task that is asked has its `session.wait` span.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tracer.model.cluster import TaskName
from tracer.model.step import SpanContext
from tracer.model.trace_folder import Flag
from tracer.record.open_span import OpenSpan
from tracer.record.recorder import Recorder
from tracer.runtime.interfaces import StepError, WorkerInterface, WorkerStatus

_RETRY_S = 0.1
_TELL_S = 1.0  #: between two reports of who is missing


@dataclass(frozen=True, slots=True)
class Missing:
    """A task that has not answered; `error` is what the last try said."""

    task: TaskName
    address: str
    error: str

    def __str__(self) -> str:
        where = f"{self.task} at {self.address or 'no address'}: "
        return where + (self.error.removeprefix(where) or "no answer yet")


Progress = Callable[[Sequence[Missing]], None]


def find_devices(
    workers: Mapping[TaskName, WorkerInterface],
    addresses: Mapping[TaskName, str],
    recorder: Recorder,
    context: SpanContext,
    timeout_s: float,
    progress: Progress | None = None,
) -> dict[TaskName, WorkerStatus]:
    """Status by task. Raises StepError DEADLINE_EXCEEDED naming each missing task."""
    search = _Search(workers, addresses, timeout_s)
    search.start(recorder, context)
    while missing := search.wait(_TELL_S):
        if progress is not None:
            progress(missing)
        if search.is_over:
            break
    search.end(missing)
    if missing:
        raise StepError(
            "DEADLINE_EXCEEDED",
            f"waited {timeout_s:g} s for {len(missing)} of {len(workers)} tasks: "
            + "; ".join(map(str, missing)),
            task=str(missing[0].task),
        )
    return search.found


class _Search:
    """A thread a task asks until it is answered or time is up."""

    def __init__(
        self,
        workers: Mapping[TaskName, WorkerInterface],
        addresses: Mapping[TaskName, str],
        timeout_s: float,
    ) -> None:
        self.found: dict[TaskName, WorkerStatus] = {}
        self._workers = workers
        self._addresses = addresses
        self._errors: dict[TaskName, str] = {}
        self._spans: dict[TaskName, OpenSpan] = {}
        self._deadline = time.monotonic() + timeout_s
        self._changed = threading.Condition()

    def start(self, recorder: Recorder, context: SpanContext) -> None:
        for task in self._workers:
            site = recorder.site(
                "session.wait",
                name=str(task),
                attributes={
                    "vizdist.peer": str(task),
                    "server.address": self._addresses[task],
                },
            )
            self._spans[task] = recorder.open(site, context)
            name = f"get_status {task}"
            threading.Thread(target=self._ask, args=(task,), name=name, daemon=True).start()

    def _ask(self, task: TaskName) -> None:
        while not self.is_over:
            try:
                status = self._workers[task].get_status()
            except StepError as error:
                with self._changed:
                    self._errors[task] = error.message
                time.sleep(_RETRY_S)
                continue
            with self._changed:
                self.found[task] = status
                self._spans[task].close()
                self._changed.notify_all()
            return

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._deadline

    def wait(self, wait_s: float) -> list[Missing]:
        """Who has not answered, when all have, or `wait_s` passed, or time is up."""
        left = max(0.0, min(wait_s, self._deadline - time.monotonic()))
        with self._changed:
            self._changed.wait_for(lambda: len(self.found) == len(self._workers), left)
            return [
                Missing(task, self._addresses[task], self._errors.get(task, ""))
                for task in self._workers
                if task not in self.found
            ]

    def end(self, missing: Sequence[Missing]) -> None:
        with self._changed:
            for one in missing:
                span = self._spans[one.task]
                span.set("vizdist.error", one.error or "no answer")
                span.close(flags=Flag.ERROR)
