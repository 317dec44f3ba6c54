"""Which devices a node may go to: those that it asks for, and that have a kernel for its op.

Nodes that must stay together may go where all of them may (whitepaper §3.2.1, §4.3). Under *soft
placement* a request that nothing meets asks for its task only (TF `colocation_graph.cc`).
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from tracer.model.cluster import DeviceName, DeviceSpec
from tracer.model.graph import Node
from tracer.ops.kernel import OpDef
from tracer.passes.placement_error import (
    PlacementError,
    cannot_assign,
    no_common_device,
    no_kernel,
    no_such_device,
)

_TYPE_ORDER = {"GPU": 0, "CPU": 1}  # a request that leaves the type open takes the faster one
_ANY = DeviceSpec()


class Wish(NamedTuple):
    """A request, and the types of devices that have a kernel; without types all have."""

    request: DeviceSpec = _ANY
    types: frozenset[str] | None = None

    def beside(self, other: "Wish") -> "Wish | None":
        """Both at once; None if the requests contradict each other."""
        request = self.request.merged_over(other.request)
        if request != other.request.merged_over(self.request):
            return None
        return Wish(request, self._types_with(other))

    def giving_way_to(self, other: "Wish") -> "Wish":
        """Where the other's request goes, if this one has a kernel there."""
        return Wish(other.request, self._types_with(other))

    def softened(self) -> "Wish":
        """On any device of the same task."""
        return Wish(DeviceSpec(self.request.job, self.request.task), self.types)

    def _types_with(self, other: "Wish") -> frozenset[str] | None:
        if self.types is None or other.types is None:
            return other.types if self.types is None else self.types
        return self.types & other.types

    def is_met_by(self, device: DeviceName) -> bool:
        return self.request.matches(device) and (self.types is None or device.type in self.types)


class Feasible:
    """Remembers answers, since few wishes serve many nodes."""

    def __init__(
        self,
        devices: Sequence[DeviceName],
        client_device: DeviceName,
        lookup: Callable[[str], OpDef],
        *,
        soft: bool = False,
    ) -> None:
        def rank(device: DeviceName) -> tuple[int, bool, DeviceName]:
            is_far = device.task_name != client_device.task_name
            return _TYPE_ORDER.get(device.type, 2), is_far, device

        self._ranked = sorted(devices, key=rank)
        self._client = client_device
        self._lookup = lookup
        self._is_soft = soft
        self._asked: dict[tuple[str, str], Wish] = {}
        self._wishes: dict[tuple[str, str], Wish] = {}
        self._devices: dict[Wish, tuple[DeviceName, ...]] = {}

    def devices(self, wish: Wish) -> tuple[DeviceName, ...]:
        """Those that meet it, the preferred one first: a GPU before a CPU, near before far."""
        if wish not in self._devices:
            self._devices[wish] = tuple(d for d in self._ranked if wish.is_met_by(d))
        return self._devices[wish]

    def preferred(self, wish: Wish) -> DeviceName:
        """The first that meets it; what asks for nothing stays in the client's task."""
        devices = self.devices(wish)
        if wish.request == _ANY:
            near = (device for device in devices if device.task_name == self._client.task_name)
            return next((d for d in near if d.type == "GPU"), self._client)
        return devices[0]

    def wish(self, node: Node) -> Wish:
        """What it asks for, softened if need be. Raises PlacementError if it cannot be read."""
        key = node.requested_device, node.op
        if key not in self._wishes:
            self._wishes[key] = self._soften(self.asked(node))
        return self._wishes[key]

    def asked(self, node: Node) -> Wish:
        """In its own words, met or not. Raises PlacementError if they cannot be read."""
        key = node.requested_device, node.op
        if key not in self._asked:
            try:
                request = DeviceSpec.parse(node.requested_device)
            except ValueError as error:
                raise PlacementError(f"{cannot_assign(node)}: {error}") from None
            self._asked[key] = Wish(request, self._types(node))
        return self._asked[key]

    def _soften(self, wish: Wish) -> Wish:
        """The same if a device meets it, or if none of its task could."""
        if not self._is_soft or self.devices(wish) or not self.devices(wish.softened()):
            return wish
        return wish.softened()

    def _types(self, node: Node) -> frozenset[str] | None:
        """None for an op that nobody knows, too: whoever runs it will say so."""
        try:
            types = self._lookup(node.op).device_types
        except LookupError:
            return None
        return frozenset(types) or None

    def of_group(self, group: Sequence[Node], followers: AbstractSet[str]) -> Wish:
        """What all members ask together; a follower of a variable gives way to it.

        Raises PlacementError naming the first member that cannot be met beside the others.
        """
        shared, first = Wish(), group[0]
        for node in group:
            own = self.wish(node)
            if not self.devices(Wish(own.request)):
                raise no_such_device(node, self._ranked)
            both = self._together(own, shared, follows=node.name in followers)
            if both is None or not self.devices(Wish(both.request)):
                raise no_common_device(node, first, group, self._ranked)
            if not self.devices(both):
                narrow = next(n for n in group if self.wish(n).types is not None)
                raise no_kernel(narrow, self.wish(narrow).types or (), group, self._ranked)
            first = node if shared.request == _ANY else first
            shared = both
        return shared

    def _together(self, own: Wish, shared: Wish, *, follows: bool) -> Wish | None:
        """Both at once, the one that follows giving way; None if they contradict each other."""
        both = own.beside(shared)
        if follows and not (both and self.devices(both)):
            both = own.giving_way_to(shared)
        if both is None and self._is_soft:
            both = own.softened().beside(shared.softened())
        return both and self._soften(both)
