"""Update cones: the part of a traced step whose only way out is one variable's new value.

The common ones are recognised and become one op on the variable (`ResourceApplyGradientDescent` …),
which reads and assigns it under its lock; any other cone ends in `AssignVariableOp`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import fx

from tracer.capture_graph.origins import origin_of

_SUB = torch.ops.aten.sub.Tensor
_MUL = torch.ops.aten.mul.Tensor
_ADD = torch.ops.aten.add.Tensor
_SAME = (torch.ops.aten.detach.default, torch.ops.aten.alias.default)
_TURN = torch.ops.aten.t.default


@dataclass(frozen=True, slots=True)
class Update:
    """How a variable changes. `operands` follow the handles: traced values, scalars by name."""

    op: str
    operands: tuple[fx.Node | tuple[str, float], ...]
    slots: tuple[str, ...] = ()

    @property
    def values(self) -> list[fx.Node]:
        return [operand for operand in self.operands if isinstance(operand, fx.Node)]


def updates_of(inputs: Mapping[str, fx.Node], outputs: Mapping[str, fx.Node]) -> dict[str, Update]:
    """The update of every variable that changes, in the order of `outputs` (`new:<variable>`)."""
    new = {
        name.removeprefix("new:"): plain(node)
        for name, node in outputs.items()
        if name.startswith("new:")
    }
    changed = {name: node for name, node in new.items() if not _is_kept(node, inputs[name])}
    updates: dict[str, Update] = {}
    absorbed: set[str] = set()
    for name, node in changed.items():
        known = _gradient_descent(node, inputs[name]) or _momentum(name, node, inputs, changed)
        updates[name] = known or Update("AssignVariableOp", (node,))
        absorbed.update(updates[name].slots)
    return {name: update for name, update in updates.items() if name not in absorbed}


def plain(node: fx.Node) -> fx.Node:
    """The node behind aliases, and behind a transpose of a transpose: the same tensor."""
    while True:
        if node.target in _SAME:
            node = _argument(node)
        elif node.target is _TURN and (inner := plain(_argument(node))).target is _TURN:
            node = _argument(inner)
        else:
            return node


def cone_owners(
    updates: Mapping[str, Update], owner_of_slot: Mapping[str, str]
) -> dict[fx.Node, str]:
    """Node of the update phase → the one variable (with its slots) whose new value it serves."""
    served: dict[fx.Node, set[str]] = {}
    for name, update in updates.items():
        owner, open_nodes = owner_of_slot.get(name, name), update.values
        while open_nodes:
            node = open_nodes.pop()
            if origin_of(node).phase == "update" and owner not in served.setdefault(node, set()):
                served[node].add(owner)
                open_nodes += node.all_input_nodes
    return {node: names.pop() for node, names in served.items() if len(names) == 1}


def _argument(node: fx.Node) -> fx.Node:
    argument = node.args[0]
    assert isinstance(argument, fx.Node)
    return argument


def _is_kept(node: fx.Node, old: fx.Node) -> bool:
    """A buffer nobody wrote to comes out as the copy that went in."""
    return node is old or (node.target is torch.ops.aten.clone.default and node.args[0] is old)


def _scaled(node: object) -> tuple[fx.Node, float] | None:
    """`value * scalar`."""
    if isinstance(node, fx.Node) and (node := plain(node)).target is _MUL:
        value, factor = node.args
        if isinstance(value, fx.Node) and isinstance(factor, int | float):
            return plain(value), float(factor)
    return None


def _descent(new: fx.Node, old: fx.Node) -> tuple[fx.Node, float] | None:
    """`old - step * rate`: the step and the rate."""
    if new.target is not _SUB or len(new.args) != 2 or new.kwargs or new.args[0] is not old:
        return None
    return _scaled(new.args[1])


def _gradient_descent(new: fx.Node, old: fx.Node) -> Update | None:
    found = _descent(new, old)
    if not found or origin_of(found[0]).phase == "update":
        return None
    gradient, rate = found
    return Update("ResourceApplyGradientDescent", (("learning_rate", rate), gradient))


def _momentum(
    name: str, new: fx.Node, inputs: Mapping[str, fx.Node], changed: Mapping[str, fx.Node]
) -> Update | None:
    """`a' = a * momentum + gradient` and `p' = p - a' * rate`."""
    slot = f"{name}/Momentum"
    found = _descent(new, inputs[name])
    if slot not in inputs or not found or found[0] is not changed.get(slot):
        return None
    accumulated, rate = found
    if accumulated.target is not _ADD or accumulated.kwargs:
        return None
    kept = _scaled(accumulated.args[0])
    gradient = accumulated.args[1]
    if not kept or kept[0] is not inputs[slot] or not isinstance(gradient, fx.Node):
        return None
    operands = (("learning_rate", rate), plain(gradient), ("momentum", kept[1]))
    return Update("ResourceApplyMomentum", operands, (slot,))
