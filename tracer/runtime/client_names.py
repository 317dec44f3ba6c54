"""What a client may feed and fetch, said before anything is sent (TF `session.py`).

The words are TensorFlow's, followed by the nearest name there is.
"""

import difflib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tracer.model.dtypes import dtype_of, num_outputs
from tracer.model.graph import Graph, GraphError, Input, Literal, Node
from tracer.runtime.interfaces import StepError

_PLACEHOLDERS = ("Placeholder", "PlaceholderV2")

#: raises StepError for a value that does not fit
FeedCheck = Callable[[Any], None]


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
            f"Argument `fetch` = {name} is the handle of a resource ({node.op}), which never leaves "
            "its task; fetch what is read from it, or run the node by its name without a port",
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
    shape = node.attrs.get("shape")
    if shape is None or any(dim in (None, -1) for dim in shape):
        return lambda value: _check_value(node, name, value)
    wanted = torch.Size(shape)

    def check(value: Any) -> None:
        if not isinstance(value, torch.Tensor) or value.shape != wanted:
            _check_value(node, name, value)

    return check


def _check_value(node: Node, name: str, value: Any) -> None:
    if not isinstance(value, torch.Tensor | Literal):
        raise _wrong(
            f"Cannot feed a {type(value).__name__} for Tensor {name}: feeds are tensors", node.name
        )
    shape, dtype = node.attrs.get("shape"), node.attrs.get("dtype")
    if isinstance(value, Literal) and dtype not in (None, value.dtype):
        raise _wrong(
            f"Cannot feed value of type {value.dtype} for Tensor {name}, which has type {dtype}",
            node.name,
        )
    given = tuple(value.shape)
    if shape is not None and not _fits(tuple(shape), given):
        raise _wrong(
            f"Cannot feed value of shape {given} for Tensor {name}, which has shape {tuple(shape)}",
            node.name,
        )


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
