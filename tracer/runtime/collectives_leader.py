"""The leader of a group: who has arrived, do they agree, who is missing.

After TF `collective_param_resolver_local.cc`. All that ranks bring is compared before a byte moves:
torch.distributed sums a [2, 3] and a [3, 2] without a word, and pairs collectives that were issued
in different orders.
"""

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tracer.model.cluster import DeviceName
from tracer.model.collective import Arrival, Execution
from tracer.model.step import STEP_ID_BITS
from tracer.runtime.collectives_agreement import difference, ranks_text, told
from tracer.runtime.interfaces import ExecutionDone, StepError

PERIOD_S = 0.1  #: how often it is looked who has waited too long
KEPT = 256  #: failed instances that wait for ranks which may never come; executions that may fail

_numbers = random.Random()  #: unique, not secret

LEFT = StepError("CANCELLED", "the rank has left", derived=True)

GroupKey = tuple[int, int]  # group key, scope
Tell = Callable[[], None]


class _Waiting(NamedTuple):
    arrival: Arrival
    done: ExecutionDone
    since: float  # of the leader's clock, in s


@dataclass
class _Instance:
    """One collective on its way; `error` once it has failed, for whoever comes then."""

    first: Arrival
    since: float
    waiting: dict[int, _Waiting] = field(default_factory=dict)
    came: set[int] = field(default_factory=set)
    error: StepError | None = None


@dataclass
class _Group:
    """What is known of a group within a scope.

    `order` is what some ranks have issued and not all: position → who issued it first.
    """

    instances: dict[int, list[_Instance]] = field(default_factory=dict)
    issued: dict[int, int] = field(default_factory=dict)
    order: dict[int, Arrival] = field(default_factory=dict)

    def all(self) -> list[_Instance]:
        return [one for mates in self.instances.values() for one in mates]

    def failed(self) -> list[_Instance]:
        return [one for one in self.all() if one.error is not None]


@dataclass
class _Meeting:
    """Where the ranks of a native group meet, until one of its executions fails."""

    port: int
    tasks: set[str]
    turn: int = 0
    numbers: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))


class Leader:
    """`port` opens a new store for a group that is native, and gives its port.

    `now` is in seconds.
    """

    def __init__(
        self, port: Callable[[int], int], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._port = port
        self._now = now
        self._lock = threading.Lock()
        self._groups: dict[GroupKey, _Group] = {}
        self._last: dict[tuple[int, int], tuple[Arrival, float]] = {}  # by group key and rank
        self._left: set[tuple[int, int]] = set()  # of these whose client is done
        self._num_done: dict[int, int] = {}  # executions, by group key
        self._meetings: dict[int, _Meeting] = {}  # of native groups, by group key
        self._told: dict[int, list[str]] = {}  # by scope: of instances that were given up
        self._over: StepError | None = None  # what ended this
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def arrive(self, arrival: Arrival, done: ExecutionDone) -> None:
        """Calls `done` once all ranks are there, or it is known that they will not agree."""
        with self._lock:
            if arrival.has_left:
                tells = [*self._leave(arrival), _telling(done, LEFT)]
            elif arrival.given_up:
                gone = StepError("CANCELLED", arrival.given_up, derived=True)
                tells = [*self._give_up(arrival), _telling(done, gone)]
            elif self._over is not None:
                tells = [_telling(done, self._over)]
            else:
                tells = self._arrive(_Waiting(arrival, done, self._now()))
        for tell in tells:
            tell()

    def _arrive(self, new: _Waiting) -> list[Tell]:
        arrival = new.arrival
        group = self._groups.setdefault((arrival.group_key, arrival.scope), _Group())
        instance = self._instance(group, new)
        instance.came.add(arrival.rank)
        self._last[arrival.group_key, arrival.rank] = arrival, new.since
        self._left.discard((arrival.group_key, arrival.rank))
        if instance.error is not None:  # the others heard of it, and may be in the next one
            self._drop_over(group)
            return [_telling(new.done, instance.error)]
        instance.waiting[arrival.rank] = new
        fault = difference(instance.first, arrival) or self._wrong_order(group, new)
        fault = fault or self._left_early(instance)
        if fault is not None:
            return self._fail(group, fault)
        if len(instance.waiting) < len(arrival.devices):
            self._watch()
            return []
        return self._complete(group, instance)

    @staticmethod
    def _instance(group: _Group, new: _Waiting) -> _Instance:
        """The oldest one of this key to which the rank has not come yet."""
        arrival = new.arrival
        mates = group.instances.setdefault(arrival.instance_key, [])
        for instance in mates:
            if arrival.rank not in instance.came:
                return instance
        mates.append(_Instance(arrival, new.since))
        return mates[-1]

    def _complete(self, group: _Group, instance: _Instance) -> list[Tell]:
        first = instance.first
        number = 1 << STEP_ID_BITS | _numbers.getrandbits(STEP_ID_BITS)
        try:
            port, turn = self._meet(first, number) if first.algorithm == "native" else (0, 0)
        except StepError as error:
            return self._fail(group, error)
        self._forget(first, group, instance)
        by_rank = [instance.waiting[rank].arrival for rank in range(len(first.devices))]
        key = first.group_key
        self._num_done[key] = self._num_done.get(key, 0) + 1
        answer = Execution(
            number,
            tuple(one.incarnation for one in by_rank),
            tuple(one.shape[0] if one.shape else 1 for one in by_rank),
            port,
            turn,
        )
        return [_telling(waiting.done, answer) for waiting in instance.waiting.values()]

    def _meet(self, first: Arrival, number: int) -> tuple[int, int]:
        """Port and turn of a native execution. Raises StepError where there can be no store."""
        key = first.group_key
        meeting = self._meetings.get(key)
        if meeting is None:
            meeting = self._meetings[key] = _Meeting(self._port(key), _tasks(first))
        meeting.numbers.append(number)
        meeting.turn += 1
        return meeting.port, meeting.turn - 1

    def abort(self, number: int) -> None:
        """An execution failed: a native group has lost its turns, and meets elsewhere anew."""
        with self._lock:
            self._meetings = {k: m for k, m in self._meetings.items() if number not in m.numbers}

    def _forget(self, arrival: Arrival, group: _Group, instance: _Instance) -> None:
        mates = group.instances[arrival.instance_key]
        mates.remove(instance)
        if not mates:
            del group.instances[arrival.instance_key]
        if not group.instances and not group.order:
            self._groups.pop((arrival.group_key, arrival.scope), None)

    def _wrong_order(self, group: _Group, new: _Waiting) -> StepError | None:
        """Ranks that issue one after the other must issue the same."""
        arrival = new.arrival
        if not arrival.is_ordered:
            return None
        position = group.issued.get(arrival.rank, 0)
        group.issued[arrival.rank] = position + 1
        other = group.order.setdefault(position, arrival)
        if min(group.issued.get(rank, 0) for rank in range(len(arrival.devices))) > position:
            del group.order[position]
        if (other.instance_key, other.of) == (arrival.instance_key, arrival.of):
            return None
        return StepError(
            "INVALID_ARGUMENT",
            f"the ranks of group {arrival.group_key} issue collectives in different orders: as "
            f"number {position + 1} {told(other)}, {told(arrival)}. No bytes were moved; "
            "give all ranks one order",
        )

    def _fail(self, group: _Group, error: StepError) -> list[Tell]:
        """Ends all that waits in the group: an order that is lost is lost for all."""
        tells = []
        for instance in group.all():
            instance.error = instance.error or error
            waiting, instance.waiting = instance.waiting, {}
            tells += [_telling(one.done, error) for one in waiting.values()]
        group.issued.clear()
        group.order.clear()
        self._drop_over(group)
        return tells

    def _drop_over(self, group: _Group) -> None:
        """Failed instances go when every rank has heard of it, or when there are too many."""
        for instance in group.failed():
            if len(instance.came) == len(instance.first.devices):
                self._forget(instance.first, group, instance)
        failed = [(each, one) for each in self._groups.values() for one in each.failed()]
        for each, instance in failed[:-KEPT]:
            self._forget(instance.first, each, instance)

    def _give_up(self, arrival: Arrival) -> list[Tell]:
        group = self._groups.get((arrival.group_key, arrival.scope), _Group())
        for instance in group.instances.get(arrival.instance_key, []):
            if arrival.rank in instance.waiting:
                if arrival.scope and arrival.scope not in self._told:
                    self._told[arrival.scope] = [self._missing(instance)]
                    if len(self._told) > KEPT:
                        del self._told[next(iter(self._told))]
                text = f"rank {arrival.rank} ({arrival.devices[arrival.rank]}) gave up: "
                error = StepError("ABORTED", text + arrival.given_up, derived=True)
                return self._fail(group, error)
        return []

    def _leave(self, arrival: Arrival) -> list[Tell]:
        self._left.add((arrival.group_key, arrival.rank))
        group = self._groups.get((arrival.group_key, arrival.scope), _Group())
        faults = (self._left_early(one) for one in group.all() if one.waiting)
        fault = next(filter(None, faults), None)
        return [] if fault is None else self._fail(group, fault)

    def _left_early(self, instance: _Instance) -> StepError | None:
        """Its ranks run different numbers of steps: some are done, and others wait for them."""
        first, now = instance.first, self._now()
        ranks = (rank for rank in range(len(first.devices)) if rank not in instance.came)
        gone = [rank for rank in ranks if (first.group_key, rank) in self._left]
        if not gone:
            return None
        left = "; ".join(self._absent(first, rank, now) for rank in gone)
        step = f" in step {first.step}" if first.step else ""
        return StepError(
            "FAILED_PRECONDITION",
            f"the ranks of group {first.group_key} run different numbers of steps: "
            f"{ranks_text(sorted(instance.came))} came{step}, but not {left}, and is done. "
            "No bytes were moved; give all ranks the same number of steps, and data for them",
        )

    # who is missing

    def waits_for(self, step_id: int) -> list[str]:
        """What a step waits for here, in words."""
        with self._lock:
            if step_id in self._told:
                return self._told[step_id]
            return [
                self._missing(instance)
                for (_, scope), group in self._groups.items()
                if scope == step_id
                for instance in group.all()
                if instance.error is None
            ]

    def missing(self, arrival: Arrival) -> str:
        """Whom a rank that waits here waits for, in words; "" if it waits for nobody."""
        with self._lock:
            group = self._groups.get((arrival.group_key, arrival.scope), _Group())
            mates = group.instances.get(arrival.instance_key, [])
            held = (self._missing(one) for one in mates if arrival.rank in one.waiting)
            return next(held, "")

    def _missing(self, instance: _Instance) -> str:
        first, now = instance.first, self._now()
        came = sorted(instance.came)
        missing = [rank for rank in range(len(first.devices)) if rank not in instance.came]
        number = self._num_done.get(first.group_key, 0) + 1
        return (
            f"collective {number} of group {first.group_key} ({told(first)}) waits for "
            f"{'; '.join(self._absent(first, rank, now) for rank in missing)}. {ranks_text(came)} "
            f"came, the first {now - instance.since:.1f} s ago"
        )

    def _absent(self, first: Arrival, rank: int, now: float) -> str:
        last = self._last.get((first.group_key, rank))
        where = f"rank {rank} ({first.devices[rank]}), "
        if last is None:
            return where + "which has come to no collective of the group yet"
        arrival, since = last
        step = f" of step {arrival.step}" if arrival.step else ""
        return (
            f"{where}which came last to instance {arrival.instance_key}{step}, "
            f"{now - since:.1f} s ago"
        )

    def expire(self) -> None:
        """Fails what has waited for longer than its nodes allow."""
        tells: list[Tell] = []
        with self._lock:
            now = self._now()
            for group in list(self._groups.values()):
                for instance in group.all():
                    first = instance.first
                    if instance.waiting and now - instance.since > first.timeout_s:
                        text = f"not all ranks came within {first.timeout_s:g} s: "
                        error = StepError("DEADLINE_EXCEEDED", text + self._missing(instance))
                        tells += self._fail(group, error)
        for tell in tells:
            tell()

    def waiting(self) -> int:
        """How many ranks wait for others here."""
        with self._lock:
            return sum(len(one.waiting) for group in self._groups.values() for one in group.all())

    def lose(self, task: str, error: StepError) -> None:
        """Fails what waits for the ranks of a task that was lost.

        It will not come to what failed: if it starts again, it begins with the others' next.
        """
        tells: list[Tell] = []
        with self._lock:
            self._meetings = {k: m for k, m in self._meetings.items() if task not in m.tasks}
            for group in list(self._groups.values()):
                lost = [(o, ranks) for o in group.all() if (ranks := _ranks_of(task, o.first))]
                for instance, ranks in lost:
                    instance.came |= ranks
                if lost:
                    tells += self._fail(group, error)
        for tell in tells:
            tell()

    def _watch(self) -> None:
        if self._thread is None and not self._closed.is_set():
            thread = threading.Thread(target=self._loop, name="collective watchdog", daemon=True)
            self._thread = thread
            thread.start()

    def _loop(self) -> None:
        while not self._closed.wait(PERIOD_S):
            self.expire()

    def close(self, error: StepError) -> None:
        """Ends all that waits here."""
        self._closed.set()
        with self._lock:
            self._over = error
            groups, self._groups = list(self._groups.values()), {}
        for group in groups:
            for waiting in [each for one in group.all() for each in one.waiting.values()]:
                waiting.done(error)


def _task(device: str) -> str:
    return str(DeviceName.parse(device).task_name)


def _tasks(arrival: Arrival) -> set[str]:
    return {_task(device) for device in arrival.devices}


def _ranks_of(task: str, arrival: Arrival) -> set[int]:
    return {rank for rank, device in enumerate(arrival.devices) if _task(device) == task}


def _telling(done: ExecutionDone, outcome: Execution | StepError) -> Tell:
    return lambda: done(outcome)
