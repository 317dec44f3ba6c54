"""Where a client shares its master's process, a tensor that outlives a step has one owner.

Over a wire every value is a copy anyhow. In one process a fed tensor that a variable or a queue
keeps would still be the client's to change, as would the variable's own value once it is fetched.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from tracer.model.graph import Graph, Input

#: ops that keep a value as it came; all others make their own memory
_KEEPERS = ("Assign", "AssignVariableOp", "QueueEnqueueV2")


def are_kept(graph: Graph, names: Iterable[str]) -> bool:
    """Whether what these fetches and targets run may keep a value beyond its step."""
    pending = [Input.parse(name).node for name in names]
    seen = set(pending)
    while pending:
        node = graph[pending.pop()]
        if node.op in _KEEPERS:
            return True
        before = {*(source.node for source in node.inputs), *node.control_inputs} - seen
        seen |= before
        pending += before
    return False


def copied(values: Mapping[str, Any]) -> dict[str, Any]:
    """A text cannot be changed, so it may be everybody's."""
    return {
        name: value.clone() if isinstance(value, torch.Tensor) else value
        for name, value in values.items()
    }
