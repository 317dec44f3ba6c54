"""Transfer nodes, and the rendezvous key that a pair of them shares."""

from tracer.model.graph import Node
from tracer.model.step import RendezvousKey

#: the Host forms begin or end in host memory, whatever the device
SENDS = ("_Send", "_HostSend")
RECVS = ("_Recv", "_HostRecv")


def key_of(node: Node) -> RendezvousKey | None:
    """The key of a transfer node in the root frame, None for any other node.

    In a loop its executor puts in the frame and the iteration.
    """
    if node.op not in SENDS + RECVS:
        return None
    attrs = node.attrs
    return RendezvousKey(
        attrs["send_device"],
        attrs.get("send_device_incarnation", 0),
        attrs["recv_device"],
        attrs["tensor_name"],
    )
