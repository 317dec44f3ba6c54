"""How tensors of all replicas become one sum on each of them (TF `cross_device_ops.py`).

    reduce_to_one      r1 ─►┐                          every tensor to one device, summed there, and
                       r2 ─►AddN@r0 ─► r0, r1, r2      back: (n-1)·S in, (n-1)·S out of that device
    hierarchical_copy  two groups sum on a device each, those two on one of them; and back. Which
                       devices take turns from tensor to tensor, so none carries all of it
    ring, tree         a CollectiveReduceV2 a replica: chunks go around, 2·(n-1)/n·S each

Many small tensors cost more than their bytes: `packed` sums a few long ones instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from tracer.model.graph import Input, TensorSpec
from tracer.model.graph_builder import GraphBuilder
from tracer.model.option import Option, Value
from tracer.strategies.collective_nodes import CollectiveGroup, CollectiveKeys

Tensors = Sequence[Input]  # one a replica

STANDS_FOR = "_stands_for"  #: of a zero of a replica without rows: the node that others have there


class CrossDeviceOps(Protocol):
    def batch_reduce(
        self, builder: GraphBuilder, tensors: Sequence[Tensors], devices: Sequence[str]
    ) -> list[list[Input]]:
        """The sum of each of `tensors`, on each of `devices`.

        `devices[i]` is where `tensors[…][i]` is, or they are other devices than the replicas'.
        """
        ...

    def num_summed(self, replicas: int) -> int:
        """Of how many values each such sum is, for a graph of so many replicas."""
        ...


@dataclass(frozen=True, slots=True)
class ReductionToOneDevice:
    """`reduce_to`: the device that sums; empty: the first of the destinations."""

    reduce_to: str = ""

    def batch_reduce(
        self, builder: GraphBuilder, tensors: Sequence[Tensors], devices: Sequence[str]
    ) -> list[list[Input]]:
        at = self.reduce_to or devices[0]
        return [_mirrored(builder, _add(builder, each, at), devices) for each in tensors]

    def num_summed(self, replicas: int) -> int:
        return replicas


@dataclass(frozen=True, slots=True)
class HierarchicalCopy:
    """Two groups of devices, as on a DGX-1; of an odd number the first group has one less."""

    num_packs: int = 1

    def batch_reduce(
        self, builder: GraphBuilder, tensors: Sequence[Tensors], devices: Sequence[str]
    ) -> list[list[Input]]:
        if len(devices) != len(tensors[0]) or len(devices) == 1:
            return ReductionToOneDevice().batch_reduce(builder, tensors, devices)
        if not self.num_packs:
            return [
                self._reduce(builder, number, each, devices) for number, each in enumerate(tensors)
            ]
        sums: list[list[Input]] = [[] for _ in tensors]
        specs = [_spec(builder, each[0]) for each in tensors]
        for alike in of_one_dtype(specs):
            made = self._packed(builder, [tensors[number] for number in alike], devices)
            for number, each in zip(alike, made, strict=True):
                sums[number] = each
        return sums

    def _packed(
        self, builder: GraphBuilder, tensors: Sequence[Tensors], devices: Sequence[str]
    ) -> list[list[Input]]:
        packs = Packs(builder, tensors, devices, self.num_packs)
        sums = [self._reduce(builder, *pack, devices) for pack in enumerate(packs.packs)]
        return packs.unpacked(sums)

    def num_summed(self, replicas: int) -> int:
        return replicas

    def _reduce(
        self, builder: GraphBuilder, number: int, tensors: Tensors, devices: Sequence[str]
    ) -> list[Input]:
        """`number` says whose turn it is to sum."""
        count = len(devices)
        half = count // 2
        first = number % count
        other = (first + half) % count
        is_low = first < half
        groups = (tensors[:half], tensors[half:])
        own, others = groups if is_low else groups[::-1]
        roots = devices[first], devices[other]
        parts = [_add(builder, group, at) for group, at in zip((own, others), roots, strict=True)]
        total = _add(builder, parts, roots[0])
        near, far = (_identity(builder, total, at) for at in roots)
        return [
            _identity(builder, near if (place < half) == is_low else far, device)
            for place, device in enumerate(devices)
        ]


class Packs:
    """Tensors of each replica end to end, cut in a few packs of about one size, and back again.

    They are all of one dtype. One pack is not cut out of the whole, as there is nothing to cut.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        tensors: Sequence[Tensors],
        devices: Sequence[str],
        num_packs: int,
    ) -> None:
        self._builder = builder
        self._devices = devices
        self._specs = [_spec(builder, each[0]) for each in tensors]
        whole = sum(map(_elements, self._specs))
        num_packs = max(1, min(num_packs, whole))
        size = whole // num_packs
        self._cuts = [*[size] * (num_packs - 1), whole - size * (num_packs - 1)]
        by_replica = [
            self._cut(joined(builder, own, device), device)
            for own, device in zip(zip(*tensors, strict=True), devices, strict=True)
        ]
        self.packs: list[list[Input]] = [list(each) for each in zip(*by_replica, strict=True)]

    def _cut(self, whole: Input, device: str) -> list[Input]:
        if len(self._cuts) == 1:
            return [whole]
        return split(self._builder, whole, self._cuts, device)

    def unpacked(self, sums: Sequence[Tensors]) -> list[list[Input]]:
        by_replica = [
            cut_up(self._builder, _concat(self._builder, own, device), self._specs, device)
            for own, device in zip(zip(*sums, strict=True), self._devices, strict=True)
        ]
        return [list(each) for each in zip(*by_replica, strict=True)]


def of_one_dtype(specs: Sequence[TensorSpec]) -> list[list[int]]:
    """The tensors of each dtype, by their numbers: one long tensor cannot hold two."""
    groups: dict[str, list[int]] = {}
    for number, spec in enumerate(specs):
        groups.setdefault(spec.dtype, []).append(number)
    return list(groups.values())


def groups_by_size(specs: Sequence[TensorSpec], bytes_per_pack: int) -> list[list[int]]:
    """Which tensors share a pack: those of one dtype, until it has more than `bytes_per_pack`.

    The last tensors come first, since their gradients are there first. 0: without a bound.
    """
    packs: list[list[int]] = []
    last = 0
    for number in reversed(range(len(specs))):
        is_full = bool(bytes_per_pack) and last > bytes_per_pack
        if not packs or is_full or specs[packs[-1][0]].dtype != specs[number].dtype:
            packs.append([])
            last = 0
        packs[-1].append(number)
        last += specs[number].num_bytes
    return packs


def joined(builder: GraphBuilder, tensors: Tensors, device: str) -> Input:
    """Flat, end to end."""
    flat = [_flat(builder, tensor, device) for tensor in tensors]
    return _concat(builder, flat, device)


def cut_up(
    builder: GraphBuilder, whole: Input, specs: Sequence[TensorSpec], device: str
) -> list[Input]:
    """The inverse of `joined`."""
    parts = split(builder, whole, [_elements(spec) for spec in specs], device)
    return [reshape(builder, *pair, device) for pair in zip(parts, specs, strict=True)]


def split(builder: GraphBuilder, whole: Input, sizes: Sequence[int], device: str) -> list[Input]:
    dtype = _spec(builder, whole).dtype
    with builder.device(device):
        cuts = builder.const(list(sizes), "int32", name="split/sizes")
        axis = builder.const(0, "int32", name="split/axis")
        specs = [TensorSpec(dtype, (size,)) for size in sizes]
        attrs: dict[str, Any] = {"T": dtype, "num_split": len(sizes)}
        part = builder.op("SplitV", whole, cuts, axis, name="split", specs=specs, **attrs)
    return [part._replace(port=port) for port in range(len(sizes))]


def reshape(builder: GraphBuilder, tensor: Input, spec: TensorSpec, device: str) -> Input:
    with builder.device(device):
        shape = builder.const(list(spec.shape), "int32", name="Reshape/shape")
        return builder.op("Reshape", tensor, shape, name="Reshape", specs=[spec], T=spec.dtype)


def _flat(builder: GraphBuilder, tensor: Input, device: str) -> Input:
    spec = _spec(builder, tensor)
    return reshape(builder, tensor, TensorSpec(spec.dtype, (_elements(spec),)), device)


def _concat(builder: GraphBuilder, tensors: Tensors, device: str) -> Input:
    specs = [_spec(builder, tensor) for tensor in tensors]
    if len(tensors) == 1:
        return _identity(builder, tensors[0], device)
    whole = TensorSpec(specs[0].dtype, (sum(spec.shape[0] for spec in specs),))
    with builder.device(device):
        axis = builder.const(0, "int32", name="concat/axis")
        attrs: dict[str, Any] = {"T": whole.dtype, "N": len(tensors)}
        return builder.op("ConcatV2", *tensors, axis, name="concat", specs=[whole], **attrs)


def _add(builder: GraphBuilder, tensors: Tensors, device: str) -> Input:
    """Left to right, in the order of the replicas: the same bits whoever computes it."""
    if len(tensors) == 1:
        return tensors[0]
    spec = _spec(builder, tensors[0])
    with builder.device(device):
        attrs: dict[str, Any] = {"T": spec.dtype, "N": len(tensors)}
        return builder.op("AddN", *tensors, name="AddN", specs=[spec], **attrs)


def _mirrored(builder: GraphBuilder, value: Input, devices: Sequence[str]) -> list[Input]:
    return [_identity(builder, value, device) for device in devices]


def _identity(
    builder: GraphBuilder, value: Input, device: str, after: Sequence[Input] = ()
) -> Input:
    spec = _spec(builder, value)
    with builder.device(device):
        return builder.op(
            "Identity", value, name="Identity", control_inputs=after, specs=[spec], T=spec.dtype
        )


def _spec(builder: GraphBuilder, value: Input) -> TensorSpec:
    return builder[value.node].specs[value.port]


def _elements(spec: TensorSpec) -> int:
    count = 1
    for size in spec.shape:
        count *= size
    return count


class CollectiveAllReduce:
    """A collective for each pack of tensors; `devices` are all ranks', `ranks` those of this graph.

    A pack is closed once it has more than `bytes_per_pack`; 0: one for all. Every replica asks for
    the same collectives in the same order.
    """

    def __init__(
        self,
        devices: Sequence[str],
        *,
        hint: str = "ring",
        bytes_per_pack: int = 0,
        keys: CollectiveKeys | None = None,
        ranks: Sequence[int] | None = None,
        between_graphs: bool = False,
    ) -> None:
        self._bytes_per_pack = bytes_per_pack
        self._devices, self._between_graphs = tuple(devices), between_graphs
        self._own = [devices[rank] for rank in (range(len(devices)) if ranks is None else ranks)]
        self._make_group = partial(
            CollectiveGroup,
            keys=keys or CollectiveKeys(),
            devices=devices,
            hint=hint,
            ranks=ranks,
            between_graphs=between_graphs,
        )
        self._group: CollectiveGroup | None = None

    def batch_reduce(
        self, builder: GraphBuilder, tensors: Sequence[Tensors], devices: Sequence[str]
    ) -> list[list[Input]]:
        """Where the sums go to other devices than the ranks', one device adds up instead.

        It cannot where other graphs hold ranks: then all ranks meet, also those whose sums nobody
        needs, and the sums of the first rank here are copied.
        """
        if list(devices) == self._own:
            return self._reduce(builder, tensors)
        if not self._between_graphs:
            return ReductionToOneDevice().batch_reduce(builder, tensors, devices)
        return [
            [_identity(builder, own, device, others) for device in devices]
            for own, *others in self._reduce(builder, tensors)
        ]

    def num_summed(self, replicas: int) -> int:
        """All ranks', also of those that other graphs hold."""
        del replicas
        return len(self._devices)

    def _reduce(self, builder: GraphBuilder, tensors: Sequence[Tensors]) -> list[list[Input]]:
        specs = [_spec(builder, each[0]) for each in tensors]
        sums: list[list[Input]] = [[] for _ in tensors]
        for pack in groups_by_size(specs, self._bytes_per_pack):
            made = self._reduce_pack(builder, [tensors[number] for number in pack])
            for number, each in zip(pack, made, strict=True):
                sums[number] = each
        return sums

    def _reduce_pack(self, builder: GraphBuilder, tensors: Sequence[Tensors]) -> list[list[Input]]:
        if self._group is None:
            self._group = self._make_group(builder)
        specs = [_spec(builder, each[0]) for each in tensors]
        wholes = [
            joined(builder, own, device)
            for own, device in zip(zip(*tensors, strict=True), self._own, strict=True)
        ]
        reduced = self._group.all_reduce(wholes, of=_named(builder, tensors))
        by_replica = []
        for whole, summed, device in zip(wholes, reduced, self._own, strict=True):
            builder.replace(summed.node, specs=(_spec(builder, whole),))
            by_replica.append(cut_up(builder, summed, specs, device))
        return [list(each) for each in zip(*by_replica, strict=True)]


def _named(builder: GraphBuilder, tensors: Sequence[Tensors]) -> str:
    """What is summed, by what the first replica calls it; other graphs' ranks say the same."""
    names = [each[0].node for each in tensors]
    return ", ".join(str(builder[name].attrs.get(STANDS_FOR, name)) for name in names)


RING, TREE, REDUCE_TO_ONE, HIERARCHICAL = "ring", "tree", "reduce_to_one", "hierarchical_copy"

OPTIONS: Mapping[str, Option] = {
    "cross_device_ops": Option(
        RING,
        "how gradients of all replicas are summed",
        (RING, TREE, REDUCE_TO_ONE, HIERARCHICAL),
    ),
    "num_packs": Option(
        1, "hierarchical_copy: long tensors summed in place of all gradients; 0: none", least=0
    ),
    "bytes_per_pack": Option(
        0, "ring, tree: a collective takes no more gradients beyond so many bytes; 0: all", least=0
    ),
}


def cross_device_from(options: Mapping[str, Value], devices: Sequence[str]) -> CrossDeviceOps:
    """What OPTIONS ask for, over one graph that holds all of `devices`."""
    kind = options.get("cross_device_ops", RING)
    if kind == HIERARCHICAL:
        return HierarchicalCopy(int(options.get("num_packs", 1)))
    if kind == REDUCE_TO_ONE or len(devices) == 1:
        return ReductionToOneDevice()
    pack_bytes = int(options.get("bytes_per_pack", 0))
    return CollectiveAllReduce(devices, hint=str(kind), bytes_per_pack=pack_bytes)
