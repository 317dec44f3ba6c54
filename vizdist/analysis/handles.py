"""What handles of variables hold: told by themselves, or in older traces by who reads them."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tracer.model.graph import TensorSpec
from tracer.model.graph_table import NodeRow, input_node

_GRADIENT_INPUT = {"ApplyMomentum": 3}  #: of an Apply… op; of all others it is the last


class Held(NamedTuple):
    shape: tuple[int, ...]
    bytes: int


def held_by_handles(rows: Iterable[NodeRow]) -> Mapping[str, Held]:
    """By name of the handle; one of which neither is known is not there."""
    found = {}
    for row in rows:
        if row.op in ("ReadVariableOp", "Identity") and row.inputs and row.specs:
            found[input_node(row.inputs[0])] = Held(row.specs[0][1], row.bytes)
    return found | {row.name: held for row in rows if (held := _told(row)) is not None}


def variable_of(row: NodeRow) -> str:
    """What the copies of a variable have in common: `v` of `v/replica_1`."""
    stem, _, last = row.name.rpartition("/")
    is_copy = last.startswith("replica_") and row.attrs.get("_copies", 1) > 1
    return stem if is_copy else row.name


def gradient_of(row: NodeRow) -> str:
    """The input of an op such as ApplyAdam that is the variable's gradient; "" of any other op."""
    data = [input_node(text) for text in row.inputs if not text.startswith("^")]
    if "Apply" not in row.op or len(data) < 3:
        return ""
    return data[_GRADIENT_INPUT.get(row.op.removeprefix("Resource"), -1)]


def _told(row: NodeRow) -> Held | None:
    """A trace is untrusted: a shape is a list of numbers, or none."""
    dtype, shape = row.attrs.get("dtype"), row.attrs.get("shape")
    if not isinstance(dtype, str) or not isinstance(shape, list):
        return None
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        return None
    spec = TensorSpec(dtype, tuple(shape))
    return Held(spec.shape, spec.num_bytes)
