"""Variables in shards: how many, which rows, on which ps (TF `sharded_variable.py`).

    partitioner   shape, dtype → parts on axis 0        Fixed(n) · MinSize(bytes) · MaxSize(bytes)
    shards        contiguous rows ("div"), sizes differ by at most one, the first ones are larger
    RoundRobin    each shard and each whole variable takes the next ps: it counts, never weighs

A scalar is never cut. A sharded variable is read whole by a concat of its shards.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from tracer.model.graph import ITEM_BYTES, Input, TensorSpec
from tracer.model.graph_builder import GraphBuilder
from tracer.strategies.contexts import DistributionError
from tracer.strategies.distribution import creation_of
from tracer.strategies.values import Copy, DistributedVariable

#: shape and dtype → how many parts each axis is cut in
Partitioner = Callable[[TensorSpec], list[int]]


@dataclass(frozen=True, slots=True)
class FixedShards:
    """`num_shards` parts, as far as there are rows."""

    num_shards: int

    def __call__(self, spec: TensorSpec) -> list[int]:
        return _on_axis_0(spec, self.num_shards)


@dataclass(frozen=True, slots=True)
class MinSize:
    """As many parts of `min_shard_bytes` as hold it, `max_shards` at most."""

    min_shard_bytes: int = 256 << 10
    max_shards: int = 1

    def __call__(self, spec: TensorSpec) -> list[int]:
        parts = math.ceil(spec.num_bytes / self.min_shard_bytes)
        return _on_axis_0(spec, max(1, min(parts, self.max_shards)))


@dataclass(frozen=True, slots=True)
class MaxSize:
    """As few parts as are each of at most `max_shard_bytes`; of whole rows, one at least."""

    max_shard_bytes: int
    max_shards: int = 0  #: 0: any number

    def __call__(self, spec: TensorSpec) -> list[int]:
        if not spec.shape:
            return []
        row = math.prod(spec.shape[1:]) * ITEM_BYTES[spec.dtype]
        rows = max(1, self.max_shard_bytes // max(1, row))
        parts = math.ceil(spec.shape[0] / rows)
        return _on_axis_0(spec, min(parts, self.max_shards or parts))


def _on_axis_0(spec: TensorSpec, parts: int) -> list[int]:
    if not spec.shape:
        return []
    return [min(parts, spec.shape[0]), *[1] * (len(spec.shape) - 1)]


def checked_parts(name: str, spec: TensorSpec, parts: Sequence[int]) -> int:
    """How many shards. Raises DistributionError for what a partitioner must not answer."""
    if len(parts) != len(spec.shape) or any(part < 1 for part in parts):
        raise DistributionError(
            f"the partitioner of variable {name!r} answers {list(parts)} for shape "
            f"{list(spec.shape)}; it must give a number from 1 on for each axis"
        )
    if math.prod(parts[1:]) > 1:
        raise DistributionError(
            f"the partitioner of variable {name!r} cuts it as {list(parts)}; a sharded variable is "
            "cut along axis 0 only, so all other numbers must be 1"
        )
    return parts[0] if parts else 1


def rows_of_shards(rows: int, shards: int) -> list[int]:
    """`div`: contiguous, the remainder goes to the first shards."""
    least, more = divmod(rows, shards)
    return [least + (shard < more) for shard in range(shards)]


class RoundRobin:
    """Deals variables and shards out to ps tasks, one after another."""

    def __init__(self, devices: Sequence[str]) -> None:
        self._devices = devices
        self._turn = 0

    def __call__(self) -> str:
        device = self._devices[self._turn % len(self._devices)]
        self._turn += 1
        return device


@dataclass(frozen=True, slots=True)
class Shard:
    """Rows `offset` to `offset + rows` of a variable, as a variable of their own."""

    name: str
    device: str
    offset: int
    rows: int


@dataclass(frozen=True, slots=True)
class ShardedVariable:
    name: str
    spec: TensorSpec
    shards: tuple[Shard, ...]

    def create(self, builder: GraphBuilder, value: Sequence[Any]) -> list[Input]:
        """Adds each shard with its rows of `value`; gives the assignments of first values."""
        made: list[Input] = []
        for shard in self.shards:
            own = value[shard.offset : shard.offset + shard.rows]
            with builder.device(shard.device):
                first = builder.const(own, self.spec.dtype, name=f"{shard.name}/Initializer")
            spec = builder[first.node].specs[0]
            copies = (Copy(shard.name, shard.device),)
            variable = DistributedVariable(shard.name, spec, copies)
            made += [builder.keep(node) for node in creation_of(variable, first)]
        return [each for each in made if each.node.endswith("/Assign")]

    def read(self, builder: GraphBuilder) -> Input:
        """The whole, where the caller is."""
        parts = [self._read_shard(builder, shard) for shard in self.shards]
        if len(parts) == 1:
            return parts[0]
        axis = builder.const(0, "int32", name=f"{self.name}/concat/axis")
        attrs: dict[str, Any] = {"T": self.spec.dtype, "N": len(parts)}
        name, specs = f"{self.name}/concat", [self.spec]
        return builder.op("ConcatV2", *parts, axis, name=name, specs=specs, **attrs)

    def _read_shard(self, builder: GraphBuilder, shard: Shard) -> Input:
        dtype, shape = self.spec.dtype, (shard.rows, *self.spec.shape[1:])
        with builder.device(shard.device):
            return builder.op(
                "ReadVariableOp",
                Input(shard.name),
                name=f"{shard.name}/Read",
                specs=[TensorSpec(dtype, shape)],
                dtype=dtype,
            )


def sharded(
    name: str, spec: TensorSpec, partitioner: Partitioner | None, next_device: Callable[[], str]
) -> ShardedVariable:
    """Its shards and where they go; one, under its own name, where it is not cut."""
    parts = checked_parts(name, spec, partitioner(spec)) if partitioner and spec.shape else 1
    if parts == 1:
        rows = spec.shape[0] if spec.shape else 1
        return ShardedVariable(name, spec, (Shard(name, next_device(), 0, rows),))
    rows_each = rows_of_shards(spec.shape[0], parts)
    offsets = [0, *accumulate(rows_each)]
    shards = (
        Shard(f"{name}/part_{number}", next_device(), offset, rows)
        for number, (offset, rows) in enumerate(zip(offsets, rows_each, strict=False))
    )
    return ShardedVariable(name, spec, tuple(shards))
