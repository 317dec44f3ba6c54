"""MirroredStrategy: a copy of everything on each device of one task (TF `mirrored_strategy.py`).

    worker:0 (/job:localhost)
      CPU:0   v            rows 0…31   forward · backward ─┐           ┌─► v            updated
      CPU:1   v/replica_1  rows 32…63  forward · backward ─┴► Σ, meet ─┴─► v/replica_1  updated

Each replica takes its rows of the global batch. Gradients meet in every step, and every copy takes
the same sum, so copies stay equal bit by bit. The task runs its own client loop over a
DirectSession, and the step is one graph: no thread a replica, only devices side by side.
"""

from collections.abc import Iterator, Mapping, Sequence

from tracer.capture_graph.capture import CapturedStep
from tracer.model.cluster import LOCALHOST, ClusterSpec, TaskName
from tracer.model.graph_builder import GraphBuilder
from tracer.model.option import Option
from tracer.strategies.cross_device import OPTIONS, cross_device_from
from tracer.strategies.distributed_step import DistributedStep
from tracer.strategies.distribution import Building, Distribution
from tracer.strategies.inputs.step_input import StepInput
from tracer.strategies.step_builder import StepBuilder
from tracer.strategies.strategy import (
    SHARED_INPUTS,
    DatasetOf,
    Role,
    Site,
    Strategy,
    Topology,
    local_cluster,
    local_devices,
    shared_inputs,
)


class Mirrored(Strategy):
    name = "mirrored"
    says = "One task, a copy of the variables on each device: gradients meet in every step."
    options: Mapping[str, Option] = {**OPTIONS, **SHARED_INPUTS}
    is_local = True

    def cluster(self, topology: Topology) -> ClusterSpec:
        return local_cluster(topology, self.name)

    def devices(self, task: TaskName, topology: Topology) -> tuple[str, ...]:
        del task
        return local_devices(topology, default=2)

    def role(self, task: TaskName, cluster: ClusterSpec) -> Role:
        del task, cluster
        return Role(is_client=True, is_chief=True)

    def inputs(self, dataset_of: DatasetOf, site: Site) -> Iterator[StepInput]:
        role = self.role(site.task, site.cluster)
        return shared_inputs(dataset_of, role, site, len(replica_devices(site)))

    def build(
        self,
        steps: Sequence[CapturedStep | None],
        shares: Sequence[float],
        site: Site,
        building: Building,
    ) -> DistributedStep:
        devices = replica_devices(site)
        cross_device = cross_device_from(site.options, devices)
        distribution = Distribution(GraphBuilder(), devices, cross_device, building=building)
        return StepBuilder(distribution, steps, shares).build()


def replica_devices(site: Site, task: TaskName | None = None) -> tuple[str, ...]:
    """Full names: every GPU of the task, else every CPU. The only task where none is named."""
    task = task or TaskName(LOCALHOST, 0)
    gpus = [each for each in site.devices if not each.startswith("cpu")]
    kind = "GPU" if gpus else "CPU"
    return tuple(str(task.device(kind, number)) for number in range(len(gpus or site.devices)))
