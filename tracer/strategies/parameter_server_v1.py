"""ParameterServerStrategy V1: between-graph, asynchronous (TF `parameter_server_strategy.py`).

    ps:0        w1  b1 ──read──►┐         ┌──gradient──► apply
                                ▼         │
    worker:0                forward · backward        each worker runs its own steps,
    worker:1                forward · backward        nobody waits for anybody

Every worker builds the same graph and is master of its own session. Variables go round robin over
the ps tasks in creation order (`replica_device_setter`), everything else to the worker itself. What
crosses in a step is each variable once and each gradient once: 2·S bytes. A worker may apply a
gradient to a variable that others have moved since it was read; by how many versions is its
*staleness*.
"""

from collections.abc import Iterator, Mapping, Sequence

from tracer.capture_graph.capture import CapturedStep
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.graph import Graph
from tracer.model.option import Option
from tracer.passes.device_setter import replica_device_setter
from tracer.strategies.distributed_step import DistributedStep
from tracer.strategies.distribution import Building
from tracer.strategies.inputs.step_input import StepInput
from tracer.strategies.strategy import (
    DatasetOf,
    Role,
    Site,
    Topology,
    count,
    devices_of,
    function_inputs,
    of_task,
)


class ParameterServerV1:
    name = "parameter_server_v1"
    says = (
        "Variables on ps tasks, each worker steps on its own: asynchronous, gradients may be stale."
    )
    options: Mapping[str, Option] = {}
    is_local = False

    def cluster(self, topology: Topology) -> ClusterSpec:
        name = self.name
        workers = count(topology.workers, 2, what="workers (--workers)", at_least=1, strategy=name)
        ps = count(topology.ps, 1, what="parameter servers (--ps)", at_least=1, strategy=name)
        return ClusterSpec.of_counts(ps=ps, worker=workers)

    def devices(self, task: TaskName, topology: Topology) -> tuple[str, ...]:
        return devices_of(task, topology)

    def role(self, task: TaskName, cluster: ClusterSpec) -> Role:
        if task.job != "worker":
            return Role(is_client=False)
        return Role(
            is_client=True,
            is_chief=task.index == 0,
            replica=task.index,
            num_replicas=len(cluster.jobs["worker"]),
        )

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
        setter = replica_device_setter(site.cluster, of_task(site.task))
        graph = Graph(node.with_(requested_device=setter(node)) for node in step.graph.nodes)
        return DistributedStep.alone(step, graph)
