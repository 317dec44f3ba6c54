"""The collectives of a task: what it leads, what is exchanged there, its native groups.

After TF `collective_executor_mgr.h`. Pieces lie in a table of the sender's task and are pulled by
RecvTensor, as every value between tasks is.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from tracer.model.cluster import TaskName
from tracer.model.collective import Arrival, Collective, Execution
from tracer.model.step import SpanContext
from tracer.ops.kernel import JoinCollective
from tracer.record.recorder import NO_RECORDER, Recorder
from tracer.runtime.collectives_exchange import Exchanges
from tracer.runtime.collectives_leader import Leader
from tracer.runtime.collectives_rank import Rank, RankRun
from tracer.runtime.devices import Device
from tracer.runtime.interfaces import ExecutionDone, StepError

if TYPE_CHECKING:
    from tracer.runtime.collectives_native import NativeRank, Store

#: how a leader is told: arrival, what it belongs to, who hears the answer
TellLeader = Callable[[Arrival, SpanContext, ExecutionDone], None]


class Collectives:
    """Of one task: what it leads, what is exchanged there, and its native groups.

    `host` is where the task serves; a store of torch.distributed knows no secret, so a native group
    is refused anywhere but on loopback.
    """

    def __init__(self, *, is_native: bool = False) -> None:
        self.is_native = is_native
        self.host = "127.0.0.1"
        self.exchanges = Exchanges()
        self.leader = Leader(self._port)
        self.task = TaskName("localhost", 0)
        self.name = ""
        self.recorder: Recorder = NO_RECORDER
        self._lives: dict[str, int] = {}
        self._came: dict[tuple[int, int], tuple[Arrival, TellLeader]] = {}  # by group and rank
        self.runs: set[RankRun] = set()  #: of this task's ranks, under way
        self._stores: dict[int, Store] = {}
        self._native: dict[tuple[int, int], NativeRank] = {}
        self._lock = threading.Lock()  # of the native ranks

    def join_task(
        self, task: TaskName, name: str, recorder: Recorder, devices: Sequence[Device]
    ) -> None:
        """`name` is how errors call the task."""
        self.task, self.name, self.recorder = task, name, recorder
        self._lives = {str(device.name): device.incarnation for device in devices}

    def rank(self, collective: Collective) -> JoinCollective:
        return Rank(self, collective, self._lives[collective.device]).join

    def waits_for(self, step_id: int) -> list[str]:
        """What a step waits for here, in words: ranks that have not come, and pieces."""
        runs = [run for run in list(self.runs) if run.step_id == step_id]
        told = [*self.leader.waits_for(step_id), *(run.waits_for() for run in runs)]
        return list(dict.fromkeys(filter(None, told)))

    def arrive_here(self, arrival: Arrival, _: SpanContext, done: ExecutionDone) -> None:
        """A TellLeader, of what this task leads."""
        self.leader.arrive(arrival, done)

    def came(self, arrival: Arrival, tell: TellLeader) -> None:
        """A rank of this task comes to a collective; within a graph none is missed afterwards."""
        if not arrival.scope:
            self._came[arrival.group_key, arrival.rank] = arrival, tell

    def leave(self) -> None:
        """The client of this task is done: nobody need wait for its ranks."""
        for arrival, tell in list(self._came.values()):
            with suppress(StepError):  # a leader that is gone keeps nobody waiting
                tell(arrival._replace(has_left=True), self.recorder.run, _unheard)

    def _port(self, group_key: int) -> int:
        """Of a new store for a native group that this task leads."""
        from tracer.runtime.collectives_native import Store  # noqa: PLC0415 (takes its time)

        if not self.host.startswith(("127.", "[::1]", "localhost")):
            raise StepError(
                "UNIMPLEMENTED",
                f"{self.name} serves on {self.host}: native collectives meet at a store that knows "
                "no secret, so they run on loopback only; use --collectives visible",
            )
        try:
            self._stores[group_key] = Store()
        except (OSError, RuntimeError) as error:
            raise StepError(
                "UNAVAILABLE", f"{self.name} could not open a store: {error}"
            ) from error
        return self._stores[group_key].port

    def native(self, group_key: int, collective: Collective, port: int) -> "NativeRank":
        from tracer.runtime.collectives_native import NativeRank  # noqa: PLC0415

        place = group_key, collective.rank
        with self._lock:
            rank = self._native.get(place)
            if rank is None or rank.port != port:
                if rank is not None:
                    rank.close(StepError("ABORTED", "its group has begun anew", derived=True))
                rank = self._native[place] = NativeRank(collective, group_key, port)
        return rank

    def abort(self, number: int, error: StepError) -> None:
        """An execution failed."""
        self.leader.abort(number)
        self.exchanges.abort(number, error)

    def close(self, error: StepError) -> None:
        self.leader.close(error)
        for number in self.exchanges.running():
            self.exchanges.abort(number, error)
        with self._lock:
            ranks = list(self._native.values())
        for rank in ranks:
            rank.close(error)


def _unheard(_: Execution | StepError) -> None:
    """There is nothing to be told."""
