"""A rank of a collective: it arrives, waits for the others, and passes pieces on hop by hop.

After TF `ring_reducer.cc`. A rank's time is its wait for the others and its hops, one after
another; nothing else.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from tracer.model.cluster import DeviceName, TaskName
from tracer.model.collective import Arrival, Collective, Execution
from tracer.model.step import RendezvousKey, SpanContext
from tracer.ops.dtypes import dtype_name
from tracer.ops.kernel import Cancel, OpError, StepDone
from tracer.record.open_span import OpenSpan
from tracer.runtime import turn
from tracer.runtime.collectives_exchange import Exchange
from tracer.runtime.collectives_pieces import Pieces, pieces_of, schedule_of
from tracer.runtime.collectives_schedule import Receive, Send
from tracer.runtime.interfaces import Received, StepError, WorkerInterface
from tracer.runtime.request_ids import new_request_id

if TYPE_CHECKING:
    from tracer.runtime.collectives import Collectives

GIVEN_UP = StepError("CANCELLED", "the step was cancelled", derived=True)


class Rank:
    """One rank's node, bound to its task."""

    def __init__(self, home: "Collectives", collective: Collective, life: int) -> None:
        self.home = home
        self.collective = collective
        self.life = life
        self.schedule = schedule_of(collective)
        self.num_here = collective.tasks.count(home.task)  #: ranks
        self._sites: dict[tuple[int, int], tuple[int, list[int]]] = {}
        self._keys: dict[tuple[int, int], tuple[tuple[int, ...], list[str]]] = {}

    def join(self, done: StepDone, x: torch.Tensor, group: int, instance: int) -> Cancel:
        run = RankRun(self, done, x, group, instance)
        run.start()
        return run.cancel

    def sites(self, group: int, instance: int) -> tuple[int, list[int]]:
        """Of the collective, and of each action of its schedule (0 of a send)."""
        found = self._sites.get((group, instance))
        if found is None:
            found = self._sites[group, instance] = self._made_sites(group, instance)
        return found

    def keys(self, group: int, instance: int, lives: tuple[int, ...]) -> list[str]:
        """Under which each action of the schedule hands its piece over."""
        found = self._keys.get((group, instance))
        if found is None or found[0] != lives:
            edge = f"collective_{group}_{instance}"
            keys = [self._key(edge, action, lives) for action in self.schedule]
            found = self._keys[group, instance] = lives, keys
        return found[1]

    def _key(self, edge: str, action: Send | Receive, lives: tuple[int, ...]) -> str:
        own, devices = self.collective.rank, self.collective.devices
        source, to = (own, action.to) if isinstance(action, Send) else (action.source, own)
        name = f"{edge}_{action.phase}_{action.piece}"
        return str(RendezvousKey(devices[source], lives[source], devices[to], name))

    def _made_sites(self, group: int, instance: int) -> tuple[int, list[int]]:
        one = self.collective
        lane = f"collective {DeviceName.parse(one.device).short}"
        keys = {
            "vizdist.collective.group": str(group),
            "vizdist.collective.instance": str(instance),
            "vizdist.collective.algorithm": one.algorithm,
            "vizdist.collective.rank": one.rank,
            "vizdist.device": one.device,
        }
        told = {
            **keys,
            "vizdist.collective.num_ranks": len(one.devices),
            "vizdist.collective.of": one.of,
            "vizdist.node": one.node,
        }
        if one.kind == "all_reduce":
            told["vizdist.collective.op"] = f"{one.merge_op} {one.final_op}"
        site = self.home.recorder.site(
            f"collective.{one.kind}", name=one.of or one.node, lane=lane, attributes=told
        )
        return site, [self._hop_site(action, lane, keys) for action in self.schedule]

    def _hop_site(self, action: Send | Receive, lane: str, keys: dict[str, Any]) -> int:
        if isinstance(action, Send):
            return 0
        attributes = {
            **keys,
            "vizdist.collective.phase": action.phase,
            "vizdist.collective.chunk": action.piece,
            "vizdist.collective.sender": action.source,
            "vizdist.collective.receiver": self.collective.rank,
        }
        name = f"{action.phase} {action.piece}"
        return self.home.recorder.site(
            "collective.hop", name=name, lane=lane, attributes=attributes
        )

    def arrival(self, done: StepDone, x: torch.Tensor, group: int, instance: int) -> Arrival:
        one, step = self.collective, done.step
        return Arrival(
            one.kind,
            one.node,
            one.devices,
            one.rank,
            group,
            instance,
            self.life,
            0 if one.between_graphs else step.rendezvous.step_id,
            done.context.step,
            dtype_name(x.dtype),
            tuple(x.shape),
            one.of,
            one.merge_op,
            one.final_op,
            one.algorithm,
            one.is_ordered,
            one.source,
            one.timeout_s,
        )


class RankRun:
    """One execution of one rank."""

    def __init__(
        self, rank: Rank, done: StepDone, x: torch.Tensor, group: int, instance: int
    ) -> None:
        self._rank, self._home, self._collective = rank, rank.home, rank.collective
        self._done, self._brought = done, [x]
        self._tensor_bytes = x.nbytes
        self._arrival = rank.arrival(done, x, group, instance)
        self._group, self._instance = group, instance
        self._open = [self]  # until the run has ended: who takes it out ends it
        self._next = 0
        self._sent_bytes = 0
        self._wait_ns = 0
        self._clock = 0  # when the last hop ended
        self._execution: Execution | None = None
        self._exchange: Exchange | None = None
        self._pieces: Pieces | None = None
        self._keys: list[str] = []  # of the actions, once all have come
        self._span: OpenSpan | None = None
        self._hop: OpenSpan | None = None
        self._site, self._hop_sites = rank.sites(group, instance)

    def start(self) -> None:
        recorder = self._home.recorder
        self._clock = recorder.now()
        self._home.runs.add(self)
        self._span = recorder.open(self._site, self._done.context, 0, self._clock)
        try:
            self._tell_leader(self._arrival, self._span.context)
        except StepError as error:
            self._fail(error)

    @property
    def step_id(self) -> int:
        """Of the step that it is a part of."""
        number: int = self._done.step.rendezvous.step_id
        return number

    def waits_for(self) -> str:
        """In words: the piece that has not come, or torch, or the ranks; "" if the leader says it.

        Of a graph that all ranks are in, the leader knows which step is meant.
        """
        one, leader = self._collective, self._collective.leader
        waits = f"rank {one.rank} of group {self._group} waits in {one.kind} of {one.of!r} for"
        if self._execution is None:
            if self._arrival.scope:
                return ""
            here = self._home.leader.missing(self._arrival) if leader == self._home.task else ""
            return here or f"{waits} other ranks, as {leader} knows, which leads them"
        if one.algorithm == "native":
            return f"{waits} torch.distributed"
        action = self._rank.schedule[max(0, self._next - 1)]
        source = action.source if isinstance(action, Receive) else one.rank
        return (
            f"{waits} piece {action.piece} ({action.phase}) of rank {source} ({one.tasks[source]})"
        )

    def _tell_leader(self, arrival: Arrival, context: SpanContext) -> None:
        leader, home = self._collective.leader, self._home
        is_here = leader == home.task
        tell = home.arrive_here if is_here else self._peer(leader).complete_instance
        home.came(arrival, tell)
        tell(arrival, context, self._answered)

    def _peer(self, task: TaskName) -> WorkerInterface:
        peer: WorkerInterface = self._done.step.rendezvous.peer(task)
        return peer

    def _answered(self, outcome: Execution | StepError) -> None:
        turn.run(partial(self._try, partial(self._begin, outcome)))

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except StepError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 (as of a kernel)
            reason = OpError.of(error)
            self._fail(StepError(reason.code, reason.message))

    def _begin(self, outcome: Execution | StepError) -> None:
        if isinstance(outcome, StepError):
            self._end_failed(outcome)
            return
        self._execution = outcome
        if not self._open:  # cancelled as the last rank came
            self._abort(GIVEN_UP)
            if self._collective.algorithm == "native":
                self._take_turn(outcome)  # with nothing, which ends those after it
            return
        arrived = self._home.recorder.now()
        self._wait_ns, self._clock = arrived - self._clock, arrived
        self._tell_execution(outcome)
        if self._collective.algorithm == "native":
            self._take_turn(outcome)
            return
        self._keys = self._rank.keys(self._group, self._instance, outcome.incarnations)
        self._exchange = self._home.exchanges.enter(outcome.number, self._rank.num_here)
        self._pieces = pieces_of(self._collective, self._brought)
        self._send_on()
        self._ask_or_end(arrived)

    def _take_turn(self, execution: Execution) -> None:
        native = self._home.native(self._group, self._collective, execution.port)
        native.run(execution, self._collective, self._brought, self._native_ended)

    def _tell_execution(self, execution: Execution) -> None:
        if self._span is not None and self._span.context.sampled:
            self._home.recorder.annotate(
                self._span.span,
                {
                    "vizdist.collective.execution": f"{execution.number:016x}",
                    "vizdist.tensor.bytes": self._tensor_bytes,
                },
            )

    def _send_on(self) -> None:
        """All sends up to the next receive."""
        assert self._exchange is not None
        assert self._pieces is not None
        schedule = self._rank.schedule
        while self._next < len(schedule) and isinstance(action := schedule[self._next], Send):
            key, piece = self._keys[self._next], self._pieces.get(action.piece)
            self._next += 1
            self._sent_bytes += piece.nbytes
            self._exchange.send(key, piece, self._span_id)

    @property
    def _span_id(self) -> int:
        return self._span.span if self._span is not None else 0

    def _ask_or_end(self, end: int) -> None:
        """`end` is when the hop before ended."""
        if self._next == len(self._rank.schedule):
            assert self._pieces is not None
            self._succeed(self._pieces.result(), end)
            return
        action, site = self._rank.schedule[self._next], self._hop_sites[self._next]
        assert isinstance(action, Receive)
        assert self._span is not None
        key = self._keys[self._next]
        self._next += 1
        recorder = self._home.recorder
        hop = self._hop = recorder.open(site, self._span.context, recorder.key(key), end)
        self._clock = end
        self._pull(action, key, hop)

    def _pull(self, action: Receive, key: str, hop: OpenSpan) -> None:
        assert self._exchange is not None
        task = self._collective.tasks[action.source]
        is_remote = task != self._home.task
        came = partial(self._came, action, hop, is_remote)
        if is_remote:
            peer, number = self._peer(task), self._exchange.number
            peer.recv_tensor(number, key, new_request_id(), hop.context, came)
        else:
            self._exchange.recv(key, came)

    def _came(self, action: Receive, hop: OpenSpan, is_remote: bool, received: Received) -> None:
        waited = received.wait_ns if is_remote else self._home.recorder.now() - self._clock
        turn.run(partial(self._try, partial(self._take, action, hop, waited, received)))

    def _take(self, action: Receive, hop: OpenSpan, waited: int, received: Received) -> None:
        if not self._open:
            return
        if received.error is not None:
            self._fail(received.error)
            return
        assert self._pieces is not None
        assert received.tensor is not None
        self._pieces.take(action, received.tensor)
        self._send_on()
        is_over = self._next == len(self._rank.schedule)
        result = self._pieces.result() if is_over else None
        end = self._home.recorder.now()
        hop.close(end, num_bytes=received.tensor.nbytes, extra=waited)
        self._hop = None
        if result is not None:
            self._succeed(result, end)
        else:
            self._ask_or_end(end)

    def _native_ended(self, result: torch.Tensor | None, error: Exception | None) -> None:
        if result is not None:
            self._succeed(result, self._home.recorder.now())
        else:
            assert isinstance(error, StepError)
            self._fail(error)

    # ends

    def _succeed(self, result: torch.Tensor, end: int) -> None:
        if not self._taken_out():
            return
        assert self._span is not None
        self._span.close(end, num_bytes=self._sent_bytes, extra=self._wait_ns)
        if self._exchange is not None:
            self._exchange.leave()
        self._done(result)

    def _taken_out(self) -> bool:
        """True once. Its tensors are let go: who waits for a run and the run know each other."""
        try:
            self._open.pop()
        except IndexError:
            return False
        self._home.runs.discard(self)
        self._pieces = None
        self._brought.clear()
        return True

    def cancel(self) -> None:
        """The step is aborted."""
        self._fail(self._done.step.rendezvous.error or GIVEN_UP)

    def _fail(self, error: StepError) -> None:
        """This rank ends, so the others cannot go on."""
        if self._open and self._execution is not None:  # before the next step may begin
            self._home.leader.abort(self._execution.number)
        if not self._end_failed(error):
            return
        if self._execution is not None:
            self._abort(error)
        else:
            given_up = self._arrival._replace(given_up=error.message)
            try:
                self._tell_leader(given_up, self._done.context)
            except StepError:  # whoever cannot be reached waits for nobody
                return

    def _end_failed(self, error: StepError) -> bool:
        if not self._taken_out():
            return False
        for span in (self._hop, self._span):
            if span is not None:
                span.fail(error.message)
                span.close()
        name, node = self._home.name, self._collective.node
        own = StepError(
            error.code,
            error.message,
            task=error.task or name,
            node=error.node or node,
            derived=error.derived,
        )
        self._done(error=own)
        return True

    def _abort(self, error: StepError) -> None:
        """Tells every task of the group, this one too, that nobody need wait for this rank."""
        assert self._execution is not None
        number, echo = self._execution.number, error.as_derived()
        self._home.abort(number, echo)
        for task in dict.fromkeys(self._collective.tasks):
            if task != self._home.task:
                try:
                    self._peer(task).start_abort(number, echo)
                except StepError:
                    continue
