"""Replicas of a strategy: how they took turns when the graph was built, and how they run now.

Building and running are two times. A replica's thread builds its part of the graph, alone, until it
waits for a merge; in a step no such thread runs, and devices work at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tracer.model.cluster import DeviceName
from tracer.model.graph_table import NodeRow
from tracer.model.trace_folder import Flag
from vizdist.analysis.bytes_moved import VARIABLE_OPS
from vizdist.analysis.collectives import of_step
from vizdist.analysis.graph_counts import own_nodes
from vizdist.analysis.handles import held_by_handles
from vizdist.analysis.kept import kept
from vizdist.analysis.keys import HOP, is_rank
from vizdist.analysis.step_split import is_update, is_wait, op_mask
from vizdist.analysis.waiting import union
from vizdist.store.details import hex_id
from vizdist.store.segments import Array
from vizdist.store.spans import Spans
from vizdist.store.trace import StepInfo, Trace

BUILD, MERGE = "replica.build", "replica.merge"
_BESIDE = ("_Send", "_Recv", "_HostSend", "_HostRecv", "_Arg", "_Retval", "Const", "NoOp")


@dataclass(frozen=True, slots=True)
class Turn:
    """A replica's thread had the baton, or, `replica` None, all waited while their values merged.

    `ended` is what it gave the baton up for: merge, returned or error.
    """

    replica: int | None
    device: str  #: as lanes call it: CPU:0
    number: int
    start: int
    end: int
    nodes: int
    ended: str
    span: str


@dataclass(frozen=True, slots=True)
class Build:
    """The turns of one graph, by time; `task` built it."""

    task: str
    turns: Sequence[Turn]

    @property
    def replicas(self) -> list[int]:
        return sorted({turn.replica for turn in self.turns if turn.replica is not None})

    @property
    def merges(self) -> int:
        return sum(turn.replica is None for turn in self.turns)

    @property
    def together(self) -> int:
        """How often two replicas built at once; a baton allows none."""
        own = sorted((t for t in self.turns if t.replica is not None), key=lambda t: t.start)
        return sum(b.start < a.end for a, b in pairwise(own))


@kept()
def builds(trace: Trace) -> tuple[Build, ...]:
    """One for each graph that replicas built in turn, by time."""
    places = np.flatnonzero(trace.all.is_kind(BUILD, MERGE))
    told = trace.attributes(places.tolist())
    own = trace.all.take(places)
    kinds, tasks = own.text("kind"), own.task
    by_parent: dict[tuple[str, int], list[Turn]] = {}
    for at, place in enumerate(places.tolist()):
        attributes = told.get(place, {})
        replica = int(attributes.get("vizdist.replica", 0)) if kinds[at] == BUILD else None
        turn = Turn(
            replica,
            _short(str(attributes.get("vizdist.device", ""))),
            int(attributes.get("vizdist.replica.turn", 0)),
            int(own.start[at]),
            int(own.end[at]),
            int(attributes.get("vizdist.graph.nodes", 0)),
            str(attributes.get("vizdist.replica.paused_by", "")),
            hex_id(int(own.span[at])),
        )
        by_parent.setdefault((str(tasks[at]), int(own.parent[at])), []).append(turn)
    found = [
        Build(task, tuple(sorted(turns, key=lambda turn: turn.start)))
        for (task, _), turns in by_parent.items()
    ]
    return tuple(sorted(found, key=lambda build: build.turns[0].start))


def _short(device: str) -> str:
    if not device:
        return ""
    name = DeviceName.parse(device)
    return f"{name.type}:{name.index}"


@dataclass(frozen=True, slots=True)
class Work:
    """What one device does in a step: nodes by what they are for, variables, time at work."""

    task: str
    device: str
    variables: int
    variable_bytes: int
    nodes: Mapping[str, int]  #: forward, backward, reduce, update
    busy_ns: int
    starts: Array  #: of the stretches in which it is at work, ns since the epoch
    ends: Array


ROLES = ("forward", "backward", "reduce", "update")


def works(trace: Trace, requests: Sequence[StepInfo]) -> list[Work]:
    """A row for every device that runs ops in these requests, by task and device.

    Nodes are those of the graphs that they ran; a variable that several clients share counts once.
    """
    spans = spans_of(trace, requests)
    runs = spans.take(spans.is_kind("op.run") & ~op_mask(spans, is_wait))
    tables = {graph.id: graph for step in requests if (graph := trace.graph(step))}
    rows = [row for graph in tables.values() for row in own_nodes(graph.last_rows)]
    found = []
    for task, device in _devices(runs):
        own = runs.take(runs_on(runs, task, device))
        found.append(_work(task, device, own, [row for row in rows if _lives(row, task, device)]))
    return found


def names_of(row: Work, rows: Sequence[Work]) -> tuple[str, str]:
    """What tells a device from the others of its step first, then the rest of its name."""
    is_alone = len({one.task for one in rows}) == 1
    return (row.device, row.task) if is_alone else (row.task, row.device)


def spans_of(trace: Trace, requests: Sequence[StepInfo]) -> Spans:
    """Ranks of one step may share its trace: its spans are taken once."""
    places = [trace.step_places(step) for step in {s.trace_lo: s for s in requests}.values()]
    return trace.all.take(np.concatenate([np.empty(0, np.int64), *places]))


def _devices(runs: Spans) -> list[tuple[str, str]]:
    lanes = {(str(task), str(lane)) for task, lane in zip(runs.task, runs.lane, strict=True)}
    named = {(task, lane.partition(" ")[2]) for task, lane in lanes if lane.startswith("executor ")}
    return sorted({(task, device.partition(" (")[0]) for task, device in named})


def runs_on(spans: Spans, task: str, device: str) -> Array:
    """Which spans lie on the lanes of a device's executor: several, where its ops overlap."""
    lane = f"executor {device}"
    lanes = [name for name in set(spans.lane.tolist()) if name.partition(" (")[0] == lane]
    mask: Array = (spans.task == task) & np.isin(spans.lane, lanes)
    return mask


def _lives(row: NodeRow, task: str, device: str) -> bool:
    """A task without a cluster is worker:0 in rows and localhost in names of devices."""
    if not row.device:
        return False
    name = DeviceName.parse(row.device)
    own = "worker:0" if name.job == "localhost" else str(name.task_name)
    return (own, f"{name.type}:{name.index}") == (task, device)


def _work(task: str, device: str, own: Spans, nodes: Sequence[NodeRow]) -> Work:
    starts, ends = union(own.start, own.end)
    counts = dict.fromkeys(ROLES, 0)
    for row in nodes:
        if row.op not in (*VARIABLE_OPS, *_BESIDE):
            counts[role_of(row)] += 1
    handles = {row.name for row in nodes if row.op in VARIABLE_OPS}
    sizes = held_by_handles(nodes)
    held = sum(sizes[name].bytes for name in handles if name in sizes)
    return Work(task, device, len(handles), held, counts, int((ends - starts).sum()), starts, ends)


def role_of(row: NodeRow) -> str:
    """What a node of a training step is for."""
    if is_update(row.op):
        return "update"
    if row.op.startswith("Collective") or row.op in ("AddN", "AccumulateNV2"):
        return "reduce"
    return "backward" if "gradients" in row.name.split("/") else "forward"


@dataclass(frozen=True, slots=True)
class Overlap:
    """How long at least one device was at work in a step, and how long at least two."""

    one_ns: int
    two_ns: int

    @property
    def share(self) -> float:
        """Of the time in which anything was at work, the part in which two devices were."""
        return self.two_ns / self.one_ns if self.one_ns else 0.0


def overlap(rows: Sequence[Work]) -> Overlap:
    none = np.empty(0, np.int64)
    starts = np.concatenate([none, *(row.starts for row in rows)])
    ends = np.concatenate([none, *(row.ends for row in rows)])
    instants = np.concatenate([starts, ends])
    order = np.argsort(instants, kind="stable")
    changes = np.repeat([1, -1], [len(starts), len(ends)])[order]
    busy = np.cumsum(changes)[:-1]
    lengths = np.diff(instants[order])
    return Overlap(int(lengths[busy >= 1].sum()), int(lengths[busy >= 2].sum()))


@dataclass(frozen=True, slots=True)
class Mechanisms:
    """What the requests of one step number made use of, as their spans count it."""

    pairs: int  #: values that went from device to device
    bytes: int
    calls: int  #: RPCs
    collectives: int  #: executions
    ranks: int
    passed: int  #: bytes of their pieces, 0 where the library that moved them tells none
    writes: int  #: of variables
    turns: int  #: of replica threads: none, once the graph is built


def mechanisms(trace: Trace, requests: Sequence[StepInfo]) -> Mechanisms:
    spans = spans_of(trace, requests)
    inner = (spans.flags & (Flag.CLIENT_EDGE | Flag.CONTROL | Flag.DEAD)) == 0
    values = spans.take(spans.is_kind("rendezvous.recv") & inner)
    runs = spans.take(spans.is_kind("op.run"))
    met = spans.take(spans.is_kind(*filter(is_rank, spans.words["kind"])))
    number = requests[0].number if requests else 0
    return Mechanisms(
        len(values),
        int(values.bytes.sum()),
        int(spans.is_kind("rpc.client").sum()),
        len(of_step(trace, number)) if len(met) else 0,
        len(met),
        int(spans.bytes[spans.is_kind(HOP)].sum()),
        int(op_mask(runs, is_update).sum()),
        int(spans.is_kind(BUILD).sum()),
    )
