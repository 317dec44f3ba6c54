"""Collectives: every rank of a group brings a tensor and gets what they make of all.

After TF `collective_ops.cc`. The kernels read attributes and keys; the runtime behind
`OpContext.collectives` does the rest. Inputs are those of TF's V2 ops: what is brought, group size,
group key, instance key, then perhaps ordering tokens, which only order.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tracer.model.collective import FINAL_OPS, HINTS, MERGE_OPS, TIMEOUT_S, Collective, Kind
from tracer.model.graph import Node, TensorSpec
from tracer.ops.dtypes import torch_dtype
from tracer.ops.kernel import AsyncKernel, Cancel, OpContext, OpDef, OpError, StepDone
from tracer.ops.shapes import Specs, same

Tensor = torch.Tensor


def collective_of(node: Node, context: OpContext, kind: Kind) -> Collective:
    """What the node's attributes ask for. Raises OpError where they cannot be served."""
    attrs, device = node.attrs, str(context.device)
    devices = tuple(attrs.get("group_devices", ()))
    if device not in devices:
        raise OpError(
            "INVALID_ARGUMENT",
            f"{node.name} is on {device}, which is not among its group_devices "
            f"({', '.join(devices) or 'none given'}); list every rank's device, in rank order",
        )
    hint = _one_of(node, "communication_hint", HINTS, "auto")
    return Collective(
        kind,
        node.name,
        devices,
        devices.index(device),
        str(attrs.get("of", "")),
        _one_of(node, "merge_op", MERGE_OPS, "Add"),
        _one_of(node, "final_op", FINAL_OPS, "Id"),
        _algorithm(kind, "native" if context.collectives.is_native else hint),
        bool(attrs.get("is_ordered")),
        bool(attrs.get("between_graphs")),
        float(attrs.get("timeout_seconds", 0)) or TIMEOUT_S,
        int(attrs.get("source", 0)) if kind == "broadcast" else -1,
    )


def _algorithm(kind: Kind, hint: str) -> str:
    """What runs: a hint chooses among ways to reduce; a gather and a broadcast have one each."""
    if hint == "native":
        return hint
    return {"all_gather": "ring", "broadcast": "tree"}.get(
        kind, "tree" if hint == "tree" else "ring"
    )


def _one_of(node: Node, name: str, allowed: tuple[str, ...], default: str) -> str:
    value = node.attrs.get(name, default)
    if value not in allowed:
        raise OpError(
            "INVALID_ARGUMENT", f"{node.name}: {name} is {value!r}; it is one of {allowed}"
        )
    return str(value)


def _bind_input(kind: Kind, node: Node, context: OpContext) -> AsyncKernel:
    """Of a rank that brings something."""
    collective = collective_of(node, context, kind)
    if kind == "broadcast":
        _check_source(collective, gives=True)
    join = context.collectives.rank(collective)

    def kernel(done: StepDone, x: Tensor, size: Tensor, group: Tensor, key: Tensor, *_: Any) -> Any:
        _check_size(collective, int(size))
        return join(done, x, int(group), int(key))

    return kernel


def _bind_recv(node: Node, context: OpContext) -> AsyncKernel:
    """Of a rank that only gets, which brings memory of the right form."""
    collective = collective_of(node, context, "broadcast")
    _check_source(collective, gives=False)
    join, dtype = context.collectives.rank(collective), torch_dtype(node.attrs["T"])

    def kernel(done: StepDone, size: Tensor, group: Tensor, key: Tensor, shape: Tensor) -> Cancel:
        _check_size(collective, int(size))
        memory = torch.empty(shape.tolist(), dtype=dtype)
        return join(done, memory, int(group), int(key))

    return kernel


def _check_source(collective: Collective, *, gives: bool) -> None:
    """One rank gives and all others get, else memory that nobody wrote would be a value."""
    node, rank, source = collective.node, collective.rank, collective.source
    if not 0 <= source < len(collective.devices):
        raise OpError(
            "INVALID_ARGUMENT",
            f"{node} has source {source}; it is a rank, 0 to {len(collective.devices) - 1}",
        )
    if gives != (rank == source):
        does, op = ("gives", "Recv") if gives else ("gets", "Send")
        raise OpError(
            "INVALID_ARGUMENT",
            f"{node} of rank {rank} {does}, and rank {source} is the source; use "
            f"CollectiveBcast{op}V2",
        )


def _check_size(collective: Collective, size: int) -> None:
    if size != len(collective.devices):
        raise OpError(
            "INVALID_ARGUMENT",
            f"{collective.node} has group_size {size} and {len(collective.devices)} group_devices; "
            "they must be as many",
        )


def _gathered(_node: Node, _inputs: list[Any]) -> Specs:
    """How many rows there will be is known once all ranks are there."""
    return ()


def _received(node: Node, inputs: list[Any]) -> Specs:
    shape = inputs[3]
    known = isinstance(shape, Tensor) and not shape.is_meta
    return (TensorSpec(node.attrs["T"], tuple(shape.tolist())),) if known else ()


def _op(name: str, bind: Callable[..., AsyncKernel], infer: Any, says: str) -> OpDef:
    return OpDef(
        name,
        bind,
        infer=infer,
        stateful=True,
        is_async=True,
        host_inputs=(0, 1, 2, 3),
        host_outputs=(0,),
        says=says,
    )


OPS: tuple[OpDef, ...] = (
    _op(
        "CollectiveReduceV2",
        partial(_bind_input, "all_reduce"),
        same,
        "Every rank gets the sum of what all bring (`merge_op`), perhaps divided (`final_op`).",
    ),
    _op(
        "CollectiveGatherV2",
        partial(_bind_input, "all_gather"),
        _gathered,
        "Every rank gets the rows of all, in rank order.",
    ),
    _op(
        "CollectiveBcastSendV2",
        partial(_bind_input, "broadcast"),
        same,
        "The rank `source` gives its tensor to all others.",
    ),
    _op("CollectiveBcastRecvV2", _bind_recv, _received, "Gets what another rank broadcasts."),
)
