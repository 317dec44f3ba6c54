"""Which placer gives nodes their devices, and what it goes by."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tracer.model.cluster import DeviceName
from tracer.model.graph import Graph
from tracer.ops.kernel import OpDef
from tracer.passes.cost_model import Costs
from tracer.passes.cost_placer import place_by_cost, predict_step_ns
from tracer.passes.place import place

PLACERS = ("tf", "cost")


@dataclass(frozen=True, slots=True)
class Placer:
    """`name` is one of PLACERS; `costs` are for `cost`."""

    name: str = PLACERS[0]
    costs: Costs = field(default_factory=Costs)

    def place(
        self,
        graph: Graph,
        devices: Sequence[DeviceName],
        client_device: DeviceName,
        lookup: Callable[[str], OpDef],
    ) -> Graph:
        """Raises PlacementError."""
        if self.name == "cost":
            return place_by_cost(graph, devices, client_device, lookup, self.costs)
        return place(graph, devices, client_device, lookup)

    def predicted_ns(self, placed: Graph) -> int | None:
        """What a step will take; None where no costs were asked."""
        return predict_step_ns(placed, self.costs) if self.name == "cost" else None


BY_RULE = Placer()  #: TF's
