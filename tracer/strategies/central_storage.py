"""CentralStorageStrategy: one copy of the variables for all devices of a task.

    worker:0 (/job:localhost)
      CPU:0   v ──read──►┐                         ┌─► v updated, once
      CPU:0   rows 0…31  ├ forward · backward ──►Σ─┘
      CPU:1   rows 32…63 ┘ forward · backward ─►┘

Variables are on the CPU, or on the GPU where there is one only (TF `central_storage_strategy.py`,
`ParameterServerStrategy` without a cluster). A step moves each variable to each replica, and each
gradient back: with many replicas all of it passes one device.
"""

from collections.abc import Mapping, Sequence

from tracer.capture_graph.capture import CapturedStep
from tracer.model.cluster import LOCALHOST, TaskName
from tracer.model.graph_builder import GraphBuilder
from tracer.model.option import Option
from tracer.strategies.cross_device import ReductionToOneDevice
from tracer.strategies.distributed_step import DistributedStep
from tracer.strategies.distribution import Building, Distribution
from tracer.strategies.mirrored import Mirrored, replica_devices
from tracer.strategies.step_builder import StepBuilder
from tracer.strategies.strategy import SHARED_INPUTS, Site


class CentralStorage(Mirrored):
    """Tasks, devices and data are those of mirrored replicas."""

    name = "central_storage"
    says = "One task, variables on one device: every replica reads them, one update takes the sum."
    options: Mapping[str, Option] = SHARED_INPUTS

    def build(
        self,
        steps: Sequence[CapturedStep | None],
        shares: Sequence[float],
        site: Site,
        building: Building,
    ) -> DistributedStep:
        replicas, cpu = replica_devices(site), str(TaskName(LOCALHOST, 0).device("CPU", 0))
        store = replicas[0] if len(replicas) == 1 else cpu
        distribution = Distribution(
            GraphBuilder(),
            replicas,
            ReductionToOneDevice(),
            copies_on=lambda _: (store,),
            building=building,
        )
        return StepBuilder(distribution, steps, shares).build()
