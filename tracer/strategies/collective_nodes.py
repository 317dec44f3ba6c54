"""Nodes of collectives as strategies put them into a graph (TF `cross_device_utils.py`).

    keys = CollectiveKeys()
    group = CollectiveGroup(builder, keys, devices, hint="ring")
    sums = group.all_reduce([gradient_0, gradient_1], of="w")    # an output a rank

A group of devices has a key, and each of its collectives an instance key, counted in the order in
which they are asked for: every worker that builds the same graph comes to the same keys. A rank's
collectives are chained by control edges (TF: an ordering token), so that all ranks issue them in
one order.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tracer.model.graph import Input
from tracer.model.graph_builder import GraphBuilder

FIRST_INSTANCE = 100  #: as in TF


class CollectiveKeys:
    """Those of one graph, or of the graphs that workers build alike."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, ...], int] = {}
        self._instances: dict[int, int] = {}

    def group(self, devices: Sequence[str]) -> int:
        """From 1, in the order in which groups are asked for."""
        return self._groups.setdefault(tuple(devices), len(self._groups) + 1)

    def instance(self, group: int) -> int:
        """A new one of this group."""
        key = self._instances.get(group, FIRST_INSTANCE)
        self._instances[group] = key + 1
        return key


class CollectiveGroup:
    """The ranks of a group that one graph holds.

    `devices` are all ranks' full names in rank order; `ranks` those in this graph (all, if not
    said). `between_graphs`: other graphs hold the others, each run by its own master.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        keys: CollectiveKeys,
        devices: Sequence[str],
        *,
        hint: str = "ring",
        ranks: Sequence[int] | None = None,
        between_graphs: bool = False,
        timeout_s: float = 0.0,
    ) -> None:
        self._builder = builder
        self._keys = keys
        self.devices = tuple(devices)
        self.ranks = tuple(range(len(devices)) if ranks is None else ranks)
        self._key = keys.group(devices)
        self._attrs: dict[str, Any] = {
            "communication_hint": hint,
            "timeout_seconds": timeout_s,
            "group_devices": list(self.devices),
            "is_ordered": True,
            "between_graphs": between_graphs,
        }
        self._before: dict[int, Input] = {}  # a rank's last collective

    def all_reduce(
        self, values: Sequence[Input], *, of: str, final_op: str = "Id", merge_op: str = "Add"
    ) -> list[Input]:
        """The sum of all ranks' values, or their mean (`Div`); one a rank of this graph."""
        attrs = {"of": of, "merge_op": merge_op, "final_op": final_op}
        return self._each(lambda number: ("CollectiveReduceV2", [values[number]], attrs), values)

    def all_gather(self, values: Sequence[Input], *, of: str) -> list[Input]:
        """The rows of all ranks, in rank order; how many each has may differ."""
        attrs = {"of": of}
        return self._each(lambda number: ("CollectiveGatherV2", [values[number]], attrs), values)

    def broadcast(
        self, value: Input | None, shape: Sequence[int], dtype: str, *, of: str, source: int = 0
    ) -> list[Input]:
        """The value of rank `source`; that is None where this graph does not hold the rank."""
        attrs = {"of": of, "T": dtype, "source": source}

        def node(number: int) -> tuple[str, list[Input], dict[str, Any]]:
            if self.ranks[number] != source:
                return "CollectiveBcastRecvV2", [], attrs | {"shape": list(shape)}
            if value is None:
                raise ValueError(f"rank {source} broadcasts {of!r} and has no value for it")
            return "CollectiveBcastSendV2", [value], attrs

        return self._each(node, self.ranks)

    def _each(
        self,
        node: Callable[[int], tuple[str, list[Input], dict[str, Any]]],
        values: Sequence[object],
    ) -> list[Input]:
        if len(values) != len(self.ranks):
            raise ValueError(
                f"{len(values)} values for {len(self.ranks)} ranks ({self.ranks}); give one a rank"
            )
        instance = self._keys.instance(self._key)
        return [self._node(rank, instance, *node(number)) for number, rank in enumerate(self.ranks)]

    def _node(
        self, rank: int, instance: int, op: str, given: list[Input], attrs: dict[str, Any]
    ) -> Input:
        b, attrs = self._builder, dict(attrs)
        shape = attrs.pop("shape", None)
        with b.device(self.devices[rank]):
            inputs = [
                *given,
                b.const(len(self.devices), "int32", name=f"{op}/group_size"),
                b.const(self._key, "int32", name=f"{op}/group_key"),
                b.const(instance, "int32", name=f"{op}/instance_key"),
            ]
            if shape is not None:
                inputs.append(b.const(shape, "int32", name=f"{op}/shape"))
            if "T" not in attrs:
                attrs["T"] = b.dtype_of(given[0])
            before = [self._before[rank]] if rank in self._before else []
            made = b.op(op, *inputs, control_inputs=before, **attrs, **self._attrs)
        self._before[rank] = made
        return made
