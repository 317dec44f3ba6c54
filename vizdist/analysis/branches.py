"""What the control flow of a step came to: which branch of a cond ran, how often a loop's body did.

A Switch sends its value out at one port and a dead tensor at the other; whatever gets a dead tensor
is passed by and recorded as dead. In a loop an edge carries a message an iteration, and one more:
that by which its other end learns that there is no further one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tracer.model.graph import Input
from tracer.model.graph_table import NodeRow, input_node
from tracer.model.trace_folder import Flag
from vizdist.analysis.keys import edge_of
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.store.spans import Spans

#: nodes that only hand on what a branch computes with, or says
_WIRING = frozenset(("Switch", "Identity", "Const", "NoOp", "_Send", "_Recv"))


@dataclass(frozen=True, slots=True)
class Branch:
    """A cond outside loops: `ran` are nodes of the side that was taken, `passed` dead ones.

    `tasks` are those on which these were passed by; `spans` prove it, those that ran first.
    """

    predicate: str
    is_true: bool
    ran: Sequence[str]
    passed: Sequence[str]
    tasks: Sequence[str]
    spans: tuple[int, ...]


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
    """In the order of their predicates' names."""
    ops = one.of_kind("op.run")
    switches = {*ops.text("name")[ops.has_word("op", "Switch") & (ops.frame_id == 0)].tolist()}
    if not switches or one.graph is None:
        return []
    rows = {row.name: row for row in one.graph.stages.get("placed", ())}
    by_predicate: dict[str, list[NodeRow]] = defaultdict(list)
    for name in sorted(switches & rows.keys()):
        by_predicate[_predicate(rows[name], rows)].append(rows[name])
    users = _users(rows.values())
    found = (_branch(name, own, rows, users, ops) for name, own in sorted(by_predicate.items()))
    return [branch for branch in found if branch is not None]


def _predicate(switch: NodeRow, rows: Mapping[str, NodeRow]) -> str:
    """What decides, as its user called it: behind copies of it, and what feeds it."""
    row = rows.get(input_node(switch.inputs[1]))
    while row is not None and row.op == "Identity":
        row = rows.get(input_node(row.inputs[0]))
    if row is None:
        return input_node(switch.inputs[1])
    return input_node(str(row.attrs.get("tensor_name", ""))) or row.name


_Users = Mapping[str, Sequence[tuple[int, str]]]  #: node → (port; -1: control, who takes it)


def _users(rows: Iterable[NodeRow]) -> _Users:
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for row in rows:
        for text in row.inputs:
            port = -1 if text.startswith("^") else Input.parse(text).port
            found[input_node(text)].append((port, row.name))
    return found


def _branch(
    predicate: str, switches: Sequence[NodeRow], rows: Mapping[str, NodeRow], users: _Users,
    ops: Spans,
) -> Branch | None:  # fmt: skip
    """None where neither side was recorded."""
    sides = [_side(switches, port, rows, users) for port in (0, 1)]
    dead = {*ops.text("name")[(ops.flags & Flag.DEAD) != 0].tolist()}
    ran = {*ops.text("name").tolist()} - dead
    alive = [bool(side & ran) for side in sides]
    if alive[0] == alive[1]:
        return None
    taken, left = sides[alive[1]], sides[not alive[1]]
    own = ops.take(np.isin(ops.text("name"), [*(taken & ran), *(left & dead)]))
    order = np.argsort((own.flags & Flag.DEAD) != 0, kind="stable")
    passed = _named(left & dead, rows)
    return Branch(
        predicate=predicate,
        is_true=alive[1],
        ran=_named(taken & ran, rows),
        passed=passed,
        tasks=sorted({*own.task[np.isin(own.text("name"), passed)].tolist()}),
        spans=tuple(own.span[order].tolist()),
    )


def _side(
    switches: Sequence[NodeRow], port: int, rows: Mapping[str, NodeRow], users: _Users
) -> set[str]:
    """What lies behind one port of these Switches, up to where both sides meet again."""
    behind = (users.get(switch.name, ()) for switch in switches)
    left = [user for own in behind for taken, user in own if taken == port]
    found: set[str] = set()
    while left:
        name = left.pop()
        if name not in found and rows[name].op != "Merge":
            found.add(name)
            left += [user for _, user in users.get(name, ())]
    return found


def _named(names: Iterable[str], rows: Mapping[str, NodeRow]) -> list[str]:
    """Those that compute, if any do."""
    ordered = sorted(names)
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
