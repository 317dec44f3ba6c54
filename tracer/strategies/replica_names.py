"""What a node of a captured step is called where it is one of several replicas.

Replica 0 has no prefix, as in TF: `fc1/addmm`, `replica_1/fc1/addmm`. Copies of variables are
`fc1/weight`, `fc1/weight/replica_1`, and what belongs to one begins with its name.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tracer.model.graph import Input, Node
from tracer.strategies.step_parts import INDICES, StepParts
from tracer.strategies.values import Copy, DistributedVariable

LOSS, SCALED, GRADIENT = "loss/unscaled", "loss/scaled", "gradients/loss/scaled"

#: attributes that name what each replica must have for itself
_NAMES = ("frame_name", "stack_name", INDICES)


class ReplicaNames:
    """`shares[r]` other than 1: what backward starts from is scaled, by a node named GRADIENT."""

    def __init__(
        self, variables: Mapping[str, DistributedVariable], shares: Sequence[float]
    ) -> None:
        self._variables = variables
        self._shares = shares

    def copy(self, variable: DistributedVariable, replica: int) -> Copy:
        return variable.copies[min(replica, len(variable.copies) - 1)]

    def read(self, variable: DistributedVariable, replica: int) -> str:
        """A read is a replica's own, also where the variable has one copy for all."""
        if len(variable.copies) > 1:
            return f"{variable.copies[replica].name}/Read"
        return f"{prefix(replica)}{variable.name}/Read"

    def of_node(self, parts: StepParts, name: str, replica: int) -> str:
        if name in self._variables:
            return self.copy(self._variables[name], replica).name
        if read := parts.read_variable(name):
            return self.read(self._variables[read], replica)
        if name == Input.parse(parts.step.loss).node:
            name = LOSS
        return f"{prefix(replica)}{name}"

    def value(self, parts: StepParts, source: Input, replica: int) -> Input:
        is_start = self._shares[replica] != 1 and source.node == parts.backward_start.name
        if is_start:
            return Input(f"{prefix(replica)}{GRADIENT}")
        return source._replace(node=self.of_node(parts, source.node, replica))

    def attrs(self, node: Node, replica: int) -> dict[str, Any]:
        changed: dict[str, Any] = {
            name: f"{prefix(replica)}{node.attrs[name]}" for name in _NAMES if name in node.attrs
        }
        if beside := node.colocated_with:
            at = [self._variables.get(name) for name in beside]
            names = [self.copy(v, replica).name for v in at if v is not None]
            changed["_class"] = [f"loc:@{name}" for name in names]
        return {**node.attrs, **changed}

    def renamed(self, parts: StepParts, node: Node, replica: int) -> Node:
        return node.with_(
            name=self.of_node(parts, node.name, replica),
            inputs=tuple(self.value(parts, source, replica) for source in node.inputs),
            control_inputs=tuple(self.of_node(parts, c, replica) for c in node.control_inputs),
            attrs=self.attrs(node, replica),
        )


def prefix(replica: int) -> str:
    """How the names of a replica's nodes begin."""
    return f"replica_{replica}/" if replica else ""
