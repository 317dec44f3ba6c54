"""Update cones: the part of a traced step whose only way out is one variable's new value.

The common ones become one op on the variable (`ResourceApplyGradientDescent` …, see `rules`), which
reads and assigns it under its lock; any other cone ends in `AssignVariableOp`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from tracer.capture_graph.origins import origin_of
from tracer.capture_graph.rules import RULES, Rule, can_be, fits, plain


@dataclass(frozen=True, slots=True)
class Update:
    """How a variable changes. `operands` follow the handles: traced values, numbers by name.

    Numbers become constants of `dtype`, or of the variable's where it is empty.
    """

    op: str
    operands: tuple[fx.Node | tuple[str, float], ...]
    slots: tuple[str, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = ""

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
    changed = {name: node for name, node in new.items() if node is not inputs[name]}
    updates: dict[str, Update] = {}
    absorbed: set[str] = set()
    for name, node in changed.items():
        known = (_known(rule, name, inputs, changed) for rule in RULES)
        updates[name] = next(filter(None, known), None) or Update("AssignVariableOp", (node,))
        absorbed.update(updates[name].slots)
    return {name: update for name, update in updates.items() if name not in absorbed}


def _known(
    rule: Rule, name: str, inputs: Mapping[str, fx.Node], changed: Mapping[str, fx.Node]
) -> Update | None:
    """The rule's op, if the variable and all its slots become what the rule says."""
    variables = {part: name if part == "var" else f"{name}/{part}" for part in rule.forms}
    if not changed.keys() >= set(variables.values()):
        return None
    known: dict[str, Any] = {part: inputs[variable] for part, variable in variables.items()}
    known |= {f"{part}'": changed[variable] for part, variable in variables.items()}
    if not all(fits(form, changed[variables[part]], known) for part, form in rule.forms.items()):
        return None
    found = [(operand, known[operand]) for operand in rule.operands]
    if not all(can_be(operand, value, known["var"]) for operand, value in found):
        return None
    operands = tuple(value if isinstance(value, fx.Node) else (o, value) for o, value in found)
    slots = tuple(variables[slot] for slot in rule.slots)
    return Update(rule.op, operands, slots, rule.attrs, rule.dtype)


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
