"""What a run holds under some words: steps, ops, keys, devices and other spans by name."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vizdist.analysis.kept import kept
from vizdist.analysis.selection import Selection
from vizdist.analysis.steps import step_numbers
from vizdist.store.details import hex_id
from vizdist.store.trace import ROOT_KIND, Trace

MOST = 6  #: of one kind; more words find fewer
KINDS = ("step", "node", "device", "span", "key")  #: in the order they are listed


@dataclass(frozen=True, slots=True)
class Found:
    """A thing that has all the words; choosing it sets `selection`, or the step alone.

    `facts` say more of it: type and task of an op, lane of a span.
    """

    kind: str
    title: str
    facts: tuple[str, ...]
    selection: Selection | None
    step: int | None = None


Named = tuple[str, str]  #: a name, and the type or kind that is searched with it


def search(trace: Trace, text: str) -> tuple[list[Found], int]:
    """The best matches of each kind, and how many there are in all. No words find nothing."""
    words = text.lower().split()
    if not words:
        return [], 0
    found: list[Found] = []
    total = 0
    for matches, tell in _searches(trace, words):
        total += len(matches)
        found += [tell(match) for match in matches[:MOST]]
    return found, total


def _searches(
    trace: Trace, words: Sequence[str]
) -> Iterator[tuple[Sequence[Named], Callable[[Named], Found]]]:
    """One search a kind: what matches, best first, and what to tell of each."""
    ops, spans = _names(trace)
    nodes = {name: (name, op) for name, op in _planned(trace).items()}
    nodes |= {named[0]: named for named in ops}
    others = [named for named in spans if named[0] not in nodes and named[1] != ROOT_KIND]
    keys = [(key, "") for key in trace.all.words["key"] if key]
    yield _steps(trace, words), lambda named: _step(trace, int(named[0]))
    yield ranked(nodes.values(), words), lambda named: _node(trace, named, ops)
    yield ranked(_devices(trace), words), lambda named: _device(trace, named[0])
    yield ranked(others, words), lambda named: _span(trace, named, spans[named])
    yield ranked(keys, words), lambda named: _key(named[0])


def ranked(names: Iterable[Named], words: Sequence[str]) -> list[Named]:
    """Those that hold all words in name or type: whole names first, then beginnings, then parts."""
    whole = " ".join(words)

    def order(named: Named) -> tuple[bool, bool, bool, int, str]:
        low = named[0].lower()
        begins = low.startswith(words[0])
        return low != whole, not begins, f"/{words[0]}" not in low, len(low), low

    fits = [n for n in names if all(word in f"{n[0]} {n[1]}".lower() for word in words)]
    return sorted(fits, key=order)


Places = Mapping[Named, int]  #: where the first span of a name is


@kept()
def _names(trace: Trace) -> tuple[Places, Places]:
    """Ops by name and type, other spans by name and kind, with the place of the first of them.

    What has no name is called by its kind.
    """
    spans = trace.all
    if not len(spans):
        return {}, {}
    kinds, names, ops = ((*spans.words[column], "") for column in ("kind", "name", "op"))
    width = len(names)
    codes = (spans.codes("kind").astype(np.int64) % len(kinds)) * width
    codes += spans.codes("name") % width
    first = np.full(len(kinds) * width, -1, np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the last write is the first span
    found: tuple[dict[Named, int], dict[Named, int]] = {}, {}
    for code in np.flatnonzero(first >= 0).tolist():
        kind, place = kinds[code // width], int(first[code])
        name = names[code % width] or kind
        if kind == "op.run":
            found[0][name, ops[int(spans.codes("op")[place])]] = place
        else:
            found[1][name, kind] = place
    return found


@kept()
def _planned(trace: Trace) -> Mapping[str, str]:
    """Nodes of the registered graphs and their types, also those that never ran."""
    tables = [rows for graph in trace.graphs for rows in graph.stages.values()]
    return {node.name: node.op for rows in tables for node in rows}


def _steps(trace: Trace, words: Sequence[str]) -> list[Named]:
    """`12`, or `step 12`: the step of this number first, then those that begin with it."""
    numbers = [word for word in words if word.isdecimal()]
    rest = [word for word in words if not word.isdecimal()]
    if len(numbers) != 1 or any(not "step".startswith(word) and word != "步" for word in rest):
        return []
    known = [str(number) for number in step_numbers(trace)]
    fits = [number for number in known if number.startswith(numbers[0])]
    return [(number, "") for number in sorted(fits, key=lambda one: (len(one), int(one)))]


def _step(trace: Trace, number: int) -> Found:
    tasks = tuple(step.task for step in trace.steps if step.number == number)
    return Found("step", str(number), tasks, None, number)


def _node(trace: Trace, named: Named, ops: Mapping[Named, int]) -> Found:
    name, op = named
    where = (_task(trace, ops[named]),) if named in ops else ()
    facts = tuple(word for word in (op, *where) if word)
    return Found("node", name, facts, Selection(type="node", id=name))


def _span(trace: Trace, named: Named, first: int) -> Found:
    """The longest span of this name: the one that a search is most often for."""
    spans = trace.all
    name, kind = named
    codes = (spans.codes(column) for column in ("kind", "name"))
    places = np.flatnonzero(np.logical_and(*(code == code[first] for code in codes)))
    longest = int(places[np.argmax(spans.duration[places])])
    count = f"×{len(places):,}" if len(places) > 1 else ""
    facts = ("" if name == kind else kind, _task(trace, longest), count)
    chosen = Selection(type="span", id=hex_id(int(spans.span[longest])))
    step = int(spans.step[longest]) or None
    return Found("span", name, tuple(filter(None, facts)), chosen, step)


def _key(text: str) -> Found:
    """A rendezvous key is long; its tensor and its two devices are what tells it apart."""
    parts = text.split(";")
    title = parts[3] if len(parts) == 5 else text
    ends = tuple(_short(part) for part in parts[0:3:2]) if len(parts) == 5 else ()
    return Found("key", title, (" → ".join(ends),) if ends else (), Selection(type="key", id=text))


def _short(device: str) -> str:
    """`/job:ps/replica:0/task:1/device:CPU:0` → `ps:1`."""
    words = dict(part.split(":", 1) for part in device.strip("/").split("/") if ":" in part)
    return f"{words['job']}:{words.get('task', '0')}" if "job" in words else device


def _devices(trace: Trace) -> list[Named]:
    """`worker:0 CPU:0`: every task with each device that its lanes name, and the tasks."""
    lanes = [(row.task, row.lane.split(" ")[1:]) for row in trace.rows]
    named = [f"{task} {word}" for task, words in lanes for word in words if ":" in word]
    return [(name, "") for name in dict.fromkeys([*trace.tasks, *named])]


def _device(trace: Trace, text: str) -> Found:
    task, _, device = text.partition(" ")
    lanes = {row.lane for row in trace.rows if row.task == task and device in row.lane}
    return Found("device", text, tuple(sorted(lanes)[:4]), Selection(type="device", id=text))


def _task(trace: Trace, place: int) -> str:
    return trace.rows[int(trace.all.row[place])].task
