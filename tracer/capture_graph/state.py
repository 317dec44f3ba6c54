"""What a step reads and assigns: parameters, buffers, optimizer slots, as variables of a graph.

The variables follow from module and optimizer alone, never from a batch, so every graph captured
from one state has the same ones: names, containers, first values, order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from tracer.capture_graph.optimizers import Optimizer
from tracer.model.graph import Input, Literal, Node, TensorSpec
from tracer.ops.dtypes import spec_of, tensor_to_literal

_RESOURCE = TensorSpec("resource", ())


@dataclass(frozen=True, slots=True)
class StateValues:
    """First values by name: `fc1/weight`, `fc1/weight/Momentum`."""

    parameters: Mapping[str, Tensor]
    buffers: Mapping[str, Tensor]
    slots: Mapping[str, Mapping[str, Tensor]] = field(default_factory=dict)

    @classmethod
    def of(cls, module: nn.Module, optimizer: Optimizer) -> "StateValues":
        """As they are now. Parameters that want no gradient count as buffers: none updates them."""
        named = {name.replace(".", "/"): p.detach() for name, p in module.named_parameters()}
        trained = {n.replace(".", "/") for n, p in module.named_parameters() if p.requires_grad}
        buffers = {name.replace(".", "/"): b.detach() for name, b in module.named_buffers()}
        fixed = {name: value for name, value in named.items() if name not in trained}
        parameters = {name: value for name, value in named.items() if name in trained}
        slots = {name: optimizer.slots(value) for name, value in parameters.items()}
        return cls(parameters, {**fixed, **buffers}, slots)

    def flat(self) -> dict[str, Tensor]:
        slots = {f"{p}/{s}": v for p, of_p in self.slots.items() for s, v in of_p.items()}
        return {**self.parameters, **self.buffers, **slots}

    def owners(self) -> dict[str, str]:
        """Slot → the parameter that it stays with."""
        return {f"{p}/{s}": p for p, of_p in self.slots.items() for s in of_p}


def variable_nodes(state: StateValues) -> list[Node]:
    """Handle, first value and its assignment of each variable."""
    owners = state.owners()
    return [
        node
        for name, value in state.flat().items()
        for node in _variable(name, value, together(owners.get(name, name)))
    ]


def _variable(name: str, value: Tensor, beside: Mapping[str, Any]) -> list[Node]:
    spec = spec_of(value)
    attrs = {"dtype": spec.dtype, "shape": list(spec.shape), "shared_name": name, "container": ""}
    first = f"{name}/Initializer"
    return [
        Node(name, "VarHandleOp", attrs={**attrs, **beside}, specs=(_RESOURCE,)),
        const(first, tensor_to_literal(value), beside),
        Node(
            f"{name}/Assign",
            "AssignVariableOp",
            (Input(name), Input(first)),
            attrs={"dtype": spec.dtype, "validate_shape": True, **beside},
        ),
    ]


def together(variable: str) -> dict[str, Any]:
    """The attribute that keeps a node beside a variable."""
    return {"_class": [f"loc:@{variable}"]} if variable else {}


def const(name: str, value: Literal, attrs: Mapping[str, Any]) -> Node:
    spec = TensorSpec(value.dtype, value.shape)
    return Node(name, "Const", attrs={"dtype": value.dtype, "value": value, **attrs}, specs=(spec,))
