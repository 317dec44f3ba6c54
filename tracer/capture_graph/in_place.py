"""Takes in-place ops out of a traced step, where torch's `functionalize` does not.

A graph with loops in it cannot be traced again (their backward passes have shapes that follow from
the number of iterations), so each in-place op is replaced by the op that gives a new tensor. That
is the same as long as nobody looks at the old one by another view.
"""

from typing import Any

import torch
from torch import fx

from tracer.capture_graph.errors import CaptureError
from tracer.capture_graph.origins import origin_of

_TWINS = {torch.ops.aten.bernoulli_.float: torch.ops.aten.bernoulli.p}  #: of another name


def flow_of(node: fx.Node) -> str:
    """`cond`, `while_loop` or `while_loop_stack_output`; empty for any other op."""
    target = node.target
    return str(target._name) if isinstance(target, torch._ops.HigherOrderOperator) else ""


def without_in_place(module: fx.GraphModule) -> fx.GraphModule:
    """The same graph, changed in place, and so are the branches and bodies in it.

    Raises CaptureError for an op that has no twin, and for one that writes into a view.
    """
    for child in module.children():
        if isinstance(child, fx.GraphModule):
            without_in_place(child)
    for node in module.graph.nodes:
        target = node.target
        if isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable:
            node.target = _twin(node, target)
            _see_from_here(node.args[0], node)
    module.recompile()
    return module


def _twin(node: fx.Node, target: torch._ops.OpOverload) -> Any:
    """`aten.add.Tensor` of `aten.add_.Tensor`."""
    if target in _TWINS:
        return _TWINS[target]
    name = target._schema.name.rpartition("::")[2]
    packet = getattr(torch.ops.aten, name.removesuffix("_"), None)
    twin = getattr(packet, target._overloadname, None)
    if not name.endswith("_") or twin is None or twin._schema.is_mutable:
        raise CaptureError(_refusal(node, "it has no twin that gives a new tensor"))
    written: Any = node.args[0]
    if _is_view(written) or any(map(_is_view, written.users)):
        raise CaptureError(_refusal(node, "what it writes into is seen by another view as well"))
    return twin


def _is_view(node: Any) -> bool:
    """Whether its value shares memory with what it was made from."""
    if not isinstance(node, fx.Node) or not isinstance(node.target, torch._ops.OpOverload):
        return False
    schema = node.target._schema
    shares = any(result.alias_info is not None for result in schema.returns)
    return shares and not schema.is_mutable


def _see_from_here(old: Any, new: fx.Node) -> None:
    """Whoever comes after the write sees what it left."""
    following, later = new.next, set[fx.Node]()
    while following.op != "root":
        later.add(following)
        following = following.next
    for user in [user for user in old.users if user in later]:
        user.replace_input_with(old, new)


def _refusal(node: fx.Node, why: str) -> str:
    source = origin_of(node).source
    return (
        f"{node.target}{f' ({source})' if source else ''} writes into a tensor, in a step with a "
        f"torch.cond or while_loop; {why}: compute a new tensor instead"
    )
