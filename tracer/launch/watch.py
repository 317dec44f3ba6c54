"""From the events of the tasks to one outcome: done, or failed with one root cause.

No processes here: events in, orders, `Phase` and `Failure` out, so that every order of events is a
plain test. Where tasks may be started again, a death is no failure:

    a client dies    it alone is started again, and goes on when it is ready
    another task     it is started again, and every client makes its sessions anew: a new *round*.
                     One of them leads: it restores the variables. All go on together.
    one of a group   clients that step together, and so does any client of theirs that dies

Before the first step of any client nothing can be lost, and whoever leads makes the variables anew;
a task that was not killed then, but failed, would fail again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from tracer.launch.child import Event
from tracer.launch.failure import DIED, ERROR, Failure, failure_of
from tracer.model.cluster import TaskName


class Phase(StrEnum):
    STARTING = "starting"  #: tasks come up and say their addresses
    SETTING_UP = "setting up"  #: clients make their graphs, sessions and variables, perhaps again
    RUNNING = "running"  #: clients drive steps
    FINISHED = "finished"  #: every client is done
    FAILED = "failed"


#: the legal moves; anything else is a fault of the launcher
MOVES: Mapping[Phase, frozenset[Phase]] = {
    Phase.STARTING: frozenset({Phase.SETTING_UP, Phase.FAILED}),
    Phase.SETTING_UP: frozenset({Phase.RUNNING, Phase.FINISHED, Phase.FAILED}),
    Phase.RUNNING: frozenset({Phase.SETTING_UP, Phase.FINISHED, Phase.FAILED}),
    Phase.FINISHED: frozenset({Phase.FAILED}),
    Phase.FAILED: frozenset(),
}

MOST_NAMED = 8  #: variables

ROUNDS = 3  #: that clients may try for each task that was started again

RESTART = "restart"  #: an order for the launcher; the others are for the task


class Order(NamedTuple):
    """What is to be done for a task because of an event."""

    command: str
    task: TaskName
    facts: Mapping[str, Any]


@dataclass(slots=True)
class Watch:
    """The state of a run, as far as its tasks told it.

    `restarts` are allowed to each task. `is_group`: its clients step together.
    """

    tasks: tuple[TaskName, ...]
    clients: frozenset[TaskName]
    restarts: int = 0
    is_group: bool = False
    phase: Phase = Phase.STARTING
    addresses: dict[TaskName, Mapping[str, Any]] = field(default_factory=dict)
    ready: dict[TaskName, Mapping[str, Any]] = field(default_factory=dict)
    results: dict[TaskName, Mapping[str, Any]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    received_bytes: dict[TaskName, int] = field(default_factory=dict)
    attempts: Counter[TaskName] = field(default_factory=Counter)  #: beyond the first
    lost: dict[TaskName, Failure] = field(default_factory=dict)  #: of clients that wait for a round
    held: dict[str, Sequence[str]] = field(default_factory=dict)  #: variables by task
    round: int = 0
    has_begun: bool = False  #: some client may have run a step
    _away: set[TaskName] = field(default_factory=set)  #: being started again
    _started: set[TaskName] = field(default_factory=set)  #: clients that were told to go
    _orders: list[Order] = field(default_factory=list)

    def take(self, event: Event) -> Phase:
        """One event in; the phase after it."""
        if event.name == "serving":
            self._serves(event)
        elif event.name == "ready":
            self.held.update(event.facts.get("held", {}))
            if event.facts["round"] == self.round:
                self.ready[event.task] = event.facts
            self._let_go()
        elif event.name == "done":
            self._is_done(event)
        elif event.name == "left":
            self.received_bytes[event.task] = event.facts["received_bytes"]
        elif failure := failure_of(event):
            if event.name == "lost":
                self._has_lost(event, failure)
            elif event.name == "exit" and self._may_come_back(event):
                self._comes_back(event.task, failure)
            else:
                self._fail(self._with_what_it_held(event, failure))
        return self.phase

    def _with_what_it_held(self, event: Event, failure: Failure) -> Failure:
        """What dies with a parameter server; workers of a group all hold the same."""
        names = self.held.get(str(event.task), ()) if event.name == "exit" else ()
        if not names or (self.is_group and event.task in self.clients):
            return failure
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        cause = f"{failure.cause}; with it went {', '.join(names[:MOST_NAMED])}{more}"
        return replace(failure, cause=cause)

    def orders(self) -> list[Order]:
        """Those that came up since the last look."""
        orders, self._orders = self._orders, []
        return orders

    def _serves(self, event: Event) -> None:
        self.addresses[event.task] = event.facts
        was_away = event.task in self._away
        self._away.discard(event.task)
        if self.phase is not Phase.STARTING:
            if was_away:
                self._order("cluster", event.task)
        elif len(self.addresses) == len(self.tasks) and not self._away:
            self._move(Phase.SETTING_UP)

    def _is_done(self, event: Event) -> None:
        self.results[event.task] = event.facts
        if self.clients <= self.results.keys():
            self._move(Phase.FINISHED)
        elif self.phase is Phase.SETTING_UP and self._leader_is(event.task):
            self._new_round()  # it ended well before it heard that it should lead
        else:
            self._let_go()

    def _leader_is(self, task: TaskName) -> bool:
        return bool(self.round) and task not in self.ready and task < min(self.unfinished)

    def _has_lost(self, event: Event, failure: Failure) -> None:
        """A client cannot go on; that it lost a task which is being started again is no news."""
        if event.facts["round"] != self.round:
            return
        self.lost[event.task] = failure
        if self.phase is Phase.SETTING_UP and self.round < ROUNDS * self.attempts.total():
            self._new_round()

    def _may_come_back(self, event: Event) -> bool:
        """What ends by itself before the first step would do so again; a group needs all of it."""
        task, was_killed = event.task, event.facts["code"] < 0
        goes_on = self.phase not in (Phase.FINISHED, Phase.FAILED)
        goes_on = goes_on and not (self.is_group and self.results)
        could = goes_on and (was_killed or self.has_begun)
        return could and task not in self.results and self.attempts[task] < self.restarts

    def _comes_back(self, task: TaskName, failure: Failure) -> None:
        self.attempts[task] += 1
        self._away.add(task)
        self._orders.append(Order(RESTART, task, {"cause": failure.cause}))
        if self.phase is Phase.STARTING:
            return
        if self.phase is Phase.RUNNING:
            self._move(Phase.SETTING_UP)
        self.ready.pop(task, None)
        self._started.discard(task)
        if task not in self.clients or self.lost or self.is_group:
            self._new_round()

    def _new_round(self) -> None:
        """Every client makes its sessions anew; one that is away learns of it when it serves."""
        self.round += 1
        self.ready.clear()
        self.lost.clear()
        self._started -= self.unfinished
        for task in sorted(self.unfinished - self._away):
            self._order("remake", task)

    def _order(self, command: str, task: TaskName) -> None:
        leads = bool(self.unfinished) and task == min(self.unfinished)
        facts = {"round": self.round, "leads": leads, "has_begun": self.has_begun}
        self._orders.append(Order(command, task, facts))

    def _let_go(self) -> None:
        """Tells those that wait to begin, once all clients are ready that are not done."""
        if self.phase is not Phase.SETTING_UP or not self.unfinished <= self.ready.keys():
            return
        self._move(Phase.RUNNING)
        self.has_begun = True
        waiting = sorted(self.unfinished - self._started)
        back = [self.ready[t]["step"] for t in waiting if self.ready[t]["is_rolled_back"]]
        for task in waiting:
            step = back[0] if back else None
            self._orders.append(Order("go", task, {"round": self.round, "step": step}))
        self._started.update(waiting)

    def _fail(self, failure: Failure) -> None:
        self.failures.append(failure)
        if self.phase is not Phase.FAILED:
            self._move(Phase.FAILED)

    def give_up(self) -> Phase:
        """No death explains what clients have lost, and none will any more."""
        for failure in self.lost.values():
            self._fail(failure)
        return self.phase

    def _move(self, to: Phase) -> None:
        if to not in MOVES[self.phase]:
            raise RuntimeError(
                f"a run cannot go from {self.phase} to {to}; so far: "
                f"{len(self.addresses)} serving, {len(self.results)} done, {self.failures}"
            )
        self.phase = to

    @property
    def unfinished(self) -> frozenset[TaskName]:
        return self.clients - self.results.keys()

    @property
    def missing(self) -> Iterable[TaskName]:
        away = self._away
        return (task for task in self.tasks if task not in self.addresses or task in away)

    @property
    def root_cause(self) -> Failure | None:
        """The earliest failure of the lowest rank."""
        return min(self.failures, key=lambda failure: failure.rank, default=None)

    @property
    def silent(self) -> TaskName | None:
        """Who lives and answers no ping of its peers, if that is why the run failed."""
        root = self.root_cause
        return root.task if root is not None and root.is_silence else None

    @property
    def cause_is_certain(self) -> bool:
        """Whether nothing that may still come can explain the failures seen."""
        root = self.root_cause
        return root is not None and root.rank in (DIED, ERROR)
