"""OneDeviceStrategy: everything on one device of one task (TF `one_device_strategy.py`).

    worker:0 (/job:localhost)
      GPU:0 or CPU:0   variables · forward · backward · update

No tensor crosses a device, no message leaves the process; this is the step that every other
strategy is compared with. The task runs its own client loop over a DirectSession.
"""

from collections.abc import Mapping

from tracer.model.cluster import LOCALHOST, ClusterSpec, TaskName
from tracer.model.graph import Graph
from tracer.model.option import Option
from tracer.strategies.strategy import Role, Topology, local_devices, of_task, refuse


class OneDevice:
    name = "one_device"
    says = "One task, one device: no transfers. The step the others are compared with."
    options: Mapping[str, Option] = {}
    is_local = True

    def cluster(self, topology: Topology) -> ClusterSpec:
        refuse(topology.ps, flag="--ps", strategy=self.name, why="keeps variables on its device")
        refuse(topology.ps_devices, flag="--ps-devices", strategy=self.name, why="has no ps")
        if topology.workers not in (None, 1):
            refuse(topology.workers, flag="--workers", strategy=self.name, why="has one task")
        return ClusterSpec.of_counts(worker=1)

    def devices(self, task: TaskName, topology: Topology) -> tuple[str, ...]:
        del task
        return local_devices(topology)

    def role(self, task: TaskName, cluster: ClusterSpec) -> Role:
        del task, cluster
        return Role(is_client=True, is_chief=True)

    def assign(self, graph: Graph, task: TaskName, cluster: ClusterSpec) -> Graph:
        del cluster
        device = of_task(TaskName(LOCALHOST, task.index))
        return Graph(node.with_(requested_device=device) for node in graph.nodes)
