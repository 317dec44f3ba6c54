"""What happens in a step, instant by instant: the events that a replay goes through.

The state at an instant is what all events up to it, those of the instant itself among them, have
left behind. Nothing is made up between them: a span gives the event of its start and of its end, a
key those of its Send and Recv. What never ended has no event that says so.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tracer.model.trace_folder import Flag
from vizdist.analysis.recv_parts import never_came, value_at
from vizdist.store.segments import Array
from vizdist.store.spans import Spans
from vizdist.store.trace import StepInfo, Trace

KINDS = (
    "op.run", "rendezvous.send", "rendezvous.recv", "rpc.client", "rpc.server", "frame.run",
    "iteration.run",
)  # fmt: skip
OP, SEND, RECV, CALL, SERVE, FRAME, TURN = range(len(KINDS))

#: In the order in which those of one instant are told: what ends before what begins.
EVENTS = (
    "end", "failed", "answered", "served", "taken", "lost", "dead", "sent", "asked", "turn_end",
    "frame_end", "frame_begin", "turn_begin", "ready", "start", "call", "serve",
)  # fmt: skip
_CODE = {name: code for code, name in enumerate(EVENTS)}

#: What begins and ends a span of each kind; a Send and a Recv have events of their key instead.
_BOUNDS = {
    OP: ("start", "end"),
    CALL: ("call", "answered"),
    SERVE: ("serve", "served"),
    FRAME: ("frame_begin", "frame_end"),
    TURN: ("turn_begin", "turn_end"),
}

NEVER = 1 << 62  #: an instant that does not come
NOBODY = -1  #: the place of a Send or Recv that was not recorded


class Keys(NamedTuple):
    """A row for every key of the step, by its first event; instants in ns, NEVER if there is none.

    `send` and `recv` are places among the items. The value lies in the mailbox from `sent` to
    `taken`; from `asked` somebody waits for it; `met` is when there were both. `lost` is when the
    waiting was given up.
    """

    send: Array
    recv: Array
    sent: Array
    asked: Array
    met: Array
    taken: Array
    lost: Array


class Events(NamedTuple):
    """By time: when, which of EVENTS, and of which item."""

    time: Array
    what: Array
    item: Array


@dataclass(frozen=True, slots=True)
class Replay:
    """`items` are the spans that take part, by start; `kind` counts in KINDS.

    `ended` is NEVER for what was still going on when it was last seen.
    """

    step: StepInfo
    items: Spans
    kind: Array
    ended: Array
    keys: Keys
    events: Events


def replay_of(trace: Trace, step: StepInfo) -> Replay:
    spans = trace.all.take(trace.step_places(step))
    spans = spans.take(spans.is_kind(*KINDS))
    items = spans.take(np.argsort(spans.start, kind="stable"))
    codes = [KINDS.index(word) if word in KINDS else 0 for word in (*items.words["kind"], "")]
    kind = np.array(codes, np.uint8)[items.codes("kind")]
    ended = np.where((items.flags & Flag.UNFINISHED) != 0, NEVER, items.end)
    keys = _keys(trace, items, kind, ended)
    return Replay(step, items, kind, ended, keys, _events(items, kind, ended, keys))


# keys


def _keys(trace: Trace, items: Spans, kind: Array, ended: Array) -> Keys:
    send, recv = np.array(_pairs(items, kind), np.int64).reshape(-1, 2).T
    recvs = items.take(np.maximum(recv, 0))
    is_asked, is_sent = recv >= 0, send >= 0
    is_given_up = never_came(recvs.columns) | ((recvs.flags & Flag.ERROR) != 0)
    is_taken = is_asked & ~is_given_up & (ended[recv] < NEVER)
    is_lost = is_asked & is_given_up & (ended[recv] < NEVER)
    taken = np.where(is_taken, recvs.end, NEVER)
    asked = np.where(is_asked, recvs.start, NEVER)
    # a Send that was not recorded is known by what it brought
    unseen = np.where(is_taken, value_at(trace, recvs), NEVER)
    sent = np.where(is_sent, items.start[send], unseen)
    met = np.minimum(np.maximum(asked, sent), taken)
    keys = Keys(send, recv, sent, asked, met, taken, np.where(is_lost, recvs.end, NEVER))
    order = np.argsort(np.minimum(sent, asked), kind="stable")
    return Keys(*(column[order] for column in keys))


def _pairs(items: Spans, kind: Array) -> Sequence[tuple[int, int]]:
    """Send and Recv of one key. A Recv knows the Send that served it; the others meet in order."""
    sends, recvs = np.flatnonzero(kind == SEND), np.flatnonzero(kind == RECV)
    by_id = dict(zip(items.span[sends].tolist(), sends.tolist(), strict=True))
    links = zip(recvs.tolist(), items.link[recvs].tolist(), strict=True)
    served = {recv: by_id[link] for recv, link in links if link in by_id}
    taken = set(served.values())
    waiting: dict[int, list[int]] = defaultdict(list)
    keys = items.codes("key")
    for recv in recvs.tolist():
        if recv not in served:
            waiting[int(keys[recv])].append(recv)
    found = [(send, recv) for recv, send in served.items()]
    for send in sends.tolist():
        if send not in taken:
            same = waiting[int(keys[send])]
            found.append((send, same.pop(0) if same else NOBODY))
    return found + [(NOBODY, recv) for alone in waiting.values() for recv in alone]


# events


def _events(items: Spans, kind: Array, ended: Array, keys: Keys) -> Events:
    is_dead = (items.flags & Flag.DEAD) != 0
    is_passed = is_dead & (kind == OP)
    has_failed = (items.flags & Flag.ERROR) != 0
    waits = ((kind == OP) | (kind == SEND)) & (items.ready > 0) & (items.ready < items.start)
    found = [_some(items.ready, waits, "ready"), _some(items.start, is_passed, "dead")]
    for code, (begins, ends) in _BOUNDS.items():
        own = (kind == code) & ~is_passed
        done = own & (ended < NEVER)
        found.append(_some(items.start, own, begins))
        if code == OP:
            found.append(_some(ended, done & has_failed, "failed"))
            done &= ~has_failed
        found.append(_some(ended, done, ends))
    for name, end, other in (
        ("sent", keys.send, keys.recv), ("asked", keys.recv, keys.send),
        ("taken", keys.recv, keys.send), ("lost", keys.recv, keys.send),
    ):  # fmt: skip
        instants: Array = getattr(keys, name)
        own = np.where(end >= 0, end, other)
        found.append(_some(instants, (instants < NEVER) & (own >= 0), name, own))
    time, what, item = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.lexsort((item, what, time))
    return Events(time[order], what[order], item[order])


def _some(instants: Array, mask: Array, name: str, item: Array | None = None) -> Events:
    """One event for each item of a mask."""
    which = np.flatnonzero(mask)
    what = np.full(len(which), _CODE[name], np.uint8)
    return Events(instants[which], what, which if item is None else item[which])
