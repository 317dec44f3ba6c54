"""Nodes where a tensor leaves or enters a partition: no kernels, the executor runs them."""

from typing import NoReturn

from tracer.model.graph import Node
from tracer.ops.kernel import OpContext, OpDef, OpError


def _bind(node: Node, _context: OpContext) -> NoReturn:
    raise OpError(
        "INTERNAL", f"{node.op} node {node.name!r} has no kernel; its executor must run it itself"
    )


OPS: tuple[OpDef, ...] = (
    *(OpDef(n, _bind, num_outputs=0, is_transfer=True) for n in ("_Send", "_HostSend", "_Retval")),
    *(OpDef(n, _bind, is_transfer=True) for n in ("_Recv", "_HostRecv", "_Arg")),
)
