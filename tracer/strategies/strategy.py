"""What every strategy answers: which tasks there are, who is a client, what graph it runs.

A strategy is a graph *builder*, not a runtime: from the captured step of each replica it makes the
graph of one client (TF: the scope, `replica_device_setter`, `merge_call` …), and it says who drives
the steps on which data. The runtime below it never knows which strategy made a graph. One strategy,
one file; add it to `STRATEGIES`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tracer.capture_graph.capture import CapturedStep
from tracer.model.cluster import DEVICES_LIMIT, ClusterSpec, DeviceSpec, TaskName
from tracer.model.option import Declared, Value
from tracer.model.refusal import Refusal
from tracer.runtime.cuda import gpus
from tracer.strategies.distributed_step import DistributedStep
from tracer.strategies.distribution import Building
from tracer.strategies.inputs.autoshard import AUTOSHARD, Policy
from tracer.strategies.inputs.dataset import Dataset
from tracer.strategies.inputs.distribute import (
    InputContext,
    distribute_dataset,
    distribute_from_function,
)
from tracer.strategies.inputs.prefetch import PREFETCH
from tracer.strategies.inputs.step_input import StepInput


class StrategyError(Refusal):
    """A request that the strategy cannot serve; the text says what it needs."""


@dataclass(frozen=True, slots=True)
class Topology:
    """How many tasks and devices a user asked for. None: not said, the strategy's default holds."""

    workers: int | None = None
    ps: int | None = None
    devices: tuple[str, ...] | None = None
    ps_devices: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Role:
    """What one task of the run does.

    `is_client`: it drives steps in its own client loop. `is_chief`: it also makes the variables'
    first values and evaluates at the end. `replica` counts clients, for sharding the data.
    """

    is_client: bool
    is_chief: bool = False
    replica: int = 0
    num_replicas: int = 1


@dataclass(frozen=True, slots=True)
class Site:
    """Where a client builds: its task, the cluster, the task's devices (`cpu:0`), the options."""

    task: TaskName
    cluster: ClusterSpec
    devices: tuple[str, ...] = ("cpu:0",)
    options: Mapping[str, Value] = field(default_factory=dict)


#: which input pipeline → what it reads; that of `InputContext()` is the whole, in global batches
DatasetOf = Callable[[InputContext], Dataset]

SHARED_INPUTS: Declared = {**AUTOSHARD, **PREFETCH}  #: options of strategies that share a batch


class Strategy(Protocol):
    name: str
    says: str
    options: Declared  #: what `--option NAME=VALUE` may set
    is_local: bool  #: one task without a cluster (`/job:localhost`, TF's DirectSession)

    def cluster(self, topology: Topology) -> ClusterSpec:
        """The tasks of a run. Raises StrategyError if the topology cannot be served."""
        ...

    def check(self, site: Site) -> None:
        """Whether one of its clients can serve the options, before any task starts.

        Raises StrategyError.
        """
        del site

    def is_group(self, options: Mapping[str, Value]) -> bool:
        """Whether its clients wait for each other in every step: all go on together, or none."""
        del options
        return False

    def devices(self, task: TaskName, topology: Topology) -> tuple[str, ...]:
        """The devices of a task, as `cpu:0` and `cuda:0`."""
        ...

    def role(self, task: TaskName, cluster: ClusterSpec) -> Role: ...

    def inputs(self, dataset_of: DatasetOf, site: Site) -> Iterator[StepInput]:
        """What this client's replicas are fed, step after step."""
        ...

    def build(
        self,
        steps: Sequence[CapturedStep | None],
        shares: Sequence[float],
        site: Site,
        building: Building,
    ) -> DistributedStep:
        """The graph of this client.

        `steps[r]` was captured for the batch of its replica r; `shares[r]` is how much the loss of
        that counts, its part of the rows of all replicas of all clients. Where a batch is empty the
        share is 0, and there need be no step.
        """
        ...


def count(asked: int | None, default: int, *, what: str, at_least: int, strategy: str) -> int:
    """`asked` or the default; raises StrategyError outside `at_least` … DEVICES_LIMIT."""
    number = default if asked is None else asked
    if not at_least <= number <= DEVICES_LIMIT:
        raise StrategyError(
            f"{strategy} needs {at_least} to {DEVICES_LIMIT} {what}, not {number}; "
            f"leave the flag out for {default}"
        )
    return number


def refuse(asked: object, *, flag: str, strategy: str, why: str) -> None:
    """Raises StrategyError if the user asked for what the strategy has no use for."""
    if asked:
        raise StrategyError(f"{flag} {asked}: {strategy} {why}; leave {flag} out")


def counted_jobs(strategy: Strategy) -> tuple[str, ...]:
    """Jobs whose tasks a user may ask for in number: a strategy without a cluster has one task."""
    return () if strategy.is_local else tuple(sorted(strategy.cluster(Topology()).jobs))


def local_cluster(topology: Topology, strategy: str) -> ClusterSpec:
    """One task. Raises StrategyError where more is asked for."""
    refuse(topology.ps, flag="--ps", strategy=strategy, why="keeps variables on its devices")
    refuse(topology.ps_devices, flag="--ps-devices", strategy=strategy, why="has no ps")
    if topology.workers not in (None, 1):
        refuse(topology.workers, flag="--workers", strategy=strategy, why="has one task")
    return ClusterSpec.of_counts(worker=1)


def function_inputs(dataset_of: DatasetOf, role: Role, replicas: int = 1) -> Iterator[StepInput]:
    """Of a client that steps on its own: its share, a batch for each replica."""
    context = InputContext(role.num_replicas, role.replica)
    return distribute_from_function(dataset_of, context, replicas)


def shared_inputs(
    dataset_of: DatasetOf, role: Role, site: Site, replicas: int
) -> Iterator[StepInput]:
    """Of a client that steps with all others: its part of each global batch, by `autoshard`."""
    workers, worker = role.num_replicas, role.replica
    policy = str(site.options.get("autoshard", Policy.AUTO))
    if policy == Policy.FUNCTION:
        context = InputContext(workers, worker, workers * replicas)
        return distribute_from_function(dataset_of, context, replicas)
    return distribute_dataset(
        dataset_of(InputContext()),
        workers=workers,
        worker=worker,
        replicas=replicas,
        autoshard=policy,
    )


def local_devices(topology: Topology, default: int = 1) -> tuple[str, ...]:
    """What `--devices` says, else every GPU of the host, else `default` logical CPUs."""
    return topology.devices or gpus() or tuple(f"cpu:{i}" for i in range(default))


def devices_of(task: TaskName, topology: Topology) -> tuple[str, ...]:
    """Those of a task of a cluster: a ps has a CPU unless `--ps-devices` gives it others."""
    return (topology.ps_devices or ("cpu:0",)) if task.job == "ps" else local_devices(topology)


def of_task(task: TaskName) -> str:
    """A request that leaves the device open: a GPU where the task has one, else its CPU."""
    return str(DeviceSpec(task.job, task.index))
