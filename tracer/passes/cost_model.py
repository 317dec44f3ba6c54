"""What nodes and transfers take: as measured in an earlier run, else estimated from their shapes.

Whitepaper §3.2.1: "statically estimated based on heuristics associated with different operation
types, or measured".
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from tracer.model.cluster import DeviceName
from tracer.model.graph import Node, TensorSpec
from tracer.model.refusal import Refusal

_PRODUCTS = ("MatMul", "BatchMatMulV2", "aten.mm.default", "aten.addmm.default", "aten.bmm.default")

Specs = Sequence[TensorSpec]
Measured = Mapping[str, Mapping[str, int]]  #: device type → name → ns


class _Speed(NamedTuple):
    """Of one type of device, for estimates: what any op takes, and how it grows."""

    start_ns: int
    bytes_per_ns: float
    flops_per_ns: float


_LEAST = {"bytes_per_ns": 1e-9}  # a byte a second; of the others 0
_MOST = 1e18  # ns; some 30 years

_SPEEDS = {"CPU": _Speed(5_000, 8.0, 20.0), "GPU": _Speed(10_000, 1_000.0, 10_000.0)}


class CostsError(Refusal):
    """Costs that cannot be read; the text says the form."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Times in ns. What is measured of a node counts first, then of its op, then the estimate.

    `near_ns` and `far_ns` are what an empty transfer takes within a task and between two, which
    `bytes_per_ns` makes longer. `step_ns` is what a whole step took, 0 if unknown: nothing is
    computed from it, a prediction stands beside it.
    """

    nodes: Measured = field(default_factory=dict)
    ops: Measured = field(default_factory=dict)
    near_ns: int = 20_000
    far_ns: int = 200_000
    bytes_per_ns: float = 1.0
    step_ns: int = 0

    def node_ns(self, node: Node, device: DeviceName, inputs: Specs, outputs: Specs) -> int:
        measured = self.nodes.get(device.type, {}).get(node.name)
        if measured is None:
            measured = self.ops.get(device.type, {}).get(node.op)
        return _estimate_ns(node.op, device, inputs, outputs) if measured is None else measured

    def transfer_ns(self, num_bytes: int, source: DeviceName, target: DeviceName) -> int:
        if source == target:
            return 0
        start_ns = self.near_ns if source.task_name == target.task_name else self.far_ns
        return start_ns + round(num_bytes / self.bytes_per_ns)

    @classmethod
    def from_json(cls, raw: Any) -> Self:
        """Raises CostsError."""
        numbers = ("near_ns", "far_ns", "bytes_per_ns", "step_ns")
        fields = dict.fromkeys(("nodes", "ops"), dict) | dict.fromkeys(numbers, int)
        if not isinstance(raw, dict) or raw.keys() - fields:
            raise CostsError(f"costs are an object with any of {', '.join(fields)}")
        for name, kind in fields.items():
            value = raw.get(name, kind())
            if kind is dict and not _is_table(value):
                form = '{"CPU": {"MatMul": 12000}}, a whole number of ns by device type and name'
                raise CostsError(f"{name} must be a table such as {form}; it is {value!r}")
            least = _LEAST.get(name, 0)
            if kind is not dict and not _is_number(raw.get(name, least), least):
                raise CostsError(
                    f"{name} must be a number from {least:g} to {_MOST:g}; it is {value!r}"
                )
        return cls(**raw)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(times, dict)
        and all(type(ns) is int and 0 <= ns <= _MOST for ns in times.values())
        for times in value.values()
    )


def _is_number(value: Any, least: float) -> bool:
    """No bool, which is an int too; NaN and the infinite are in no range."""
    return type(value) in (int, float) and least <= value <= _MOST


def _estimate_ns(op: str, device: DeviceName, inputs: Specs, outputs: Specs) -> int:
    speed = _SPEEDS.get(device.type, _SPEEDS["CPU"])
    moved = sum(spec.num_bytes for spec in (*inputs, *outputs))
    flops = 0
    if op in _PRODUCTS and outputs and len(inputs) > 1:
        flops = 2 * math.prod(outputs[0].shape) * inputs[-2].shape[-1]
    return speed.start_ns + round(moved / speed.bytes_per_ns + flops / speed.flops_per_ns)
