"""The task processes of a run: started, told, started again, ended."""

import queue
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Any

from tracer.launch.account import Account
from tracer.launch.child import Child, Event
from tracer.launch.environment import num_on_cores, say_if_proxy_is_ignored, task_environment
from tracer.launch.plan import LIFE_VARIABLE, Life, Plan
from tracer.launch.progress import last_step
from tracer.model.cluster import TaskName
from tracer.record.open_span import OpenSpan


class Crew:
    """What the processes say comes as events into the queue; `devices` are those of each task."""

    def __init__(
        self,
        plan: Plan,
        devices: Mapping[TaskName, Sequence[str]],
        secret: str,
        scratch: Path,
        account: Account,
        events: "queue.SimpleQueue[Event]",
    ) -> None:
        self._plan = plan
        self._tasks = tuple(devices)
        self._scratch = scratch
        self._account = account
        self._events = events
        on_cores = sum(map(num_on_cores, devices.values()))
        self._environment = task_environment(plan, str(scratch), secret, on_cores)
        self._children: dict[TaskName, Child] = {}
        self._restarts: dict[TaskName, OpenSpan] = {}

    def start(self) -> None:
        say_if_proxy_is_ignored(self._plan)
        for task in self._tasks:
            self._start(task, self._environment)
        self._account.started({str(task): child.pid for task, child in self._children.items()})

    def _start(self, task: TaskName, environment: Mapping[str, str]) -> Child:
        arguments = ["--job", task.job, "--index", str(task.index)]
        log = self._account.log_path(task)
        child = self._children[task] = Child(task, arguments, environment, log, self._events)
        return child

    def restart(self, task: TaskName, address: str, attempt: int, cause: str) -> None:
        """Starts a dead task again, at its address; its client goes on where it was."""
        dead = self._children[task]
        dead.end(0)
        self._restarts[task] = self._span(task, address, attempt, cause)
        life = Life(address, attempt, max(0, last_step(self._scratch, task) - 1))
        told = {LIFE_VARIABLE: dumps(asdict(life))}
        child = self._start(task, {**self._environment, **told})
        self._account.restarted(task, child.pid, cause)

    def _span(self, task: TaskName, address: str, attempt: int, cause: str) -> OpenSpan:
        recorder = self._account.recorder
        site = recorder.site(
            "task.restart",
            name=str(task),
            attributes={
                "vizdist.peer": str(task),
                "vizdist.attempt": attempt,
                "vizdist.cause": cause,
                "server.address": address,
            },
        )
        return recorder.open(site, recorder.run)

    def serves(self, task: TaskName, facts: Mapping[str, Any]) -> None:
        self._account.serving(task, facts["address"], facts["devices"])
        if (span := self._restarts.pop(task, None)) is not None:
            span.close()

    def tell(self, task: TaskName, command: str, **facts: Any) -> None:
        self._children[task].command(command, **facts)

    def tail(self, task: TaskName) -> list[str]:
        """The last lines of the task's log."""
        child = self._children.get(task)
        return child.tail() if child else []

    def tell_of_stopped(self, limit_s: float) -> None:
        """Events of the processes that a signal has stopped for so long."""
        for child in self._children.values():
            child.tell_if_stopped(limit_s)

    def stop(self, silent: TaskName | None = None) -> None:
        """Tells every task to stop, all before waiting for one; kills what stays.

        One that is `silent`, as it answers no ping, would not hear it either, and is not waited
        for.
        """
        children = sorted(self._children.values(), key=lambda child: child.task != silent)
        for child in children:
            child.command("stop")
        deadline = time.monotonic() + self._plan.limits.shutdown_s
        for child in children:
            left = 0.0 if child.task == silent else deadline - time.monotonic()
            child.end(max(0.0, left))
            self._account.ended(child.task, child.process.returncode, is_lost=child.was_given_up)
        for span in self._restarts.values():
            span.close()
