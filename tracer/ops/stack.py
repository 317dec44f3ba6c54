"""Stacks: what the forward iterations of a loop leave for the backward ones (TF `stack_ops.cc`).

The handle is the stack itself, and a new one each time that `StackV2` runs. So a step, and each run
of a loop within it, has stacks of its own, which go when nothing holds the handle any more. A
handle never leaves its device.
"""

from collections.abc import Callable
from typing import Any

from tracer.model.graph import Node, TensorSpec
from tracer.ops.kernel import Kernel, OpContext, OpDef, OpError, direct

_HANDLE = TensorSpec("resource", ())


class Stack:
    """`max_size` below 0: no limit. One append or pop is one step of the interpreter: no lock."""

    __slots__ = ("_max_size", "_name", "_values")

    def __init__(self, name: str, max_size: int) -> None:
        self._name = name
        self._max_size = max_size
        self._values: list[Any] = []

    def push(self, value: Any) -> Any:
        """Raises OpError beyond `max_size`."""
        if 0 <= self._max_size <= len(self._values):
            raise OpError(
                "INVALID_ARGUMENT",
                f"Stack[{self._name}] overflowed its max_size ({self._max_size})",
            )
        self._values.append(value)
        return value

    def pop(self) -> Any:
        """Raises OpError if nothing is left."""
        if not self._values:
            raise OpError("INVALID_ARGUMENT", f"Stack[{self._name}] is empty when calling Pop().")
        return self._values.pop()


def _bind_stack(node: Node, _context: OpContext) -> Kernel:
    name = node.attrs.get("stack_name") or node.name
    return lambda max_size: Stack(name, int(max_size))


def _handle(_node: Node, _inputs: list[Any]) -> tuple[TensorSpec, ...]:
    return (_HANDLE,)


def _stack_op(name: str, kernel: Callable[..., Any], says: str) -> OpDef:
    return direct(name, kernel, stateful=True, is_view=True, says=says)


OPS: tuple[OpDef, ...] = (
    OpDef(
        "StackV2",
        _bind_stack,
        infer=_handle,
        stateful=True,
        is_view=True,
        host_inputs=(0,),
        says="A new, empty stack each time it runs.",
    ),
    _stack_op("StackPushV2", Stack.push, "Puts a value on the stack, and hands it on."),
    _stack_op("StackPopV2", Stack.pop, "Takes the last value off the stack."),
)
