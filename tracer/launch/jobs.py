"""What is to be done on a cluster: train a module under a strategy, or run a hand-written graph.

A job says which tasks there are and what a client does; how tasks become processes (children,
threads, started by hand) is none of its business.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache, cached_property, partial
from typing import Any, Protocol

import torch

from tracer.capture_graph.capture import Evaluation
from tracer.launch.plan import Plan
from tracer.launch.tolerance import ToleranceError
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.graph import Graph, GraphError, Literal
from tracer.model.literal import value_of
from tracer.model.option import Value, values_of
from tracer.model.refusal import Refusal
from tracer.ops.kernel import OpError
from tracer.record.recorder import Recorder
from tracer.runtime.interfaces import MasterInterface, StepError
from tracer.strategies.distributed_step import DistributedStep, captured_steps, shares_of
from tracer.strategies.distribution import Building
from tracer.strategies.inputs.next_input import first_input
from tracer.strategies.inputs.step_input import StepInput
from tracer.strategies.registry import STRATEGIES
from tracer.strategies.strategy import Role, Site, devices_of
from tracer.training.checkpoint import Checkpoints
from tracer.training.graph_trainer import (
    GraphTrainer,
    RunnableGraph,
    saves_itself,
    variables_of_steps,
)
from tracer.training.line import NO_LINE, Again, Line
from tracer.training.trainer import (
    Capture,
    Fit,
    Trainable,
    Trainer,
    sessions_of,
    tracing_of,
)

_log = logging.getLogger(__name__)


class Stopped(Exception):
    """Whoever looks after a client told it to stop."""


@dataclass(frozen=True, slots=True)
class Client:
    """What a client has at hand: a master, the cluster with its addresses, a recorder.

    `line` is to whoever started it; what it hears there may raise Stopped. Its `line_up` returns
    when every client is ready: without a common start, a short run's workers would hardly meet.
    `again` is told to the client of a task that died and lives for the `attempt`-th time since.
    """

    task: TaskName
    master: MasterInterface
    cluster: ClusterSpec
    recorder: Recorder
    line: Line = NO_LINE
    again: Again | None = None
    attempt: int = 0

    @property
    def owner(self) -> str:
        """Whose its steps are: those of another life have other traces."""
        return f"{self.task}.{self.attempt}" if self.attempt else str(self.task)


class Job(Protocol):
    cluster: ClusterSpec  #: the tasks; addresses are still open
    clients: frozenset[TaskName]  #: tasks with a client loop; none: the launcher is the client
    is_local: bool  #: one task without a cluster
    is_group: bool  #: its clients step together: one that died takes all back to a checkpoint
    master: TaskName  #: whom the launcher dials where it is the client

    def devices(self, task: TaskName) -> tuple[str, ...]: ...

    def run_client(self, client: Client) -> Mapping[str, Any]:
        """Drives every step of one client; returns what it found."""
        ...


def drive(job: Job, client: Client) -> Mapping[str, Any]:
    """Runs a client to its end. Whatever went wrong is a StepError, except Stopped."""
    try:
        return job.run_client(client)
    except (StepError, Stopped):
        raise
    except Exception as error:
        if not isinstance(error, Refusal):
            _log.exception("the client of %s failed", client.task)
        reason = OpError.of(error)
        raise StepError(reason.code, reason.message, task=str(client.task)) from error


class ModuleJob:
    """A workload under a strategy."""

    def __init__(self, plan: Plan, workload: Callable[[], Trainable]) -> None:
        """`workload()` is called by clients alone: no other task needs it.

        Raises StrategyError if the strategy cannot serve the topology or the options.
        """
        self._plan = plan
        self._workload = workload
        self._strategy = STRATEGIES[plan.strategy]
        self.cluster = self._strategy.cluster(plan.topology)
        roles = {task: self._strategy.role(task, self.cluster) for task in self.cluster.tasks()}
        self.clients = frozenset(task for task, role in roles.items() if role.is_client)
        self.is_local = self._strategy.is_local
        self.is_group = self._strategy.is_group(self._options)
        self.master = next(iter(sorted(self.clients)))
        site = Site(self.master, self.cluster, options=self._options)
        self._strategy.check(site)

    @property
    def _options(self) -> Mapping[str, Value]:
        return values_of(self._strategy.options, self._plan.options)

    def devices(self, task: TaskName) -> tuple[str, ...]:
        return self._strategy.devices(task, self._plan.topology)

    def run_client(self, client: Client) -> Mapping[str, Any]:
        plan, workload = self._plan, self._workload()
        role = self._strategy.role(client.task, client.cluster)
        site = self._site(client)
        inputs = partial(self._strategy.inputs, partial(workload.dataset, plan.seed), site)
        tracing = tracing_of(client.recorder, plan.run_id, client.owner, plan.trace)
        first = first_input(inputs(), client.recorder, tracing.run)
        trainer = Trainer(
            sessions_of(client.master),
            self._capture(workload, site),
            first,
            workload.evaluation(),
            tracing,
            self._fit(role, len(first.replicas), client),
        )
        try:
            return asdict(trainer.run(inputs, client.line))
        finally:
            trainer.close()

    def _site(self, client: Client) -> Site:
        return Site(client.task, client.cluster, self.devices(client.task), self._options)

    def _fit(self, role: Role, replicas: int, client: Client) -> Fit:
        plan = self._plan
        return Fit(
            plan.steps,
            role.is_chief,
            plan.seed,
            role.replica * replicas,
            plan.limits.connect_s,
            plan.tolerance.checkpoints,
            client.again,
            self.is_group,
            prefetch=int(self._options.get("prefetch", 0)),
            samples=plan.trace.samples,
        )

    def _capture(self, workload: Trainable, site: Site) -> Capture:
        """Makes nothing yet: whoever calls it sees to it that one client at a time captures."""
        capture = cache(lambda: workload.step_capture(self._plan.seed))

        def step(
            given: StepInput, evaluation: Evaluation | None, building: Building
        ) -> DistributedStep:
            steps = captured_steps(capture(), given, evaluation)
            shares = shares_of([len(each) for each in given.replicas], given.global_batch)
            return self._strategy.build(steps, shares, site, building)

        return step


class GraphJob:
    """A graph: its cluster is its own, worker:0 (chief:0 where there is one) its master."""

    def __init__(self, plan: Plan, workload: RunnableGraph) -> None:
        """Raises ToleranceError or GraphError where it cannot be saved as the plan asks for."""
        given = workload.given
        self._plan = plan
        self._given = given
        self._workload = workload
        self.is_local = given.is_direct
        self.is_group = False
        self.cluster = ClusterSpec.of_counts(worker=1) if given.is_direct else given.cluster
        self.clients = frozenset({TaskName("worker", 0)} if given.is_direct else ())
        self.master = given.client_device.task_name
        self._saves_itself = saves_itself(given.graph)
        if plan.tolerance.checkpoint or plan.tolerance.restarts:
            self._check_tolerance()

    def devices(self, task: TaskName) -> tuple[str, ...]:
        named = [d for d in self._given.devices if self.is_local or d.task_name == task]
        return tuple(f"{device.type.lower()}:{device.index}" for device in named)

    def run_client(self, client: Client) -> Mapping[str, Any]:
        """`run.init` once, then the steps; the values of the last one by name, null for targets."""
        plan, life = self._plan, f".{client.attempt}" if client.attempt else ""
        trainer = GraphTrainer(
            sessions_of(client.master),
            self._workload,
            self._variables,
            tracing_of(client.recorder, plan.run_id, f"run{life}", plan.trace),
            Fit(plan.steps, seed=plan.seed, checkpoints=self._checkpoints, again=client.again),
        )
        try:
            values, judged = trainer.run(client.line)
        finally:
            trainer.close()
        result = dict(zip(self._given.run.names, map(plain, values), strict=True))
        return {"result": result, **(judged.to_json() if judged else {})}

    @property
    def _checkpoints(self) -> Checkpoints | None:
        """None for a graph that saves and restores what it wants to by itself."""
        return None if self._saves_itself else self._plan.tolerance.checkpoints

    @cached_property
    def _variables(self) -> Graph:
        """Those that its steps use, on their devices. Raises GraphError where they may be lost."""
        try:
            return variables_of_steps(self._given, self._plan.placer)
        except GraphError:
            if self._plan.tolerance.restarts or self._checkpoints:
                raise
            return Graph(())  # its first step will say so

    def _check_tolerance(self) -> None:
        """Raises ToleranceError, or GraphError for variables that cannot be saved."""
        asked = self._plan.tolerance
        if self._saves_itself and asked.every:
            raise ToleranceError(
                f"--checkpoint-every {asked.every}: this graph holds SaveV2 or RestoreV2 and saves "
                "by itself; leave the flag out, or take those nodes out of the graph"
            )
        variables = self._variables
        if self._checkpoints and not len(variables):
            raise ToleranceError(
                f"--checkpoint {asked.checkpoint}: the steps of this graph use no variable, so "
                "there is nothing to save; leave --checkpoint out, or fetch what uses one"
            )


class ServeJob:
    """A task started by hand without a workload: it serves, whoever the clients are."""

    def __init__(self, plan: Plan, cluster: ClusterSpec) -> None:
        self._plan = plan
        self.cluster = cluster
        self.clients: frozenset[TaskName] = frozenset()
        self.is_local = self.is_group = False
        self.master = next(cluster.tasks())

    def devices(self, task: TaskName) -> tuple[str, ...]:
        return devices_of(task, self._plan.topology)

    def run_client(self, client: Client) -> Mapping[str, Any]:
        raise AssertionError(f"{client.task} is no client: it has no workload")


def plain(value: torch.Tensor | Literal | None) -> Any:
    """A tensor as nested lists, None for a target."""
    if isinstance(value, Literal):
        return value_of(value)
    return None if value is None else value.tolist()
