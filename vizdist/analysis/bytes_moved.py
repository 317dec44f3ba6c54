"""How many bytes went from where to where, as the transport counted them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tracer.model.cluster import DeviceName
from tracer.model.graph_table import NodeRow, input_node
from tracer.model.step import RendezvousKey
from tracer.model.trace_folder import Flag
from vizdist.analysis.collectives import clients_meet
from vizdist.analysis.keys import HOP, key_of, tensor_title
from vizdist.store.segments import Array
from vizdist.store.spans import Spans
from vizdist.store.trace import StepInfo, Trace

VARIABLE_OPS = ("VarHandleOp", "VariableV2", "Variable")
CROSSING = ("rendezvous.recv", HOP)  #: kinds that get a value from another device

LOCAL = "localhost:"  #: how the task of a run without a cluster begins

Pair = tuple[str, str]  #: sending and receiving device (or task)


@dataclass(frozen=True, slots=True)
class Tensor:
    """What crossed under one edge name, over all steps looked at."""

    name: str
    source: str
    target: str
    bytes: int
    count: int
    span: int  #: one of its recvs


@dataclass(frozen=True, slots=True)
class BytesMoved:
    """Bytes by pair of devices, over `num_steps` whole steps; feeds and fetches are not among them.

    `steps_of` are the steps that used a pair: where every worker runs its own loop, its own alone;
    `steps_of_tasks` those of a pair of tasks.
    `variable_bytes` are those of the variables that another device reads, 0 if the graph is not
    known.
    """

    num_steps: int
    by_device: Mapping[Pair, int]
    steps_of: Mapping[Pair, int]
    steps_of_tasks: Mapping[Pair, int]
    tensors: tuple[Tensor, ...]
    variable_bytes: int

    @property
    def total(self) -> int:
        return sum(self.by_device.values())

    @property
    def per_step(self) -> float:
        return self.total / self.num_steps if self.num_steps else 0.0

    @property
    def busiest(self) -> tuple[str, float]:
        """The device that sends most, and how much a step; ("", 0) if none does."""
        sent: Counter[str] = Counter()
        for (source, _), count in self.by_device.items():
            sent[source] += count
        device, most = max(sent.items(), key=lambda one: one[1], default=("", 0))
        return device, most / max(self.num_steps, 1)

    @property
    def by_task(self) -> dict[Pair, int]:
        tasks: dict[Pair, int] = {}
        for pair, count in self.by_device.items():
            tasks[_tasks_of(pair)] = tasks.get(_tasks_of(pair), 0) + count
        return tasks

    @property
    def traffic(self) -> dict[str, float]:
        """Bytes a step that go into a task from others, or out of it."""
        found: Counter[str] = Counter()
        for pair, count in self.by_task.items():
            found.update(dict.fromkeys(pair, count) if len(set(pair)) > 1 else {})
        return {task: count / max(self.num_steps, 1) for task, count in found.items()}

    @property
    def per_step_of_tasks(self) -> dict[Pair, int]:
        """Bytes from one task to another in a step that uses both, in the mean."""
        used = self.steps_of_tasks
        return {pair: round(count / used[pair]) for pair, count in self.by_task.items()}

    @property
    def matches_closed_form(self) -> bool:
        """Whether each step moved every variable once and its gradient once: 2·S."""
        expected = 2 * self.variable_bytes * self.num_steps
        return expected > 0 and self.total == expected


def task_of_device(device: str) -> str:
    """`ps:0` of a whole device name; what is none stays as it is."""
    try:
        return str(DeviceName.parse(device).task_name)
    except ValueError:
        return device


def device_title(device: str) -> str:
    """`ps:0 CPU:0` of a whole device name; `CPU:0` where one task, without a cluster, has all."""
    task, own = task_of_device(device), device.rpartition("device:")[2]
    if task.startswith(LOCAL):
        return own
    return device if task == device else f"{task} {own}"


def bytes_moved(trace: Trace, step: StepInfo | None = None) -> BytesMoved:
    """Of one step, or of all that are whole."""
    spans = trace.all.take(trace.step_places(step)) if step else trace.all
    torn = [] if step else [one.trace_lo for one in trace.steps if not one.is_whole]
    mask = _between_devices(spans)
    if torn:
        mask &= ~np.isin(spans.trace_lo, np.array(torn, np.uint64))
    moved = spans.take(mask)
    keys = _keys(moved)
    pairs = {code: (key.src_device, key.dst_device) for code, key in keys.items()}
    tasks = {code: _tasks_of(pair) for code, pair in pairs.items()}
    recvs = moved.take(~moved.is_kind(HOP))
    graph = trace.graph(step or trace.steps[-1]) if trace.steps else None
    rows = graph.stages.get("placed", ()) if graph else ()
    return BytesMoved(
        1 if step else _num_steps(trace),
        _bytes_of(moved, pairs),
        _steps_of(moved, pairs),
        _steps_of(moved, tasks),
        tuple(sorted(_tensors(recvs, keys), key=lambda tensor: -tensor.bytes)),
        variable_bytes(rows),
    )


def _between_devices(spans: Spans) -> Array:
    """What got a value from another device in a step."""
    idle = Flag.CLIENT_EDGE | Flag.ERROR | Flag.UNFINISHED
    mask: Array = spans.is_kind(*CROSSING) & (spans.flags & idle == 0) & (spans.step > 0)
    return mask


def _num_steps(trace: Trace) -> int:
    """Whole steps of each client; those that all take together count once."""
    whole = [one.number for one in trace.steps if one.is_whole]
    return len(set(whole) if clients_meet(trace) else whole)


def _keys(moved: Spans) -> dict[int, RendezvousKey]:
    """By code; what is no key of ours is left out."""
    codes = np.unique(moved.codes("key")).tolist()
    found = {code: key_of(moved.words["key"][code]) for code in codes}
    return {code: key for code, key in found.items() if key.src_device}


def _tasks_of(pair: Pair) -> Pair:
    source, target = pair
    return task_of_device(source), task_of_device(target)


def _bytes_of(moved: Spans, pairs: Mapping[int, Pair]) -> dict[Pair, int]:
    """The most first; `pairs` are by code of key."""
    totals = np.bincount(moved.codes("key"), moved.bytes, len(moved.words["key"]))
    found: Counter[Pair] = Counter()
    for code, pair in pairs.items():
        found[pair] += int(totals[code])
    return dict(found.most_common())


def _steps_of(moved: Spans, pairs: Mapping[int, Pair]) -> dict[Pair, int]:
    """In how many steps a pair was used."""
    places: dict[Pair, int] = {}
    of_code = np.full(len(moved.words["key"]), -1)
    for code, pair in pairs.items():
        of_code[code] = places.setdefault(pair, len(places))
    of = of_code[moved.codes("key")]
    return {pair: len(np.unique(moved.trace_lo[of == place])) for pair, place in places.items()}


def _tensors(recvs: Spans, keys: Mapping[int, RendezvousKey]) -> list[Tensor]:
    """Recvs by rendezvous key; all iterations of a loop share their edge."""
    found: dict[tuple[str, str, str], Tensor] = {}
    totals = np.bincount(recvs.codes("key"), recvs.bytes, len(recvs.words["key"]))
    codes, first, counts = np.unique(recvs.codes("key"), return_index=True, return_counts=True)
    for code, place, count in zip(codes.tolist(), first.tolist(), counts.tolist(), strict=True):
        if (key := keys.get(code)) is None:
            continue
        edge = key.edge_name, key.src_device, key.dst_device
        known = found.get(edge)
        found[edge] = Tensor(
            tensor_title(key.edge_name),
            key.src_device,
            key.dst_device,
            int(totals[code]) + (known.bytes if known else 0),
            count + (known.count if known else 0),
            known.span if known else int(recvs.span[place]),
        )
    return list(found.values())


def short_device_titles(devices: Iterable[str]) -> dict[str, str]:
    """What devices are called: by their task where it has only one among these."""
    task_of = {device: task_of_device(device) for device in devices}
    tasks = Counter(task_of.values())
    return {
        device: task if tasks[task] == 1 and not task.startswith(LOCAL) else device_title(device)
        for device, task in task_of.items()
    }


def variable_bytes(rows: tuple[NodeRow, ...]) -> int:
    """Bytes of the variables whose value a node on another device takes."""
    nodes = {row.name: row for row in rows}
    crossing: dict[str, int] = {}
    for row in rows:
        for text in row.inputs:
            source = nodes.get(input_node(text))
            if source is None or source.device == row.device:
                continue
            variable = _variable_behind(source, nodes)
            if variable is not None and source.bytes:
                crossing[variable] = source.bytes
    return sum(crossing.values())


def _variable_behind(node: NodeRow, nodes: Mapping[str, NodeRow]) -> str | None:
    """The variable that a node is, or that it reads."""
    if node.op in VARIABLE_OPS:
        return node.name
    if node.op in ("ReadVariableOp", "Identity") and node.inputs:
        source = nodes.get(input_node(node.inputs[0]))
        if source is not None and source.op in VARIABLE_OPS:
            return source.name
    return None
