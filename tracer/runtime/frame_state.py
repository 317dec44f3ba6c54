"""Frames and iterations of one run: who is ready, what is dead, what is over.

After TF's `propagator_state.cc`. A frame is one execution of a loop; an Enter opens it inside an
iteration of its parent. A node is ready in an iteration once all its inputs are there; one with a
dead input is dead, runs nothing and makes dead whatever waits for it. Only a Merge goes by its
first live input. An iteration is over when nothing of it is left to do and the one before it is
over; then its account goes, and with it all values. One thread at a time may use all this.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

from tracer.ops.kernel import DEAD
from tracer.record.open_span import OpenSpan
from tracer.runtime.frame_plan import FramePlan, Item, Plan, frame_id
from tracer.runtime.prepared import Flow


class IterationState:
    """The account of one iteration; `pending` and `dead` count inputs by place of the node.

    `tag` is `frame id:number`, `key_number` what the recorder calls it, 0 in the root. One that
    `is_deferred` had to wait, because as many ran as may.
    """

    __slots__ = (
        "dead",
        "entries",
        "frame",
        "is_deferred",
        "key_number",
        "num_frames",
        "num_outstanding",
        "number",
        "pending",
        "span",
        "tag",
    )

    def __init__(self, frame: "FrameState", number: int, *, is_deferred: bool = False) -> None:
        plan = frame.plan
        self.frame = frame
        self.is_deferred = is_deferred
        self.number = number
        self.tag = f"{frame.frame_id}:{number}"
        self.entries: list[Any] = plan.entries.copy()
        self.pending = plan.pending.copy()
        self.dead = [0] * len(plan.pending)
        self.num_outstanding = 0  #: nodes that are ready or run
        self.num_frames = 0  #: frames that were opened in it and are not over
        self.key_number = 0
        self.span: OpenSpan | None = None


class FrameState:
    """One execution of a loop.

    `last` is the highest iteration begun. `deferred` are NextIterations that wait, with their
    values, until one iteration fewer runs; `invariants` are values that each iteration gets;
    `dead_exits` are those of the last iteration, held back until it is known to be the last.
    """

    __slots__ = (
        "dead_exits",
        "deferred",
        "frame_id",
        "invariants",
        "iterations",
        "last",
        "num_enters",
        "parent",
        "plan",
        "span",
    )

    def __init__(self, plan: FramePlan, number: int, parent: IterationState | None) -> None:
        self.plan = plan
        self.frame_id = number
        self.parent = parent
        self.num_enters = plan.num_enters  #: that have not come yet
        self.last = 0
        self.iterations: dict[int, IterationState] = {}
        self.deferred: list[tuple[Item, Any]] = []
        self.invariants: list[tuple[Item, Any]] = []
        self.dead_exits: list[Item] = []
        self.span: OpenSpan | None = None

    @property
    def is_full(self) -> bool:
        return len(self.iterations) >= self.plan.parallel_iterations

    @property
    def is_over(self) -> bool:
        return not self.iterations and not self.num_enters

    def is_done(self, iteration: IterationState) -> bool:
        """Whether this iteration, the oldest or a later one, has nothing left to do."""
        if iteration.num_outstanding or iteration.num_frames:
            return False
        if not iteration.number:
            return not self.num_enters
        return iteration.number - 1 not in self.iterations


#: a node to run, where, whether it is dead, and when it became ready in ns
Ready = tuple[Item, IterationState, bool, int]


class Propagation:
    """What the end of a node brings about. `ready` is to be emptied by whoever runs nodes."""

    def __init__(self, plan: Plan) -> None:
        self.ready: deque[Ready] = deque()
        self.num_outstanding = 0  #: nodes that are ready or run, in all frames
        self._plan = plan
        self.frames: dict[int, FrameState] = {}  #: of loops, by frame id
        self._when = 0

    def begin(self, when: int) -> None:
        self._when = when
        root = IterationState(FrameState(self._plan.root, 0, None), 0)
        root.frame.iterations[0] = root
        for item in self._plan.roots:
            self._add(item, root, is_dead=False)

    def settle(
        self,
        item: Item,
        iteration: IterationState,
        outputs: Sequence[Any] | None,
        when: int,
    ) -> None:
        """The node has ended at `when` in ns, with these outputs; None: it was dead."""
        self._when = when
        if item.leaves:
            self._leave(item, iteration, outputs)
        else:
            self._activate(item, iteration, outputs)
        self.num_outstanding -= 1
        iteration.num_outstanding -= 1
        if not iteration.num_outstanding:
            self._clean(iteration)

    def _leave(self, item: Item, iteration: IterationState, outputs: Sequence[Any] | None) -> None:
        match item.flow:
            case Flow.ENTER:
                self._enter(item, iteration, outputs)
            case Flow.EXIT:
                self._exit(item, iteration, outputs)
            case Flow.NEXT_ITERATION:
                self._repeat(item, iteration, outputs)

    def _enter(self, item: Item, parent: IterationState, outputs: Sequence[Any] | None) -> None:
        """A constant one is seen by every iteration, those to come too."""
        frame = self._frame(item, parent)
        frame.num_enters -= 1
        if item.node.is_invariant:
            frame.invariants.append((item, outputs))
            for iteration in list(frame.iterations.values()):
                self._activate(item, iteration, outputs)
        else:
            self._activate(item, frame.iterations[0], outputs)
        if not frame.iterations[0].num_outstanding:
            self._clean(frame.iterations[0])

    def _frame(self, item: Item, parent: IterationState) -> FrameState:
        """The frame that an Enter opens here, or that another one has opened."""
        plan = item.opens
        assert plan is not None
        number = frame_id(parent.frame.frame_id, parent.number, plan.name_hash)
        frame = self.frames.get(number)
        if frame is None:
            frame = self.frames[number] = FrameState(plan, number, parent)
            parent.num_frames += 1
            self._frame_begins(frame)
            self._begin_iteration(frame)
        return frame

    def _exit(self, item: Item, iteration: IterationState, outputs: Sequence[Any] | None) -> None:
        """A dead one says nothing yet: a later iteration may leave the loop alive."""
        frame = iteration.frame
        if outputs is not None:
            assert frame.parent is not None
            self._activate(item, frame.parent, outputs)
        elif iteration.number == frame.last:
            frame.dead_exits.append(item)

    def _repeat(self, item: Item, iteration: IterationState, outputs: Sequence[Any] | None) -> None:
        """A NextIteration begins the next iteration or hands its value to it; a dead one ends."""
        if outputs is None:
            return
        frame = iteration.frame
        if iteration.number < frame.last:
            self._activate(item, frame.iterations[iteration.number + 1], outputs)
        elif frame.is_full:
            frame.deferred.append((item, outputs))
        else:
            self._activate(item, self._next_iteration(frame), outputs)

    def _next_iteration(self, frame: FrameState) -> IterationState:
        frame.last += 1
        frame.dead_exits.clear()
        deferred, frame.deferred = frame.deferred, []
        iteration = self._begin_iteration(frame, is_deferred=bool(deferred))
        for item, outputs in (*deferred, *frame.invariants):
            self._activate(item, iteration, outputs)
        return iteration

    def _begin_iteration(self, frame: FrameState, *, is_deferred: bool = False) -> IterationState:
        iteration = IterationState(frame, frame.last, is_deferred=is_deferred)
        frame.iterations[frame.last] = iteration
        self._iteration_begins(iteration)
        return iteration

    def _activate(
        self, item: Item, iteration: IterationState, outputs: Sequence[Any] | None
    ) -> None:
        """Hands outputs to consumers; who has all inputs now is ready.

        Called for every node: so it asks for nothing twice, and adds what is ready by itself.
        """
        pending, dead, entries = iteration.pending, iteration.dead, iteration.entries
        num_ready = 0
        for port, target, entry in item.data:
            value = DEAD if outputs is None else outputs[port]
            if target.is_merge:
                self._merge(target, iteration, entry, value, is_enter=item.flow is Flow.ENTER)
                continue
            at = target.at
            if value is DEAD:
                dead[at] += 1
            else:
                entries[entry] = value
            left = pending[at] = pending[at] - 1
            if not left:
                num_ready += 1
                is_dead = dead[at] > 0 and not target.is_trigger
                self.ready.append((target, iteration, is_dead, self._when))
        iteration.num_outstanding += num_ready
        self.num_outstanding += num_ready
        for target in item.controls:
            self._order(target, iteration, is_dead=outputs is None)

    def _order(self, target: Item, iteration: IterationState, *, is_dead: bool) -> None:
        """A control input has come."""
        at, pending = target.at, iteration.pending
        if not target.is_merge:
            pending[at] -= 1
            iteration.dead[at] += is_dead
            if not pending[at]:
                self._add(target, iteration, is_dead=bool(iteration.dead[at]))
            return
        pending[at] -= 2
        if not pending[at]:
            self._add(target, iteration, is_dead=False)
        else:
            self._bury(target, iteration)

    def _merge(
        self, target: Item, iteration: IterationState, entry: int, value: Any, *, is_enter: bool
    ) -> None:
        """A Merge goes by its first live input; it is dead if all are, or what enters the loop."""
        at, pending = target.at, iteration.pending
        if value is not DEAD:
            if pending[at] & 1:
                iteration.entries[entry] = value
                pending[at] -= 1
                if not pending[at]:
                    self._add(target, iteration, is_dead=False)
            return
        iteration.dead[at] = len(target.nothing) if is_enter else iteration.dead[at] + 1
        self._bury(target, iteration)

    def _bury(self, target: Item, iteration: IterationState) -> None:
        """A Merge that waits for nothing but a live input, of which there will be none, is dead."""
        at = target.at
        if iteration.pending[at] == 1 and iteration.dead[at] == len(target.nothing):
            iteration.pending[at] = 0
            self._add(target, iteration, is_dead=True)

    def _add(self, item: Item, iteration: IterationState, *, is_dead: bool) -> None:
        iteration.num_outstanding += 1
        self.num_outstanding += 1
        is_dead = is_dead and not item.is_trigger
        self.ready.append((item, iteration, is_dead, self._when))

    def _clean(self, iteration: IterationState) -> None:
        """Ends iterations in order, from this one on, and the frame after its last one."""
        frame = iteration.frame
        number = iteration.number
        while number in frame.iterations and frame.is_done(frame.iterations[number]):
            self._iteration_ends(frame.iterations.pop(number))
            number += 1
            if frame.deferred:
                self._next_iteration(frame)
        if frame.is_over and frame.parent is not None:
            self._end_frame(frame, frame.parent)

    def _end_frame(self, frame: FrameState, parent: IterationState) -> None:
        """Now it is known which exits were dead to the end."""
        del self.frames[frame.frame_id]
        self._frame_ends(frame)
        for item in frame.dead_exits:
            self._activate(item, parent, None)
        parent.num_frames -= 1
        self._clean(parent)

    def _frame_begins(self, frame: FrameState) -> None:
        """For those who record: these four are called when it happens."""

    def _frame_ends(self, frame: FrameState) -> None: ...

    def _iteration_begins(self, iteration: IterationState) -> None: ...

    def _iteration_ends(self, iteration: IterationState) -> None: ...
