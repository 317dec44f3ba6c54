"""ParameterServerStrategy V1: between-graph (TF `parameter_server_strategy.py`).

    ps:0        w1  b1 ──read──►┐         ┌──gradient──► apply
                                ▼         │
    worker:0                forward · backward        each worker runs its own steps,
    worker:1                forward · backward        nobody waits for anybody

Every worker builds the same graph and is master of its own session. Variables go round robin over
the ps tasks in creation order (`replica_device_setter`), everything else to the worker itself. What
crosses in a step is each variable once and each gradient once: 2·S bytes. A worker may apply a
gradient to a variable that others have moved since it was read; by how many versions is its
*staleness*. With `sync=true` updates take the mean of the workers' gradients: see `sync_replicas`.

With a `partitioner` variables lie in shards, dealt out one by one (`partitioned_step`). Tables are
looked up and updated by the rows that a batch uses, which is what crosses of them, unless told
`sparse=false` (`indexed_slices`).

Devices of one worker are replicas that are in step with each other. The worker sums their gradients
on its CPU and sends the sums, so that a variable takes one update (TF's `AggregatingVariable`).
"""

from collections.abc import Iterator, Mapping, Sequence

from tracer.capture_graph.capture import CapturedStep, variables_of
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.graph import Graph, Input, Node
from tracer.model.graph_builder import GraphBuilder
from tracer.model.option import Option, Value
from tracer.passes.device_setter import replica_device_setter
from tracer.strategies.contexts import DistributionError
from tracer.strategies.cross_device import ReductionToOneDevice
from tracer.strategies.distributed_step import DistributedStep, a_step
from tracer.strategies.distribution import Building, Distribution
from tracer.strategies.indexed_slices import by_rows, summed_rows
from tracer.strategies.inputs.prefetch import PREFETCH
from tracer.strategies.inputs.step_input import StepInput
from tracer.strategies.mirrored import replica_devices
from tracer.strategies.partitioned_step import partitioned
from tracer.strategies.replica_names import ReplicaNames
from tracer.strategies.sharded import NONE as NO_PARTITIONER
from tracer.strategies.sharded import Partitioner, partitioner_from
from tracer.strategies.step_builder import StepBuilder
from tracer.strategies.step_parts import Slot, StepParts
from tracer.strategies.strategy import (
    DatasetOf,
    Role,
    Site,
    Strategy,
    StrategyError,
    Topology,
    count,
    devices_of,
    function_inputs,
    of_task,
)
from tracer.strategies.sync_replicas import Rounds, synchronous
from tracer.strategies.values import DistributedVariable, PerReplica


class ParameterServerV1(Strategy):
    name = "parameter_server_v1"
    says = (
        "Variables on ps tasks, each worker steps on its own: asynchronous, gradients may be stale."
    )
    options: Mapping[str, Option] = {
        "sync": Option(False, "an update waits for all workers and takes their mean"),
        "backup_workers": Option(0, "workers that no update waits for (with sync)", least=0),
        "partitioner": Option(
            NO_PARTITIONER,
            "how variables are cut over the ps: fixed:SHARDS, min_size:BYTES or max_size:BYTES",
        ),
        "sparse": Option(True, "of a table only the rows that a batch uses cross"),
        "caching": Option(False, "a worker reads a variable once a step for all of its devices"),
        **PREFETCH,
    }
    is_local = False

    def cluster(self, topology: Topology) -> ClusterSpec:
        name = self.name
        workers = count(topology.workers, 2, what="workers (--workers)", at_least=1, strategy=name)
        ps = count(topology.ps, 1, what="parameter servers (--ps)", at_least=1, strategy=name)
        return ClusterSpec.of_counts(ps=ps, worker=workers)

    def check(self, site: Site) -> None:
        _rounds(site, self.role(site.task, site.cluster))
        _partitioner(site)

    def is_group(self, options: Mapping[str, Value]) -> bool:
        return bool(options.get("sync"))

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
        role = self.role(site.task, site.cluster)
        return function_inputs(dataset_of, role, len(replica_devices(site, site.task)))

    def build(
        self,
        steps: Sequence[CapturedStep | None],
        shares: Sequence[float],
        site: Site,
        building: Building,
    ) -> DistributedStep:
        steps = _spread(steps, site)
        step = (
            _alone(a_step(steps), site)
            if len(steps) == 1 and shares[0]
            else _several(steps, shares, site, building)
        )
        rounds = _rounds(site, self.role(site.task, site.cluster))
        return step if rounds is None else synchronous(step, a_step(steps), rounds)


def _rounds(site: Site, role: Role) -> Rounds | None:
    """None: nobody waits for anybody. Raises StrategyError."""
    workers, backup = role.num_replicas, int(site.options.get("backup_workers", 0))
    if not site.options.get("sync"):
        if backup:
            raise StrategyError(
                f"backup_workers={backup}: without sync=true no update waits for any worker; give "
                "both options, or neither"
            )
        return None
    if backup >= workers:
        raise StrategyError(
            f"backup_workers={backup} of {workers} workers: an update needs at least one gradient; "
            f"leave at most {workers - 1} of them as backup"
        )
    return Rounds(site.task, role.is_chief, workers, workers - backup)


def _partitioner(site: Site) -> Partitioner | None:
    """Raises StrategyError."""
    text = str(site.options.get("partitioner", NO_PARTITIONER))
    try:
        return partitioner_from(text, len(site.cluster.jobs["ps"]))
    except DistributionError as error:
        raise StrategyError(str(error)) from None


def _spread(steps: Sequence[CapturedStep | None], site: Site) -> list[CapturedStep | None]:
    """The same with variables in shards and tables by rows, as the options say."""
    partitioner, made = _partitioner(site), dict[int, CapturedStep]()
    for step in steps:
        if step is None or id(step) in made:
            continue
        cut = step if partitioner is None else partitioned(step, partitioner)
        made[id(step)] = by_rows(cut) if site.options.get("sparse", True) else cut
    return [None if step is None else made[id(step)] for step in steps]


def _alone(step: CapturedStep, site: Site) -> DistributedStep:
    setter = replica_device_setter(site.cluster, of_task(site.task))
    graph = Graph(node.with_(requested_device=setter(node)) for node in step.graph.nodes)
    return DistributedStep.alone(step, graph)


def _several(
    steps: Sequence[CapturedStep | None], shares: Sequence[float], site: Site, building: Building
) -> DistributedStep:
    """A replica a device."""
    servers, host = _servers(a_step(steps).graph, site), str(site.task.device("CPU", 0))
    distribution = Distribution(
        GraphBuilder(),
        replica_devices(site, site.task),
        ReductionToOneDevice(host),
        copies_on=lambda name: (servers[name],),
        building=building,
    )
    caches = bool(site.options.get("caching"))
    return _SumsOnWorker(distribution, steps, shares, host, caches=caches).build()


def _servers(graph: Graph, site: Site) -> Mapping[str, str]:
    """Of each variable its ps; a slot goes with its variable."""
    setter = replica_device_setter(site.cluster, of_task(site.task))
    servers: dict[str, str] = {}
    for node in variables_of(graph):
        beside = [name for name in node.colocated_with if name != node.name]
        servers[node.name] = servers[beside[0]] if beside else setter(node)
    return servers


class _ReadOnce(ReplicaNames):
    """All replicas of a worker take what it read once (TF's `CachingVariable`)."""

    def read(self, variable: DistributedVariable, replica: int) -> str:
        del replica
        return super().read(variable, 0)

    def value(self, parts: StepParts, source: Input, replica: int) -> Input:
        read = parts.read_variable(source.node)
        return Input(_cached(read)) if read else super().value(parts, source, replica)


def _cached(variable: str) -> str:
    return f"{variable}/cached"


class _SumsOnWorker(StepBuilder):
    """What the replicas make for a variable becomes one tensor on `host` before it crosses.

    `caches`: what they read of it crosses once, and is handed out from there.
    """

    def __init__(
        self,
        distribution: Distribution,
        steps: Sequence[CapturedStep | None],
        shares: Sequence[float],
        host: str,
        *,
        caches: bool,
    ) -> None:
        self._host = host
        super().__init__(distribution, steps, shares)
        self._caches = caches
        if caches:
            self.names = _ReadOnce(self.variables, shares)

    def _create(self) -> None:
        """With a read of each: by it a worker knows that a table has its value."""
        super()._create()
        graph = self.template.graph
        for variable in (v for v in self.variables.values() if f"{v.name}/Read" in graph):
            read, dtype = Input(self._read(variable, 0)), variable.spec.dtype
            if self._caches:
                attrs = {"T": dtype, "_phase": "read"}
                specs = (variable.spec,)
                node = Node(_cached(variable.name), "Identity", (read,), attrs=attrs, specs=specs)
                self._keep(node, self._host)

    def _summed(self, gradients: Mapping[Slot, PerReplica]) -> dict[Slot, PerReplica]:
        """Rows of gradients become those of one replica."""
        parts = self.template
        given = {parts.gradients[slot]: value.values for slot, value in gradients.items()}
        dense = {s: v for s, v in gradients.items() if parts.gradients[s] not in parts.of_rows}
        made: dict[Input, Input] = {}
        with self.builder.device(self._host):
            for values, ids in parts.slices.items():
                made[values], made[ids] = summed_rows(self.builder, given[values], given[ids])
        rows = {s: made[v] for s in gradients if (v := parts.gradients[s]) in parts.of_rows}
        return super()._summed(dense) | {s: PerReplica((v,)) for s, v in rows.items()}

    def _mean(self, values: list[Input], device: str, aggregation: str) -> Input:
        del device
        return super()._mean(values, self._host, aggregation)
