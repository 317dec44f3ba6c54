"""OneDeviceStrategy: everything on one device of one task (TF `one_device_strategy.py`).

    worker:0 (/job:localhost)
      GPU:0 or CPU:0   variables · forward · backward · update

No tensor crosses a device, no message leaves the process; this is the step that every other
strategy is compared with. The task runs its own client loop over a DirectSession.
"""

from collections.abc import Iterator, Mapping, Sequence

from tracer.capture_graph.capture import CapturedStep
from tracer.model.cluster import LOCALHOST, ClusterSpec, TaskName
from tracer.model.graph import Graph
from tracer.model.option import Option
from tracer.strategies.distributed_step import DistributedStep
from tracer.strategies.distribution import Building
from tracer.strategies.inputs.prefetch import PREFETCH
from tracer.strategies.inputs.step_input import StepInput
from tracer.strategies.strategy import (
    DatasetOf,
    Role,
    Site,
    Strategy,
    Topology,
    function_inputs,
    local_cluster,
    local_devices,
    of_task,
)


class OneDevice(Strategy):
    name = "one_device"
    says = "One task, one device: no transfers. The step the others are compared with."
    options: Mapping[str, Option] = PREFETCH
    is_local = True

    def cluster(self, topology: Topology) -> ClusterSpec:
        return local_cluster(topology, self.name)

    def devices(self, task: TaskName, topology: Topology) -> tuple[str, ...]:
        del task
        return local_devices(topology)

    def role(self, task: TaskName, cluster: ClusterSpec) -> Role:
        del task, cluster
        return Role(is_client=True, is_chief=True)

    def inputs(self, dataset_of: DatasetOf, site: Site) -> Iterator[StepInput]:
        return function_inputs(dataset_of, self.role(site.task, site.cluster))

    def build(
        self,
        steps: Sequence[CapturedStep | None],
        shares: Sequence[float],
        site: Site,
        building: Building,
    ) -> DistributedStep:
        del shares, building
        (step,) = steps
        assert step is not None, "a step without rows is left out"
        device = of_task(TaskName(LOCALHOST, site.task.index))
        graph = Graph(node.with_(requested_device=device) for node in step.graph.nodes)
        return DistributedStep.alone(step, graph)
