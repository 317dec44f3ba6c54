"""Transfer nodes, and the rendezvous key that a pair of them shares."""

from tracer.model.graph import Node
from tracer.model.step import RendezvousKey

SENDS = (
    "_Send",
    "_HostSend",
)  #: the Host forms carry what lives in host memory on any device: strings
RECVS = ("_Recv", "_HostRecv")


def key_of(node: Node) -> RendezvousKey | None:
    """The key of a transfer node outside loops, None for any other node."""
    if node.op not in SENDS + RECVS:
        return None
    attrs = node.attrs
    return RendezvousKey(
        attrs["send_device"],
        attrs.get("send_device_incarnation", 0),
        attrs["recv_device"],
        attrs["tensor_name"],
    )
