"""What handles of variables hold: told by themselves, or in older traces by who reads them."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tracer.model.graph import TensorSpec
from tracer.model.graph_table import NodeRow, input_node


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


def _told(row: NodeRow) -> Held | None:
    """A trace is untrusted: a shape is a list of numbers, or none."""
    dtype, shape = row.attrs.get("dtype"), row.attrs.get("shape")
    if not isinstance(dtype, str) or not isinstance(shape, list):
        return None
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        return None
    spec = TensorSpec(dtype, tuple(shape))
    return Held(spec.shape, spec.num_bytes)
