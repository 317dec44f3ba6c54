"""From the events of the tasks to one outcome: done, or failed with one root cause.

No processes here: events in, `Phase` and `Failure` out, so that every order of events is a plain
test.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tracer.launch.child import Event, how_it_ended
from tracer.model.cluster import TaskName
from tracer.runtime.interfaces import StepError


class Phase(StrEnum):
    STARTING = "starting"  #: tasks come up and say their addresses
    SETTING_UP = "setting up"  #: clients make their graphs, sessions and variables
    RUNNING = "running"  #: clients drive steps
    FINISHED = "finished"  #: every client is done
    FAILED = "failed"


#: the legal moves; anything else is a fault of the launcher
MOVES: Mapping[Phase, frozenset[Phase]] = {
    Phase.STARTING: frozenset({Phase.SETTING_UP, Phase.FAILED}),
    Phase.SETTING_UP: frozenset({Phase.RUNNING, Phase.FAILED}),
    Phase.RUNNING: frozenset({Phase.FINISHED, Phase.FAILED}),
    Phase.FINISHED: frozenset({Phase.FAILED}),
    Phase.FAILED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run failed. The lowest `rank` of several is the root cause.

    A process that died explains every error that its peers report (`UNAVAILABLE`, aborted recvs),
    an error of its own explains the derived ones.
    """

    task: TaskName
    cause: str
    step: int = 0
    code: str = ""
    node: str = ""
    rank: int = 1

    def __str__(self) -> str:
        where = f"{self.task} in step {self.step}" if self.step else f"{self.task}"
        return f"{where}: {self.cause}"

    def to_json(self) -> dict[str, str]:
        """The fields that `--json` prints."""
        return {
            "code": self.code or "UNAVAILABLE",
            "node": self.node,
            "task": str(self.task),
            "message": self.cause,
        }


class RunFailed(Exception):
    """A run that failed, with its one root cause."""

    def __init__(self, failure: Failure, log_tail: list[str]) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.log_tail = log_tail


DIED, ERROR, PEER_LOST, DERIVED = range(4)


def failure_of(event: Event) -> Failure | None:
    """The failure that an event tells of, if it tells of one."""
    facts = event.facts
    step = facts.get("step", 0)
    if event.name == "exit" and not facts["expected"]:
        return Failure(event.task, how_it_ended(facts["code"]), step=step, rank=DIED)
    if event.name == "failed":
        error = StepError(
            facts["code"],
            facts["message"],
            task=facts.get("task", ""),
            node=facts.get("node", ""),
            derived=facts.get("derived", False),
        )
        return failure_from(event.task, error, step)
    return None


def failure_from(client: TaskName, error: StepError, step: int) -> Failure:
    """An error as its client saw it, at the task that it names."""
    rank = DERIVED if error.derived else PEER_LOST if error.code == "UNAVAILABLE" else ERROR
    task = _task_of(error, client)
    return Failure(task, error.message, step=step, code=error.code, node=error.node, rank=rank)


def _task_of(error: StepError, client: TaskName) -> TaskName:
    try:
        return TaskName.parse(error.task)
    except ValueError:  # it does not say, or its place is none of the cluster
        return client


@dataclass(slots=True)
class Watch:
    """The state of a run, as far as its tasks told it."""

    tasks: tuple[TaskName, ...]
    clients: frozenset[TaskName]
    phase: Phase = Phase.STARTING
    addresses: dict[TaskName, Mapping[str, Any]] = field(default_factory=dict)
    ready: set[TaskName] = field(default_factory=set)
    results: dict[TaskName, Mapping[str, Any]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    received_bytes: dict[TaskName, int] = field(default_factory=dict)

    def take(self, event: Event) -> Phase:
        """One event in; the phase after it."""
        if event.name == "serving":
            self.addresses[event.task] = event.facts
            if len(self.addresses) == len(self.tasks) and self.phase is Phase.STARTING:
                self._move(Phase.SETTING_UP)
        elif event.name == "ready":
            self.ready.add(event.task)
            if self.clients <= self.ready and self.phase is Phase.SETTING_UP:
                self._move(Phase.RUNNING)
        elif event.name == "done":
            self.results[event.task] = event.facts
            if self.clients <= self.results.keys() and self.phase is Phase.RUNNING:
                self._move(Phase.FINISHED)
        elif event.name == "left":
            self.received_bytes[event.task] = event.facts["received_bytes"]
        elif failure := failure_of(event):
            self.failures.append(failure)
            if self.phase is not Phase.FAILED:
                self._move(Phase.FAILED)
        return self.phase

    def _move(self, to: Phase) -> None:
        if to not in MOVES[self.phase]:
            raise RuntimeError(
                f"a run cannot go from {self.phase} to {to}; so far: "
                f"{len(self.addresses)} serving, {len(self.results)} done, {self.failures}"
            )
        self.phase = to

    @property
    def missing(self) -> Iterable[TaskName]:
        return (task for task in self.tasks if task not in self.addresses)

    @property
    def root_cause(self) -> Failure | None:
        """The earliest failure of the lowest rank."""
        return min(self.failures, key=lambda failure: failure.rank, default=None)

    @property
    def cause_is_certain(self) -> bool:
        """Whether nothing that may still come can explain the failures seen."""
        root = self.root_cause
        return root is not None and root.rank in (DIED, ERROR)
