"""Ops that order others, and those that choose and repeat (TF `control_flow_ops.cc`).

A branch that is not taken gets DEAD in place of values. Which nodes run for it, and in which frame
and iteration, is the executor's: these kernels only hand values on.
"""

from functools import cache
from typing import Any

import torch

from tracer.model.graph import Node, TensorSpec
from tracer.ops.kernel import DEAD, OpDef, OpError, direct
from tracer.ops.shapes import Specs, same

_INDEX = TensorSpec("int32", ())


def _nothing(*_inputs: object) -> None:
    return None


def _as_is(value: Any) -> Any:
    return value


def _chosen(predicate: torch.Tensor, op: str) -> bool:
    if predicate.numel() != 1:
        shape = list(predicate.shape)
        raise OpError("INVALID_ARGUMENT", f"{op} needs a scalar to choose by; its shape is {shape}")
    return bool(predicate)


def _switch(data: Any, predicate: torch.Tensor) -> tuple[Any, Any]:
    """Output 1 if the predicate is true, else output 0."""
    return (DEAD, data) if _chosen(predicate, "Switch") else (data, DEAD)


def _merge(*inputs: Any) -> tuple[Any, torch.Tensor]:
    """The input that is not dead, and its index."""
    for index, value in enumerate(inputs):
        if value is not DEAD:
            return value, _index(index)
    raise OpError("INTERNAL", "a Merge ran, but all its inputs are dead")


@cache
def _index(value: int) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.int32)


def _loop_cond(predicate: torch.Tensor) -> torch.Tensor:
    _chosen(predicate, "LoopCond")
    return predicate


def _switch_specs(node: Node, inputs: list[Any]) -> Specs:
    return same(node, inputs) * 2


def _merge_specs(node: Node, inputs: list[Any]) -> Specs:
    return (*same(node, inputs), _INDEX)


def _flow(name: str, kernel: Any, **fields: Any) -> OpDef:
    return direct(name, kernel, is_control_flow=True, is_view=True, **{"infer": same, **fields})


OPS: tuple[OpDef, ...] = (
    direct(
        "NoOp",
        _nothing,
        num_outputs=0,
        is_view=True,
        says="Ends when its control inputs have ended.",
    ),
    direct(
        "ControlTrigger",
        _nothing,
        num_outputs=0,
        is_control_flow=True,
        is_view=True,
        says="Ends when its control inputs have ended, dead or not; it is never dead itself.",
    ),
    _flow(
        "Switch",
        _switch,
        num_outputs=2,
        infer=_switch_specs,
        host_inputs=(1,),
        says="Hands its data to output 1 if the predicate is true, else to output 0.",
    ),
    _flow(
        "Merge",
        _merge,
        num_outputs=2,
        infer=_merge_specs,
        host_outputs=(1,),
        says="Hands on the first input that is there and not dead, and its index.",
    ),
    _flow("Enter", _as_is, says="Takes a value into a loop's frame."),
    _flow("RefEnter", _as_is, num_variables=1, says="Takes a variable into a loop's frame."),
    _flow("Exit", _as_is, says="Takes a loop's last value out of its frame."),
    _flow("NextIteration", _as_is, says="Hands a value to the next iteration."),
    _flow(
        "LoopCond",
        _loop_cond,
        host_inputs=(0,),
        host_outputs=(0,),
        says="Says whether the loop goes on.",
    ),
)
