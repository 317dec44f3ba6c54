"""How variables are cut into shards (TF `sharded_variable.py`): how many, of which rows.

    partitioner   dtype and shape → parts of each axis    FixedShards(n) · MinSize(b) · MaxSize(b)
    shards        contiguous rows ("div"), sizes differ by at most one, the first ones are larger

A scalar is never cut. Each shard is a variable of its own, `v/part_0` and so on; where it lies says
the strategy.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tracer.model.graph import ITEM_BYTES, TensorSpec
from tracer.strategies.contexts import DistributionError

PART_OF, OFFSET = "_part_of", "_offset"  #: of a shard's handle: whose rows it has, from which on

#: dtype and shape → how many parts each axis is cut in
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


NONE = "none"  #: the text of no partitioner


def partitioner_from(text: str, servers: int) -> Partitioner | None:
    """That of `fixed:SHARDS`, `min_size:BYTES` (a shard a server at most) or `max_size:BYTES`.

    Raises DistributionError.
    """
    if text == NONE:
        return None
    kind, _, number = text.partition(":")
    known: dict[str, Callable[[int], Partitioner]] = {
        "fixed": FixedShards,
        "min_size": lambda least: MinSize(least, servers),
        "max_size": MaxSize,
    }
    if kind not in known or not number.isascii() or not number.isdigit() or not int(number):
        raise DistributionError(
            f"--option partitioner={text}: a partitioner is {NONE}, fixed:SHARDS, min_size:BYTES "
            "or max_size:BYTES, with a whole number from 1 on, such as fixed:2"
        )
    return known[kind](int(number))


@dataclass(frozen=True, slots=True)
class Shard:
    """Rows `offset` to `offset + rows` of a variable, as a variable of their own."""

    name: str
    offset: int
    rows: int


def shards_of(name: str, spec: TensorSpec, partitioner: Partitioner) -> tuple[Shard, ...]:
    """One, under the variable's own name, where it is not cut. Raises DistributionError."""
    parts = checked_parts(name, spec, partitioner(spec)) if spec.shape else 1
    if parts == 1:
        return (Shard(name, 0, spec.shape[0] if spec.shape else 1),)
    rows_each = rows_of_shards(spec.shape[0], parts)
    cuts = zip(accumulate(rows_each, initial=0), rows_each, strict=False)
    return tuple(Shard(f"{name}/part_{n}", offset, rows) for n, (offset, rows) in enumerate(cuts))


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
