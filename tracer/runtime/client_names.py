"""What a client may feed and fetch, said before anything is sent (TF `session.py`).

The words are TensorFlow's, followed by the nearest name there is.
"""

import difflib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tracer.model.dtypes import dtype_of, num_outputs
from tracer.model.graph import Graph, GraphError, Input, Literal, Node
from tracer.ops.dtypes import TORCH_DTYPES
from tracer.runtime.interfaces import StepError

_PLACEHOLDERS = ("Placeholder", "PlaceholderV2")

#: the value as the tensor takes it; raises StepError for one that does not fit
FeedCheck = Callable[[Any], Any]


def fetch_names(fetches: object) -> tuple[Any, ...]:
    """Several as they are; one alone, or what is none, as one."""
    if isinstance(fetches, str) or not isinstance(fetches, Sequence):
        return (fetches,)
    return tuple(fetches)


def check_fetch(graph: Graph, name: object) -> None:
    """`node:port` or `node`. Raises StepError INVALID_ARGUMENT."""
    if not isinstance(name, str):
        kind = type(name).__name__
        must = "Cannot be None" if name is None else "Must be a string"
        raise _wrong(f'Argument `fetch` = {name} has invalid type "{kind}". {must}')
    fault = _tensor_fault(graph, name) if ":" in name else _operation_fault(graph, name)
    if fault:
        raise _wrong(f'Argument `fetch` = {name} cannot be interpreted as a Tensor. ("{fault}")')
    if ":" in name and _is_handle(graph, Input.parse(name)):
        node = graph[Input.parse(name).node]
        raise _wrong(
            f"Argument `fetch` = {name} is the handle of a resource ({node.op}), which never "
            "leaves its task; fetch what is read from it, or run the node by its name alone",
            node.name,
        )


def _is_handle(graph: Graph, output: Input) -> bool:
    """`StackV2` tells its elements' dtype, not that of the handle it gives."""
    try:
        return graph[output.node].op == "StackV2" or dtype_of(graph, output) == "resource"
    except GraphError:
        return False


def tensor_fed(graph: Graph, name: str) -> str:
    """The full name of a fed tensor, with its port. Raises StepError INVALID_ARGUMENT."""
    output = Input.parse(name)
    full = f"{output.node}:{output.port}"
    if fault := _tensor_fault(graph, full):
        raise _wrong(f"Cannot interpret feed_dict key as Tensor: {fault}")
    return full


def feed_check(graph: Graph, name: str) -> FeedCheck | None:
    """What a placeholder asks of its value; any other tensor may be fed anything."""
    node = graph[Input.parse(name).node]
    if node.op not in _PLACEHOLDERS:
        return None
    shape, dtype = node.attrs.get("shape"), TORCH_DTYPES.get(node.attrs.get("dtype", ""))
    if shape is None or any(dim in (None, -1) for dim in shape):
        return lambda value: _fitted(node, name, value)
    wanted = torch.Size(shape)

    def check(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype is dtype and value.shape == wanted:
            return value
        return _fitted(node, name, value)

    return check


def _fitted(node: Node, name: str, value: Any) -> Any:
    """Numbers of another dtype are cast, as TF does, if they stay what they are."""
    if not isinstance(value, torch.Tensor | Literal):
        raise _wrong(
            f"Cannot feed a {type(value).__name__} for Tensor {name}: feeds are tensors", node.name
        )
    shape, dtype = node.attrs.get("shape"), node.attrs.get("dtype")
    found = str(value.dtype).removeprefix("torch.")
    fitted = value if dtype in (None, found) else _cast(value, dtype)
    if fitted is None:
        raise _wrong(
            f"Cannot feed value of type {found} for Tensor {name}, which has type {dtype}",
            node.name,
        )
    given = tuple(value.shape)
    if shape is not None and not _fits(tuple(shape), given):
        raise _wrong(
            f"Cannot feed value of shape {given} for Tensor {name}, which has shape {tuple(shape)}",
            node.name,
        )
    return fitted


def _cast(value: torch.Tensor | Literal, dtype: str) -> torch.Tensor | None:
    """None if that made a number of another kind, or integers did not fit."""
    wanted = TORCH_DTYPES.get(dtype)
    if isinstance(value, Literal) or not wanted or not torch.can_cast(value.dtype, wanted):
        return None
    cast = value.to(wanted)
    return cast if wanted.is_floating_point or torch.equal(cast.to(value.dtype), value) else None


def _fits(shape: tuple[int | None, ...], given: tuple[int, ...]) -> bool:
    return len(shape) == len(given) and all(
        want in (None, -1, have) for want, have in zip(shape, given, strict=True)
    )


def _tensor_fault(graph: Graph, name: str) -> str:
    output = Input.parse(name)
    start = f"The name '{name}' refers to a Tensor which does not exist. The operation, "
    if output.node not in graph:
        return f"{start}'{output.node}', does not exist in the graph.{_near(graph, output.node)}"
    if output.port < (count := num_outputs(graph[output.node])):
        return ""
    return f"{start}'{output.node}', exists but only has {count} outputs."


def _operation_fault(graph: Graph, name: str) -> str:
    if name in graph:
        return ""
    return f"The name '{name}' refers to an Operation not in the graph.{_near(graph, name)}"


def _near(graph: Graph, name: str) -> str:
    near = difflib.get_close_matches(name, graph, n=3)
    return f" Near are {', '.join(near)}." if near else ""


def _wrong(text: str, node: str = "") -> StepError:
    return StepError("INVALID_ARGUMENT", text, node=node)
