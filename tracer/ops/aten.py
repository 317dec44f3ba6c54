"""Any functional `aten.*` overload as an op: what captured modules are made of.

A node holds its call in attributes, plain JSON: `args` (a list) and `kwargs` (a mapping), in which
`{"input": i}` stands for input i, `{"dtype": name}`, `{"memory_format": name}` and `{"layout":
name}` for torch's constants, `{"device": ""}` for the device the node runs on, `{"float": "inf"}`
for a float that JSON cannot hold. `{"generator": i}` is a generator that starts from input i: from
a seed (an integer), or from the state that another op left; the op then leaves its own state as one
more output. Overloads that write into an argument are refused.
"""

import math
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import torch

from tracer.model.graph import Node
from tracer.model.refusal import did_you_mean
from tracer.ops.attention import OF_OTHER_DEVICES
from tracer.ops.dtypes import dtype_name, torch_dtype
from tracer.ops.kernel import Kernel, OpContext, OpDef
from tracer.ops.random import bernoulli, drawing

MEMORY_FORMATS: dict[str, torch.memory_format] = {
    name: getattr(torch, name)
    for name in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
}

#: torch's own bindings of some overloads: the same kernel, half a microsecond less to reach it.
#: What a graph calls a view of a tensor that came from elsewhere may have to be a copy: `reshape`.
QUICK: dict[str, Kernel] = {
    "aten._log_softmax.default": torch._log_softmax,
    "aten._log_softmax_backward_data.default": torch._log_softmax_backward_data,
    "aten._unsafe_view.default": torch.reshape,
    "aten.add.Tensor": torch.add,
    "aten.addmm.default": torch.addmm,
    "aten.bernoulli.p": bernoulli,
    "aten.bmm.default": torch.bmm,
    "aten.cat.default": torch.cat,
    "aten.clone.default": torch.clone,
    "aten.convolution.default": torch.convolution,
    "aten.detach.default": torch.detach,
    "aten.embedding.default": torch.embedding,
    "aten.expand.default": torch.Tensor.expand,
    "aten.mm.default": torch.mm,
    "aten.mul.Tensor": torch.mul,
    "aten.native_layer_norm.default": torch.native_layer_norm,
    "aten.neg.default": torch.neg,
    "aten.ones_like.default": torch.ones_like,
    "aten.relu.default": torch.relu,
    "aten.stack.default": torch.stack,
    "aten.sub.Tensor": torch.sub,
    "aten.sum.dim_IntList": torch.sum,
    "aten.t.default": torch.t,
    "aten.transpose.int": torch.transpose,
    "aten.view.default": torch.reshape,
}

_REFUSED = {
    "from_file",  # reads a path, which a graph off the wire must not name
    *("batch_norm", "cudnn_batch_norm", "instance_norm", "miopen_batch_norm", "native_batch_norm"),
}  #: the norms write running statistics, although their schemas do not say so


@cache
def aten_op(name: str) -> OpDef:
    """The op of `aten.<operator>.<overload>`. Raises LookupError saying why there is none."""
    overload = _overload(name)
    schema = overload._schema
    if schema.is_mutable:
        raise LookupError(f"{name} writes into its arguments; only functional overloads may run")
    kinds = [str(result.type) for result in schema.returns]
    if not kinds or not all(kind in ("Tensor", "List[Tensor]") for kind in kinds):
        raise LookupError(f"{name} returns {kinds}, and a node's outputs must be tensors")
    is_list = kinds == ["List[Tensor]"]
    is_random = torch.Tag.nondeterministic_seeded in overload.tags
    draws = partial(_outputs_with_state, len(kinds)) if is_random else len(kinds)
    return OpDef(
        name,
        lambda node, context: _bind(overload, is_list, node, context),
        num_outputs=_declared_outputs if is_list else draws,
        stateful=is_random,
        is_view=all(result.alias_info is not None for result in schema.returns),
        says=str(schema),
    )


@cache
def is_pointwise(name: str) -> bool:
    """Whether each element of what an op gives comes from those at its place alone."""
    try:
        return torch.Tag.pointwise in _overload(name).tags
    except LookupError:  # no aten op
        return False


def _declared_outputs(node: Node) -> int:
    return int(node.attrs["num_outputs"])


def _outputs_with_state(count: int, node: Node) -> int:
    return count + any(map(_is_generator, node.attrs.get("kwargs", {}).values()))


def _overload(name: str) -> Any:
    parts = name.split(".")
    if len(parts) != 3 or parts[1].startswith("__") or parts[1] in _REFUSED:
        raise LookupError(f"{name!r} may not run; an aten op is named aten.OPERATOR.OVERLOAD")
    packet = getattr(torch.ops.aten, parts[1], None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        hint = did_you_mean(f"aten.{parts[1]}", (f"aten.{known}" for known in dir(torch.ops.aten)))
        raise LookupError(f"torch {torch.__version__} has no operator {parts[1]!r}{hint}")
    allowed: list[str] = packet.overloads()  # type: ignore[no-untyped-call]
    if parts[2] not in allowed:
        raise LookupError(
            f"aten.{parts[1]} has no overload {parts[2]!r}; it has {', '.join(allowed)}"
        )
    return getattr(packet, parts[2])


def _bind(overload: Any, is_list: bool, node: Node, context: OpContext) -> Kernel:
    names = {argument.name for argument in overload._schema.arguments}
    kwargs = dict(node.attrs.get("kwargs", {}))
    if strange := kwargs.keys() - names:
        raise LookupError(
            f"{min(strange)!r} is no argument of {node.op}; it has {', '.join(sorted(names))}"
        )
    if "device" in names and not node.inputs:  # what it makes comes from nowhere else
        kwargs.setdefault("device", {"device": ""})
    op = QUICK.get(node.op, overload._op)
    if context.torch_device.type != "cpu":
        op = OF_OTHER_DEVICES.get(node.op, op)
    if any(map(_is_generator, kwargs.values())):
        op = drawing(op, context.torch_device)
    call = _call(op, node, kwargs, context)
    if is_list and _declared_outputs(node) == 1:
        return lambda *inputs: call(*inputs)[0]
    return call


def _call(op: Kernel, node: Node, kwargs: Mapping[str, Any], context: OpContext) -> Kernel:
    """`op` with its constants in place, as one function of the inputs alone.

    The function is compiled from text made of names of our own and torch's names of arguments; the
    constants are its globals.
    """
    scope: dict[str, Any] = {"op": op}
    inputs: set[int] = set()

    def text(value: Any) -> str:
        if _is_input(value) or _is_generator(value):
            ((_, number),) = value.items()
            if not 0 <= int(number) < len(node.inputs):
                raise LookupError(f"input {number} of {len(node.inputs)} cannot be an argument")
            inputs.add(int(number))
            return f"i{int(number)}"
        if isinstance(value, list | tuple) and any(map(_is_input, value)):
            return f"[{', '.join(map(text, value))}]"
        scope[name := f"c{len(scope)}"] = _constant(value, context)
        return name

    parts = [text(value) for value in node.attrs.get("args", ())]
    if not kwargs and parts == [f"i{i}" for i in range(len(parts))]:
        return op
    parts += [f"{key}={text(value)}" for key, value in kwargs.items()]
    names = ", ".join(f"i{i}" for i in range(max(inputs, default=-1) + 1))
    made: Kernel = eval(f"lambda {names}: op({', '.join(parts)})", scope)
    return made


def _is_input(value: Any) -> bool:
    return isinstance(value, Mapping) and "input" in value


def _is_generator(value: Any) -> bool:
    return isinstance(value, Mapping) and "generator" in value


def _constant(value: Any, context: OpContext) -> Any:
    """A constant as torch takes it; the inverse of `template_of`."""
    if isinstance(value, list | tuple):
        return [_constant(v, context) for v in value]
    if not isinstance(value, Mapping):
        return value
    ((kind, name),) = value.items()
    match kind:
        case "dtype":
            return torch_dtype(name)
        case "memory_format":
            return MEMORY_FORMATS[name]
        case "layout":
            return torch.strided
        case "device":
            return context.torch_device
        case "float":
            return float(name)
    raise LookupError(f"{value} is no constant of an aten call")


def template_of(value: Any) -> Any:
    """A constant argument of a call as JSON. Raises TypeError for what no node can hold."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {"float": str(value)}
        case list() | tuple():
            return [template_of(v) for v in value]
        case torch.dtype():
            return {"dtype": dtype_name(value)}
        case torch.memory_format():
            return {"memory_format": str(value).removeprefix("torch.")}
        case torch.device():
            return {"device": ""}
    if value is torch.strided:
        return {"layout": "strided"}
    raise TypeError(f"a node cannot hold a {type(value).__name__} ({value!r}) as an argument")
