"""How many bytes went from where to where, as the transport counted them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tracer.model.cluster import DeviceName
from tracer.model.graph_table import NodeRow, input_node
from tracer.model.step import RendezvousKey
from tracer.model.trace_folder import Flag
from vizdist.analysis.collectives import collectives, hops_of
from vizdist.analysis.keys import key_of, tensor_title
from vizdist.store.segments import Array
from vizdist.store.spans import Spans
from vizdist.store.trace import StepInfo, Trace

VARIABLE_OPS = ("VarHandleOp", "VariableV2", "Variable")

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
    def by_task(self) -> dict[Pair, int]:
        tasks: dict[Pair, int] = {}
        for pair, count in self.by_device.items():
            tasks[_tasks_of(pair)] = tasks.get(_tasks_of(pair), 0) + count
        return tasks

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
    """`ps:0 CPU:0` of a whole device name."""
    task = task_of_device(device)
    return device if task == device else f"{task} {device.rpartition('device:')[2]}"


def bytes_moved(trace: Trace, step: StepInfo | None = None) -> BytesMoved:
    """Of one step, or of all that are whole."""
    spans = trace.all.take(trace.step_places(step)) if step else trace.all
    torn = [] if step else [one.trace_lo for one in trace.steps if not one.is_whole]
    mask = _between_devices(spans)
    if torn:
        mask &= ~np.isin(spans.trace_lo, np.array(torn, np.uint64))
    moved = spans.take(mask)
    keys = _keys(moved)
    tensors = sorted(_tensors(moved, keys), key=lambda tensor: -tensor.bytes)
    by_device: dict[Pair, int] = {}
    for tensor in tensors:
        pair = tensor.source, tensor.target
        by_device[pair] = by_device.get(pair, 0) + tensor.bytes
    graph = trace.graph(step or trace.steps[-1]) if trace.steps else None
    rows = graph.stages.get("placed", ()) if graph else ()
    steps = 1 if step else len(trace.steps) - len(torn)
    pairs = {code: (key.src_device, key.dst_device) for code, key in keys.items()}
    tasks = {code: _tasks_of(pair) for code, pair in pairs.items()}
    used = _steps_of(moved, pairs), _steps_of(moved, tasks)
    _add_hops(trace, step, set(torn), by_device, *used)
    return BytesMoved(steps, by_device, *used, tuple(tensors), variable_bytes(rows))


def _add_hops(
    trace: Trace,
    step: StepInfo | None,
    torn: set[int],
    by_device: dict[Pair, int],
    *used: dict[Pair, int],
) -> None:
    """What ranks of collectives sent each other, hop by hop; `used`: steps of devices, of tasks."""
    seen: tuple[dict[Pair, set[int]], ...] = ({}, {})
    broken = {one.number for one in trace.steps if one.trace_lo in torn}
    meant = [
        one
        for one in collectives(trace)
        if one.step not in broken and (step is None or one.step == step.number)
    ]
    hops = hops_of(trace, (rank for one in meant for rank in one.ranks))
    for one in meant:
        places = {rank.number: rank.place for rank in one.ranks}
        for hop in (hop for rank in one.ranks for hop in hops.get(rank.span, ())):
            pair = places.get(hop.sender, ""), places.get(hop.receiver, "")
            if all(pair):
                by_device[pair] = by_device.get(pair, 0) + hop.bytes
                for steps, key in zip(seen, (pair, _tasks_of(pair)), strict=True):
                    steps.setdefault(key, set()).add(one.step)
    for known, steps in zip(used, seen, strict=True):
        for pair, numbers in steps.items():
            known[pair] = max(known.get(pair, 0), len(numbers))


def _between_devices(spans: Spans) -> Array:
    """Recvs inside steps that got a value from another device of the graph."""
    idle = Flag.CLIENT_EDGE | Flag.ERROR | Flag.UNFINISHED
    mask: Array = spans.is_kind("rendezvous.recv") & (spans.flags & idle == 0) & (spans.step > 0)
    return mask


def _keys(recvs: Spans) -> dict[int, RendezvousKey]:
    """By code; what is no key of ours is left out."""
    codes = np.unique(recvs.codes("key")).tolist()
    found = {code: key_of(recvs.words["key"][code]) for code in codes}
    return {code: key for code, key in found.items() if key.src_device}


def _tasks_of(pair: Pair) -> Pair:
    source, target = pair
    return task_of_device(source), task_of_device(target)


def _steps_of(recvs: Spans, pairs: Mapping[int, Pair]) -> dict[Pair, int]:
    """In how many steps a pair was used; `pairs` are by code of key."""
    places: dict[Pair, int] = {}
    of_code = np.full(len(recvs.words["key"]), -1)
    for code, pair in pairs.items():
        of_code[code] = places.setdefault(pair, len(places))
    of = of_code[recvs.codes("key")]
    return {pair: len(np.unique(recvs.trace_lo[of == place])) for pair, place in places.items()}


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
    distinct = dict.fromkeys(devices)
    tasks = Counter(map(task_of_device, distinct))
    return {
        device: task if tasks[task := task_of_device(device)] == 1 else device_title(device)
        for device in distinct
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
