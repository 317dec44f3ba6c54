"""Requests that spread variables over parameter servers (TF `device_setter.py`)."""

from collections.abc import Callable
from itertools import cycle

from tracer.model.cluster import ClusterSpec, DeviceSpec
from tracer.model.graph import HANDLES, Node


def replica_device_setter(cluster: ClusterSpec, worker_device: str) -> Callable[[Node], str]:
    """Gives each node the device to ask for: variables take turns over the ps tasks.

    Turns count variables, not bytes, and go on from one graph to the next. What a node asks for
    itself wins. A node colocated with another asks for nothing: it follows (TF's `colocate_with`
    hides the device scopes). Without a ps, nodes keep their requests.
    """
    servers = [DeviceSpec("ps", index) for index in sorted(cluster.jobs.get("ps", ()))]
    turns = cycle(servers)
    worker = DeviceSpec.parse(worker_device)

    def device_of(node: Node) -> str:
        asked = DeviceSpec.parse(node.requested_device)
        if not servers or set(node.colocated_with) - {node.name}:
            return node.requested_device
        if node.op not in HANDLES:
            return str(asked.merged_over(worker))
        return str(asked.merged_over(next(turns)) if asked.job in (None, "ps") else asked)

    return device_of
