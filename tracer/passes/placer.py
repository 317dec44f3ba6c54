"""Which placer gives nodes their devices, and what it goes by."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tracer.model.cluster import DeviceName
from tracer.model.graph import Graph
from tracer.ops.kernel import OpDef
from tracer.passes.cost_model import Costs
from tracer.passes.cost_placer import place_by_cost, predict_step_ns
from tracer.passes.place import place

PLACERS = ("tf", "cost")


@dataclass(frozen=True, slots=True)
class Placer:
    """`name` is one of PLACERS. Without `costs`, `cost` goes by estimates alone.

    `soft`: a node whose device is not there goes elsewhere in the task that it asks for.
    """

    name: str = PLACERS[0]
    costs: Costs | None = None
    soft: bool = False

    def place(
        self,
        graph: Graph,
        devices: Sequence[DeviceName],
        client_device: DeviceName,
        lookup: Callable[[str], OpDef],
    ) -> Graph:
        """Raises PlacementError."""
        if self.name == "cost":
            costs = self.costs or Costs()
            return place_by_cost(graph, devices, client_device, lookup, costs, soft=self.soft)
        return place(graph, devices, client_device, lookup, soft=self.soft)

    def predicted_ns(self, placed: Graph) -> int | None:
        """What a step will take; None where nobody asked for costs."""
        if self.name != "cost" and self.costs is None:
            return None
        return predict_step_ns(placed, self.costs or Costs())


BY_RULE = Placer()  #: TF's
