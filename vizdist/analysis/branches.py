"""What the control flow of a step came to: which branch of a cond ran, how often a loop's body did.

A Switch sends its value out at one port and a dead tensor at the other; whatever gets a dead tensor
is passed by and recorded as dead. In a loop an edge carries a message an iteration, and one more:
that by which its other end learns that there is no further one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tracer.model.graph import Input
from tracer.model.graph_table import NodeRow, input_node
from tracer.model.trace_folder import Flag
from vizdist.analysis.keys import edge_of
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.store.segments import Array
from vizdist.store.spans import Spans

#: nodes that only hand on what a branch computes with, or says
_WIRING = frozenset(("Switch", "Identity", "Const", "NoOp", "_Send", "_Recv"))
#: where the sides of a cond meet, or its iteration is over
_MEET = frozenset(("Merge", "NextIteration", "Exit"))


@dataclass(frozen=True, slots=True)
class Branch:
    """A cond: `times` it took its false and its true side; outside loops that is once.

    `sides` are nodes of either. `tasks` are those on which some were passed by; `spans` prove it,
    those that ran first. `loop` is the frame whose iterations it decides in, "" outside loops.
    """

    predicate: str
    loop: str
    times: tuple[int, int]
    sides: tuple[Sequence[str], Sequence[str]]
    tasks: Sequence[str]
    spans: tuple[int, ...]

    @property
    def is_true(self) -> bool:
        """Whether it was true in any iteration."""
        return self.times[1] > 0

    @property
    def ran(self) -> Sequence[str]:
        return self.sides[self.is_true]

    @property
    def passed(self) -> Sequence[str]:
        return self.sides[not self.is_true]


@dataclass(frozen=True, slots=True)
class Loop:
    """One execution of a loop on all its devices; its body ran in `rounds` iterations.

    `messages` counts by edge between devices what it carried, `ends_dead` edges whose last message
    was dead.
    """

    name: str
    rounds: int
    messages: Mapping[str, int]
    ends_dead: int
    spans: tuple[int, ...]


def branches(one: OneStep) -> list[Branch]:
    """Outside loops first, in the order of their predicates' names."""
    ops = one.of_kind("op.run")
    ran = ops.take(ops.has_word("op", "Switch"))
    if not len(ran) or one.graph is None:
        return []
    rows = {row.name: row for row in one.graph.stages.get("placed", ())}
    users = _users(rows.values())
    found = (
        _branch(predicate, loop, cond, _sides(cond.switches, rows, users), rows, ops)
        for (loop, predicate), cond in sorted(_conds(one, ran, rows).items())
    )
    return [branch for branch in found if branch is not None]


class _Cond(NamedTuple):
    """Its Switches, and the executions of its loop that they ran in: 0 outside loops."""

    switches: set[str]
    frames: set[int]


def _conds(one: OneStep, ran: Spans, rows: Mapping[str, NodeRow]) -> dict[tuple[str, str], _Cond]:
    """By frame and predicate; the Switches of a loop itself obey its LoopCond."""
    runs = one.of_kind("frame.run", "iteration.run")
    loop_of = dict(zip(runs.frame_id.tolist(), runs.text("frame").tolist(), strict=True))
    found: dict[tuple[str, str], _Cond] = {}
    for name, frame in {*zip(ran.text("name").tolist(), ran.frame_id.tolist(), strict=True)}:
        decides = _predicate(rows[name], rows) if name in rows else None
        if decides is None or decides.op == "LoopCond":
            continue
        predicate = input_node(str(decides.attrs.get("tensor_name", ""))) or decides.name
        cond = found.setdefault((loop_of.get(frame, ""), predicate), _Cond(set(), set()))
        cond.switches.add(name)
        cond.frames.add(frame)
    return found


def _predicate(switch: NodeRow, rows: Mapping[str, NodeRow]) -> NodeRow | None:
    """What decides, as its user called it: behind copies of it, and what feeds it."""
    row = rows.get(input_node(switch.inputs[1]))
    while row is not None and row.op in ("Identity", "Enter"):
        source = rows.get(input_node(row.inputs[0]))
        if source is None or source.op == "Switch":  # a variable of a loop, or of a cond around
            return row
        row = source
    return row


_Users = Mapping[str, Sequence[tuple[int, str]]]  #: node → (port; -1: control, who takes it)


def _users(rows: Iterable[NodeRow]) -> _Users:
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for row in rows:
        for text in row.inputs:
            port = -1 if text.startswith("^") else Input.parse(text).port
            found[input_node(text)].append((port, row.name))
    return found


def _sides(
    switches: Iterable[str], rows: Mapping[str, NodeRow], users: _Users
) -> tuple[set[str], set[str]]:
    """What lies behind either port of these Switches, up to where both meet again."""
    no, yes = (_behind(switches, port, rows, users) for port in (0, 1))
    return no - yes, yes - no


def _behind(
    switches: Iterable[str], port: int, rows: Mapping[str, NodeRow], users: _Users
) -> set[str]:
    left = [user for name in switches for taken, user in users.get(name, ()) if taken == port]
    found: set[str] = set()
    while left:
        name = left.pop()
        if name not in found and rows[name].op not in _MEET:
            found.add(name)
            left += [user for _, user in users.get(name, ())]
    return found


def _branch(
    predicate: str, loop: str, cond: _Cond, sides: tuple[set[str], set[str]],
    rows: Mapping[str, NodeRow], ops: Spans,
) -> Branch | None:  # fmt: skip
    """None where nothing was recorded of either side."""
    in_loop = np.isin(ops.frame_id, np.array([*cond.frames], ops.frame_id.dtype))
    own = ops.take(in_loop & np.isin(ops.text("name"), [*sides[0], *sides[1], *cond.switches]))
    names, is_dead = own.text("name"), (own.flags & Flag.DEAD) != 0
    on = [np.isin(names, [*side]) for side in sides]
    turn, was = _turns(own, np.isin(names, [*cond.switches]), on, is_dead)
    if not (was != _UNKNOWN).any():
        return None
    is_taken = np.where(on[1], was[turn] == 1, was[turn] == 0)
    proves = (on[0] | on[1]) & (was[turn] != _UNKNOWN) & (is_taken != is_dead)
    no, yes = (_named(names[proves & side].tolist(), rows) for side in on)
    is_passed = proves & is_dead & np.isin(names, [*no, *yes])
    order = np.argsort(is_dead[proves], kind="stable")
    return Branch(
        predicate=predicate,
        loop=loop,
        times=(int((was == 0).sum()), int((was == 1).sum())),
        sides=(no, yes),
        tasks=sorted({*own.task[is_passed].tolist()}),
        spans=tuple(own.span[proves][order].tolist()),
    )


_UNKNOWN = -1


def _turns(
    own: Spans, is_switch: Array, on: Sequence[Array], is_dead: Array
) -> tuple[Array, Array]:
    """In which turn of its loop each op ran, and what the predicate was in each turn: 0 or 1.

    A side that ran tells, and one that was passed by, unless the whole turn was: then the Switch is
    dead too.
    """
    rounds = np.stack((own.frame_id.astype(np.int64), own.iteration.astype(np.int64)))
    turns, turn = np.unique(rounds, axis=1, return_inverse=True)
    turn = turn.reshape(-1)

    def some(mask: Array) -> Array:
        return np.bincount(turn[mask], minlength=turns.shape[1]) > 0

    ran = [some(side & ~is_dead) for side in on]
    passed = [some(side & is_dead) & ~did for side, did in zip(on, ran, strict=True)]
    no, yes = ran[0] | passed[1], ran[1] | passed[0]
    is_known = some(is_switch & ~is_dead) & (no != yes)
    return turn, np.where(is_known, yes.astype(np.int64), _UNKNOWN)


def _named(names: Iterable[str], rows: Mapping[str, NodeRow]) -> list[str]:
    """Those that compute, if any do."""
    ordered = sorted({*names})
    return [name for name in ordered if rows[name].op not in _WIRING] or ordered


def loops(one: OneStep) -> list[Loop]:
    """By when they began."""
    frames = one.of_kind("frame.run", "iteration.run")
    first: dict[int, int] = {}
    for at in frames.start.argsort(kind="stable").tolist():
        first.setdefault(int(frames.frame_id[at]), at)
    if not first:
        return []
    names = frames.text("frame")
    ops = one.of_kind("op.run")
    turns = ops.take(ops.has_word("op", "NextIteration") & ((ops.flags & Flag.DEAD) == 0))
    recvs = one.of_kind("rendezvous.recv")
    recvs = recvs.take(((recvs.flags & Flag.CLIENT_EDGE) == 0) & (recvs.frame_id != 0))
    return [
        _loop(str(names[at]), turns.take(turns.frame_id == frame),
              recvs.take(recvs.frame_id == frame), frames.span[frames.frame_id == frame].tolist())
        for frame, at in first.items()
    ]  # fmt: skip


def _loop(name: str, turns: Spans, recvs: Spans, spans: Sequence[int]) -> Loop:
    edges = [edge_of(text) for text in recvs.text("key").tolist()]
    order = recvs.iteration.argsort(kind="stable").tolist()
    last = {edges[at]: at for at in order}
    dead = (recvs.flags & Flag.DEAD) != 0
    ends = [at for at in last.values() if dead[at]]
    proof = (*spans, *recvs.span[np.array(ends, np.int64)].tolist())
    return Loop(name, len({*turns.iteration.tolist()}), Counter(edges), len(ends), proof)


def of_most(found: Sequence[Loop], most: int) -> Iterator[Loop]:
    """One of each name, those that moved most messages first."""
    seen: dict[str, Loop] = {}
    for loop in sorted(found, key=lambda loop: -sum(loop.messages.values())):
        seen.setdefault(loop.name, loop)
    yield from list(seen.values())[:most]
