"""Op name → OpDef: every op that a graph may name, wherever the graph comes from."""

from tracer.model.refusal import did_you_mean
from tracer.ops import (
    accumulator,
    adam,
    array,
    checkpoint,
    checks,
    collective,
    control,
    convolution,
    indexing,
    joining,
    math,
    nn,
    queue,
    random,
    reduction,
    stack,
    transfer,
    variable,
)
from tracer.ops.aten import aten_op
from tracer.ops.kernel import OpDef

_ROOMS = (
    accumulator,
    adam,
    array,
    checkpoint,
    checks,
    collective,
    control,
    convolution,
    indexing,
    joining,
    math,
    nn,
    queue,
    random,
    reduction,
    stack,
    transfer,
    variable,
)

TABLE: dict[str, OpDef] = {op.name: op for room in _ROOMS for op in room.OPS}


class UnknownOp(LookupError):
    """No op has this name; the text names the nearest ones."""

    def __str__(self) -> str:
        return str(self.args[0])


def lookup(name: str) -> OpDef:
    """The op of this name; `aten.*` names are torch's own functional overloads.

    Raises UnknownOp.
    """
    if op := TABLE.get(name):
        return op
    if name.startswith("aten."):
        try:
            return aten_op(name)
        except LookupError as error:
            raise UnknownOp(error.args[0]) from None
    hint = did_you_mean(name, TABLE, 3, 0.5) or f"; there are {', '.join(sorted(TABLE))}"
    raise UnknownOp(f"no op is named {name!r}{hint}")
