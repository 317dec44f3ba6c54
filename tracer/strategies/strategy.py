"""What every strategy answers: which tasks there are, who is a client, where each node goes.

A strategy is a graph *rewriter*, not a runtime: it gives requested devices to the nodes of a
captured step (TF: the scope, `replica_device_setter`, `merge_call` …) and says who drives the
steps. The runtime below it never knows which strategy made a graph. One strategy, one file; add it
to `STRATEGIES`.
"""

from dataclasses import dataclass
from typing import Protocol

from tracer.model.cluster import DEVICES_LIMIT, ClusterSpec, DeviceSpec, TaskName
from tracer.model.graph import Graph
from tracer.model.option import Declared
from tracer.model.refusal import Refusal
from tracer.runtime.cuda import gpus


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


class Strategy(Protocol):
    name: str
    says: str
    options: Declared  #: what `--option NAME=VALUE` may set
    is_local: bool  #: one task without a cluster (`/job:localhost`, TF's DirectSession)

    def cluster(self, topology: Topology) -> ClusterSpec:
        """The tasks of a run. Raises StrategyError if the topology cannot be served."""
        ...

    def devices(self, task: TaskName, topology: Topology) -> tuple[str, ...]:
        """The devices of a task, as `cpu:0` and `cuda:0`."""
        ...

    def role(self, task: TaskName, cluster: ClusterSpec) -> Role: ...

    def assign(self, graph: Graph, task: TaskName, cluster: ClusterSpec) -> Graph:
        """The captured graph with requested devices, as the client in `task` builds it."""
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


def local_devices(topology: Topology, default: int = 1) -> tuple[str, ...]:
    """What `--devices` says, else every GPU of the host, else `default` logical CPUs."""
    return topology.devices or gpus() or tuple(f"cpu:{i}" for i in range(default))


def devices_of(task: TaskName, topology: Topology) -> tuple[str, ...]:
    """Those of a task of a cluster: a ps has a CPU unless `--ps-devices` gives it others."""
    return (topology.ps_devices or ("cpu:0",)) if task.job == "ps" else local_devices(topology)


def of_task(task: TaskName) -> str:
    """A request that leaves the device open: a GPU where the task has one, else its CPU."""
    return str(DeviceSpec(task.job, task.index))
