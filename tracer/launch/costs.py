"""What `--costs` names: the trace of an earlier run, whose times are taken, or a JSON file."""

import json
import statistics
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from tracer.model.cluster import DeviceName
from tracer.model.json_text import parse_json, read_text
from tracer.model.trace_folder import SPANS, SPANS_SUFFIX
from tracer.passes.cost_model import Costs, CostsError, Measured

MAX_NODES = 1_000  #: known by name, those that take longest; others go by their op

_GZIP = 31  #: zlib's word for it
_CHUNK_BYTES = 1 << 20
_TRANSFERS = ("data", "control", "loop")
_MALFORMED = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    StopIteration,
    RecursionError,
)


class _Op(NamedTuple):
    device_type: str
    node: str
    op: str


def read_costs(path: Path) -> Costs:
    """Raises CostsError or OSError."""
    if path.is_dir():
        return costs_of_trace(path)
    return Costs.from_json(
        parse_json(read_text(path, "--costs", CostsError), "--costs", CostsError)
    )


def costs_of_trace(folder: Path) -> Costs:
    """Medians over the steps; a node in a loop counts with all its iterations of a step.

    Raises CostsError if the folder holds no op that was recorded.
    """
    found = _Found()
    for where, line in _lines(folder):
        try:
            found.add(json.loads(line))
        except _MALFORMED as error:
            raise CostsError(
                f"--costs {where} holds no spans of a recorded run: {error!r}; record it again"
            ) from None
    if not found.steps:
        raise CostsError(
            f"--costs {folder} holds no op that was recorded; name the trace of a run with "
            "--trace all and --detail op, or a JSON file of costs"
        )
    known = Costs()
    return Costs(
        nodes=_by_node(found.steps),
        ops=_by_op(found.steps),
        near_ns=_median(found.transfers[False], known.near_ns),
        far_ns=_median(found.transfers[True], known.far_ns),
        step_ns=_median(found.whole),
    )


class _Found:
    """Times in ns, of ops by the step."""

    def __init__(self) -> None:
        self.steps: dict[_Op, defaultdict[str, int]] = {}
        self.transfers: dict[bool, list[int]] = {False: [], True: []}
        self.whole: list[int] = []

    def add(self, line: Mapping[str, Any]) -> None:
        for resource in line.get("resourceSpans", ()):
            for scope in resource.get("scopeSpans", ()):
                for span in scope.get("spans", ()):
                    self._add(span)

    def _add(self, span: Mapping[str, Any]) -> None:
        told = {a["key"]: next(iter(a["value"].values())) for a in span.get("attributes", ())}
        duration_ns = int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])
        if told.get("vizdist.kind") == "op.run" and (op := _op(told)):
            times = self.steps.setdefault(op, defaultdict(int))
            times[told["vizdist.step.number"]] += duration_ns
        elif told.get("vizdist.kind") == "session.run":
            self.whole.append(duration_ns)
        elif told.get("vizdist.edge.kind") in _TRANSFERS and "vizdist.wait_ns" in told:
            took_ns = duration_ns - int(told["vizdist.wait_ns"])
            self.transfers[bool(told.get("vizdist.remote"))].append(max(0, took_ns))


def _op(told: Mapping[str, Any]) -> _Op | None:
    """Where the work itself was recorded: on a GPU's stream, not where it was launched."""
    if not {"vizdist.node", "vizdist.device", "vizdist.step.number"} <= told.keys():
        return None
    device = DeviceName.parse(told["vizdist.device"])
    if device.type == "GPU" and not told.get("vizdist.lane", "").startswith("stream"):
        return None
    return _Op(device.type, told["vizdist.node"], told.get("vizdist.op", ""))


def _by_node(steps: Mapping[_Op, Mapping[str, int]]) -> Measured:
    times = {op: _median(by_step.values()) for op, by_step in steps.items()}
    longest = sorted(times, key=lambda op: times[op], reverse=True)[:MAX_NODES]
    table: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for op in longest:
        table[op.device_type][op.node] = times[op]
    return dict(table)


def _by_op(steps: Mapping[_Op, Mapping[str, int]]) -> Measured:
    times: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for op, by_step in steps.items():
        times[op.device_type, op.op] += by_step.values()
    table: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for (device_type, name), values in times.items():
        table[device_type][name] = _median(values)
    return dict(table)


def _median(values: Iterable[int], otherwise: int = 0) -> int:
    values = list(values)
    return round(statistics.median(values)) if values else otherwise


def _lines(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Each with its file and number."""
    for path in sorted((folder / SPANS).glob(f"*{SPANS_SUFFIX}")):
        lines = chain.from_iterable(member.splitlines() for member in _whole_members(path))
        for number, line in enumerate(lines, 1):
            yield f"{path}, line {number},", line


def _whole_members(path: Path) -> Iterator[bytes]:
    """A file of a run that was killed may end in the middle of one."""
    inflate, parts = zlib.decompressobj(_GZIP), list[bytes]()
    with path.open("rb") as file:
        while data := file.read(_CHUNK_BYTES):
            while data:
                try:
                    parts.append(inflate.decompress(data))
                except zlib.error:
                    return
                data = inflate.unused_data
                if inflate.eof:
                    yield b"".join(parts)
                    inflate, parts = zlib.decompressobj(_GZIP), []
