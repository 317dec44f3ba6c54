"""Why no device will do for a node, or for nodes that must share one.

The text says who asks for what, where in the user's code, what there is, and whose request it is
that cannot be met beside the others.
"""

import difflib
from collections.abc import Iterable, Sequence

from tracer.model.cluster import DeviceName
from tracer.model.graph import GraphError, Node

_MOST = 8  #: members of a group that are named


class PlacementError(GraphError):
    """A device request that cannot be met."""


def no_such_device(node: Node, devices: Iterable[DeviceName]) -> PlacementError:
    """The request is well-formed, but there is nothing of this name."""
    names = _names(devices)
    near = difflib.get_close_matches(node.requested_device, names, n=1, cutoff=0.3)
    return PlacementError(
        f"{cannot_assign(node)}: it was explicitly assigned to {node.requested_device} but "
        f"available devices are [ {', '.join(names)} ]. Make sure the device specification refers "
        f"to a valid device{f'; near is {near[0]}' if near else ''}."
    )


def no_kernel(
    node: Node, types: Iterable[str], group: Sequence[Node], devices: Iterable[DeviceName]
) -> PlacementError:
    """The op runs on other types of devices than the group asks for."""
    return PlacementError(
        f"{cannot_assign(node)}: {node.op} has a kernel for {' and '.join(sorted(types))} only"
        f"{_among(group, node, devices)}"
    )


def no_common_device(
    node: Node, before: Node, group: Sequence[Node], devices: Iterable[DeviceName]
) -> PlacementError:
    """Members of the group up to `before` have a device, but none that `node` may have too."""
    return PlacementError(
        f"Cannot colocate nodes {before.name!r} and {node.name!r}: they share a colocation group, "
        f"but ask for {before.requested_device} and {node.requested_device}; ask for one device, "
        f"or for none{_among(group, node, devices)}"
    )


def cannot_assign(node: Node) -> str:
    return f"Cannot assign a device for operation {node.name}{_line(node)}"


def _among(group: Sequence[Node], blocking: Node, devices: Iterable[DeviceName]) -> str:
    """The group, and who in it blocks."""
    members = [
        f"{node.name} ({node.op}{_line(node)}) asks for {node.requested_device or 'nothing'}"
        f"{' and blocks' if node is blocking else ''}"
        for node in group
    ]
    if len(members) > _MOST:
        at = group.index(blocking)
        kept = {*range(_MOST - 1), at}
        members = [text for i, text in enumerate(members) if i in kept]
        members.append(f"{len(group) - len(kept)} more")
    return (
        f". The group: {'; '.join(members)}. Available devices are [ {', '.join(_names(devices))} ]"
    )


def _names(devices: Iterable[DeviceName]) -> list[str]:
    return sorted(map(str, devices))


def _line(node: Node) -> str:
    return f" ({node.source})" if node.source else ""
