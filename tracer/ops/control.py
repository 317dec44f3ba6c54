"""Ops that order others and compute nothing."""

from tracer.ops.kernel import OpDef, direct


def _nothing(*_inputs: object) -> None:
    return None


OPS: tuple[OpDef, ...] = (
    direct(
        "NoOp",
        _nothing,
        num_outputs=0,
        is_view=True,
        says="Ends when its control inputs have ended.",
    ),
    direct("ControlTrigger", _nothing, num_outputs=0, is_view=True),
)
