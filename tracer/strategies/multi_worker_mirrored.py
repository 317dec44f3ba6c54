"""MultiWorkerMirroredStrategy: a copy of everything on each device of each worker.

    worker:0 CPU:0  v   rows 0…31   forward · backward ─┐           ┌─► v  updated
    worker:1 CPU:0  v   rows 32…63  forward · backward ─┴► Σ, meet ─┴─► v  updated

Every worker is a client and master of its own (between-graph): its graph has its own devices only,
and nothing but collectives joins it with the others (TF `collective_all_reduce_strategy.py`). All
devices of all workers are one group, whose ranks ask for the same collectives in the same order:
that of the loss, so that each worker knows that of the global batch, then those of the gradients.
Before the first step rank 0 broadcasts the values of its variables; from then on all copies take
the same sums, and stay equal bit by bit.

Statistics that no gradient reaches (BatchNorm's) are a replica's own. Before rank 0's worker saves
or evaluates, all ranks meet for their mean, and that is what it saves, or judges with.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tracer.capture_graph.capture import CapturedStep
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.graph import HANDLES, Graph, Input, Node, TensorSpec
from tracer.model.graph_builder import GraphBuilder
from tracer.model.option import Option, Value
from tracer.strategies.collective_nodes import CollectiveGroup, CollectiveKeys
from tracer.strategies.cross_device import OPTIONS, RING, TREE, CollectiveAllReduce
from tracer.strategies.distributed_step import DistributedStep
from tracer.strategies.distribution import Building, Distribution
from tracer.strategies.inputs.step_input import StepInput
from tracer.strategies.mirrored import replica_devices
from tracer.strategies.step_builder import StepBuilder
from tracer.strategies.strategy import (
    SHARED_INPUTS,
    DatasetOf,
    Role,
    Site,
    Strategy,
    Topology,
    count,
    local_devices,
    refuse,
    shared_inputs,
)
from tracer.strategies.values import (
    MEAN,
    ON_READ,
    SAVED_AS,
    Copy,
    DistributedVariable,
    PerReplica,
)

LOCAL_INIT, MEET = "local_init", "meet"
_RESOURCE = TensorSpec("resource", ())


class MultiWorkerMirrored(Strategy):
    name = "multi_worker_mirrored"
    says = "A copy of the variables on each device of each worker: gradients meet in every step."
    options: Mapping[str, Option] = {
        "cross_device_ops": Option(RING, "how gradients of all replicas are summed", (RING, TREE)),
        "bytes_per_pack": OPTIONS["bytes_per_pack"],
        **SHARED_INPUTS,
    }
    is_local = False

    def cluster(self, topology: Topology) -> ClusterSpec:
        name = self.name
        refuse(topology.ps, flag="--ps", strategy=name, why="keeps variables on its workers")
        refuse(topology.ps_devices, flag="--ps-devices", strategy=name, why="has no ps")
        workers = count(topology.workers, 2, what="workers (--workers)", at_least=1, strategy=name)
        return ClusterSpec.of_counts(worker=workers)

    def is_group(self, options: Mapping[str, Value]) -> bool:
        del options
        return True

    def devices(self, task: TaskName, topology: Topology) -> tuple[str, ...]:
        del task
        return local_devices(topology)

    def role(self, task: TaskName, cluster: ClusterSpec) -> Role:
        workers = sorted(cluster.jobs["worker"])
        return Role(
            is_client=task.job == "worker",
            is_chief=task.index == workers[0],
            replica=workers.index(task.index) if task.index in workers else 0,
            num_replicas=len(workers),
        )

    def inputs(self, dataset_of: DatasetOf, site: Site) -> Iterator[StepInput]:
        role = self.role(site.task, site.cluster)
        return shared_inputs(dataset_of, role, site, len(replica_devices(site, site.task)))

    def build(
        self,
        steps: Sequence[CapturedStep | None],
        shares: Sequence[float],
        site: Site,
        building: Building,
    ) -> DistributedStep:
        ranks = Ranks.of(site, self.role(site.task, site.cluster))
        reduction = CollectiveAllReduce(
            ranks.devices,
            hint=ranks.hint,
            bytes_per_pack=int(site.options.get("bytes_per_pack", 0)),
            keys=ranks.keys,
            ranks=ranks.own,
            between_graphs=True,
        )
        own = replica_devices(site, site.task)
        distribution = Distribution(GraphBuilder(), own, reduction, building=building)
        return _OneOfMany(distribution, steps, shares, ranks).build()


@dataclass(frozen=True, slots=True)
class Ranks:
    """`devices` of all workers in the order of their ranks; `own` are those of this worker."""

    devices: tuple[str, ...]
    own: tuple[int, ...]
    hint: str
    keys: CollectiveKeys

    @classmethod
    def of(cls, site: Site, role: Role) -> "Ranks":
        """Every worker has as many devices as this one."""
        workers = [TaskName("worker", index) for index in sorted(site.cluster.jobs["worker"])]
        devices = [name for worker in workers for name in replica_devices(site, worker)]
        each = len(devices) // len(workers)
        own = range(role.replica * each, (role.replica + 1) * each)
        hint = str(site.options.get("cross_device_ops", RING))
        return cls(tuple(devices), tuple(own), hint, CollectiveKeys())


class _OneOfMany(StepBuilder):
    """The step of one worker; its statistics are its own, also those of its only device.

    What they are over all ranks, a variable beside the first copy holds once the ranks have met.
    """

    of_one_copy = ON_READ

    def __init__(
        self,
        distribution: Distribution,
        steps: Sequence[CapturedStep | None],
        shares: Sequence[float],
        ranks: Ranks,
    ) -> None:
        self._ranks = ranks
        self._met = ""
        super().__init__(distribution, steps, shares)

    def build(self) -> DistributedStep:
        step = super().build()
        ranks = self._ranks
        changed: dict[str, Any] = {"_copies": len(ranks.devices)}
        if 0 not in ranks.own:  # nobody saves or waits for what comes by broadcast
            changed["_local"] = True
        nodes = [
            node.with_(attrs={**node.attrs, **changed, **self._saved_as(node.name)})
            if _is_copy(node)
            else node
            for node in (*step.graph.nodes, *self._broadcast())
        ]
        firsts = [f"{_of_all(v)}/Initial" for v in self._met_variables()]
        init = step.graph[step.init]
        init = init.with_(control_inputs=(*init.control_inputs, *firsts))
        graph = Graph(init if node.name == init.name else node for node in nodes)
        return replace(step, graph=graph, local_init=LOCAL_INIT, meet=self._met)

    def _saved_as(self, name: str) -> dict[str, str]:
        variable = self.variables.get(name)
        return {SAVED_AS: _of_all(variable)} if variable and self._is_met(variable) else {}

    def _add_evaluation(self, step: CapturedStep) -> None:
        self._met = self._meet()
        super()._add_evaluation(step)

    def _is_met(self, variable: DistributedVariable) -> bool:
        """Whether its value over all ranks is not that of the ranks of this graph."""
        has_all = len(self._ranks.devices) == len(self._ranks.own)
        return self._is_own(variable) and variable.aggregation == MEAN and not has_all

    def _met_variables(self) -> list[DistributedVariable]:
        return [*filter(self._is_met, self.variables.values())]

    def _seen_from_outside(self, variable: DistributedVariable) -> Input:
        if self._is_met(variable):
            return Input(f"{_of_all(variable)}/Read")
        return super()._seen_from_outside(variable)

    def _meet(self) -> str:
        """What every worker runs at a time; its name, empty where there are no statistics."""
        ends: list[str] = []
        group = self._group()
        for variable in self._met_variables():
            copies = range(len(variable.copies))
            own = [Input(self._read(variable, copy)) for copy in copies]
            with self.builder.name_scope(MEET):
                mean, *others = group.all_reduce(own, of=variable.name, final_op="Div")
            self._keep_mean(variable, mean)
            ends += [f"{_of_all(variable)}/Assign", *(other.node for other in others)]
        if ends:
            self.builder.keep(Node(MEET, "NoOp", control_inputs=tuple(ends)))
        return MEET if ends else ""

    def _keep_mean(self, variable: DistributedVariable, mean: Input) -> None:
        name, spec, device = _of_all(variable), variable.spec, variable.copies[0].device
        attrs = {"dtype": spec.dtype, "_class": [f"loc:@{name}"]}
        shape = {"shape": list(spec.shape), "shared_name": name, "container": ""}
        first = Input(f"{variable.name}/Initializer")
        for node in (
            Node(name, "VarHandleOp", attrs={**attrs, **shape, "_local": True}, specs=(_RESOURCE,)),
            Node(f"{name}/Initial", "AssignVariableOp", (Input(name), first), attrs=attrs),
            Node(f"{name}/Assign", "AssignVariableOp", (Input(name), mean), attrs=attrs),
            Node(f"{name}/Read", "ReadVariableOp", (Input(name),), attrs=attrs, specs=(spec,)),
        ):
            self._keep(node, device)

    def _total(self, losses: PerReplica) -> Input:
        """Over the workers too. All call it the same, be it scaled by their shares or not."""
        own = []
        for loss, device in zip(losses.values, self.distribution.devices, strict=True):
            spec = self._spec(loss)
            with self.builder.device(device):
                one = self.builder.op(
                    "Identity", loss, name="loss/of_replica", specs=[spec], T=spec.dtype
                )
            own.append(one)
        return super()._total(PerReplica(tuple(own)))

    def _broadcast(self) -> list[Node]:
        """Every copy becomes what rank 0 has, be it first values or those of a checkpoint."""
        before = {node.name for node in self.builder.nodes}
        ranks = self._ranks
        group, ends = self._group(), list[str]()
        with self.builder.name_scope(LOCAL_INIT):
            for variable in self.variables.values():
                source = self._source(variable) if 0 in ranks.own else None
                spec = variable.spec
                values = group.broadcast(source, spec.shape, spec.dtype, of=variable.name)
                for rank, copy, value in zip(ranks.own, variable.copies, values, strict=True):
                    ends.append(self._assigned(copy, value, variable) if rank else value.node)
        target = Node(LOCAL_INIT, "NoOp", control_inputs=tuple(ends))
        return [*(node for node in self.builder.nodes if node.name not in before), target]

    def _group(self) -> CollectiveGroup:
        """All ranks, whose collectives are in an order of their own."""
        ranks = self._ranks
        return CollectiveGroup(
            self.builder, ranks.keys, ranks.devices, ranks=ranks.own, between_graphs=True
        )

    def _source(self, variable: DistributedVariable) -> Input:
        """What rank 0 has."""
        copy, dtype = variable.copies[0], variable.spec.dtype
        with self.builder.device(copy.device):
            return self.builder.op(
                "ReadVariableOp",
                Input(copy.name),
                name=f"{copy.name}/Read",
                specs=[variable.spec],
                dtype=dtype,
            )

    def _assigned(self, copy: Copy, value: Input, variable: DistributedVariable) -> str:
        dtype, name = variable.spec.dtype, f"{copy.name}/Assign"
        with self.builder.device(copy.device):
            made = self.builder.op(
                "AssignVariableOp", Input(copy.name), value, name=name, dtype=dtype
            )
        return made.node


def _of_all(variable: DistributedVariable) -> str:
    """What holds the value over all ranks, of a variable of which each rank has its own."""
    return f"{variable.name}/of_all"


def _is_copy(node: Node) -> bool:
    """Not what a worker has for itself."""
    return node.op in HANDLES and not node.attrs.get("_local")
