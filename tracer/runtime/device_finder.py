"""Waits until every task of a cluster has said which devices it has (TF `DeviceFinder`).

A bounded wait: who is missing, where it was looked for and what the last try said is told while
waiting and is in the error at the end. Each task that is asked has its `session.wait` span.
Filters leave out tasks that a session does without; the master's own task is always in.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tracer.model.cluster import DeviceName, DeviceSpec, TaskName
from tracer.model.step import SpanContext
from tracer.model.trace_folder import Flag
from tracer.record.open_span import OpenSpan
from tracer.record.recorder import Recorder
from tracer.runtime.caches import tell_lookup
from tracer.runtime.interfaces import (
    DeviceAttributes,
    StepError,
    WorkerInterface,
    WorkerStatus,
)

_RETRY_S = 0.1
_TELL_S = 1.0  #: between two reports of who is missing
NOTICE_S = 10.0  #: between two notices of it in the log

_log = logging.getLogger(__name__)


class DeviceFilters:
    """Partial names of which one must admit a task or a device; without any, all are admitted."""

    def __init__(self, texts: Iterable[str], own: TaskName) -> None:
        """`own` is always admitted. Raises StepError for a filter that cannot be read."""
        self._own = own
        try:
            self._specs = [DeviceSpec.parse(text) for text in texts]
        except ValueError as error:
            raise StepError("INVALID_ARGUMENT", f"device filter: {error}") from None

    def tasks(self, tasks: Iterable[TaskName]) -> list[TaskName]:
        return [task for task in tasks if self._admits(task)]

    def _admits(self, task: TaskName) -> bool:
        return (
            not self._specs
            or task == self._own
            or any(
                spec.job in (None, task.job) and spec.task in (None, task.index)
                for spec in self._specs
            )
        )

    def devices(self, devices: Iterable[DeviceAttributes]) -> list[DeviceAttributes]:
        named = [(DeviceName.parse(device.name), device) for device in devices]
        return [
            device
            for name, device in named
            if not self._specs
            or name.task_name == self._own
            or any(spec.matches(name) for spec in self._specs)
        ]


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
    search = _Search(workers, addresses, recorder, timeout_s)
    try:
        search.start(context)
        while missing := search.wait(_TELL_S):
            search.notice(missing)
            if progress is not None:
                progress(missing)
            if search.is_over:
                break
    finally:  # also when Ctrl-C ends it
        search.stop()
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
        recorder: Recorder,
        timeout_s: float,
    ) -> None:
        self.found: dict[TaskName, WorkerStatus] = {}
        self._workers = workers
        self._addresses = addresses
        self._recorder = recorder
        self._errors: dict[TaskName, str] = {}
        self._spans: dict[TaskName, OpenSpan] = {}
        self._deadline = time.monotonic() + timeout_s
        self._next_notice = time.monotonic() + NOTICE_S
        self._changed = threading.Condition()

    def start(self, context: SpanContext) -> None:
        for task in self._workers:
            site = self._recorder.site(
                "session.wait",
                name=str(task),
                attributes={
                    "vizdist.peer": str(task),
                    "server.address": self._addresses[task],
                },
            )
            self._spans[task] = self._recorder.open(site, context)
            name = f"get_status {task}"
            threading.Thread(target=self._ask, args=(task,), name=name, daemon=True).start()

    def _ask(self, task: TaskName) -> None:
        context = self._spans[task].context
        while not self.is_over:
            try:
                status = self._workers[task].get_status(context)
            except StepError as error:
                with self._changed:
                    self._errors[task] = error.message
                time.sleep(_RETRY_S)
                continue
            tell_lookup(self._recorder, context, "device_status", str(task), hit=False)
            with self._changed:
                self.found[task] = status
                self._spans[task].close()
                self._changed.notify_all()
            return

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._deadline

    def stop(self) -> None:
        """Nobody is asked once more."""
        self._deadline = 0.0

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

    def notice(self, missing: Sequence[Missing]) -> None:
        """Says now and then in the log who is still waited for."""
        if time.monotonic() < self._next_notice:
            return
        self._next_notice += NOTICE_S
        for one in missing:
            _log.warning("CreateSession still waiting for response from worker: %s", one)

    def end(self, missing: Sequence[Missing]) -> None:
        with self._changed:
            for one in missing:
                span = self._spans[one.task]
                span.set("vizdist.error", one.error or "no answer")
                span.close(flags=Flag.ERROR)
