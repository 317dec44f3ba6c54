"""What is to be done on a cluster: train a module under a strategy, or run a hand-written graph.

A job says which tasks there are and what a client does; how tasks become processes (children,
threads, started by hand) is none of its business.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import count, repeat
from typing import Any, Protocol

import torch

from tracer.capture_graph.capture import Evaluation
from tracer.launch.plan import Plan
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.graph import Literal
from tracer.model.graph_json import GraphFile
from tracer.model.literal import value_of
from tracer.model.option import values_of
from tracer.model.refusal import Refusal
from tracer.ops.dtypes import literal_to_tensor
from tracer.ops.kernel import OpError
from tracer.record.recorder import Recorder
from tracer.runtime.interfaces import MasterInterface, StepError
from tracer.runtime.session import NO_TRACING, Session, Tracing
from tracer.strategies.distributed_step import DistributedStep, captured_steps, shares_of
from tracer.strategies.distribution import Building
from tracer.strategies.inputs.next_input import first_input
from tracer.strategies.inputs.step_input import StepInput
from tracer.strategies.registry import STRATEGIES
from tracer.strategies.strategy import Role, Site, devices_of
from tracer.training.line import NO_LINE, Again, Line, Ready
from tracer.training.trainer import (
    Capture,
    Fit,
    Trainable,
    Trainer,
    sessions_of,
    tracing_of,
)

_log = logging.getLogger(__name__)

Feeds = Mapping[str, torch.Tensor]


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

        Raises StrategyError if the strategy cannot serve the topology.
        """
        self._plan = plan
        self._workload = workload
        self._strategy = STRATEGIES[plan.strategy]
        self.cluster = self._strategy.cluster(plan.topology)
        roles = {task: self._strategy.role(task, self.cluster) for task in self.cluster.tasks()}
        self.clients = frozenset(task for task, role in roles.items() if role.is_client)
        self.is_local = self._strategy.is_local
        self.master = next(iter(sorted(self.clients)))

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
        options = values_of(self._strategy.options, self._plan.options)
        return Site(client.task, client.cluster, self.devices(client.task), options)

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


class RunnableGraph(Protocol):
    """What a graph workload offers; `tracer.workloads.graph_workload` says more."""

    @property
    def given(self) -> GraphFile: ...

    @property
    def feeds(self) -> Callable[[int], Iterator[Feeds]] | None: ...

    @property
    def loss(self) -> str: ...

    @property
    def evaluation(self) -> Callable[[], tuple[str, Feeds]] | None: ...


class GraphJob:
    """A graph: its cluster is its own, worker:0 (chief:0 where there is one) its master."""

    def __init__(self, plan: Plan, workload: RunnableGraph) -> None:
        given = workload.given
        self._plan = plan
        self._given = given
        self._workload = workload
        self.is_local = given.is_direct
        self.cluster = ClusterSpec.of_counts(worker=1) if given.is_direct else given.cluster
        self.clients = frozenset({TaskName("worker", 0)} if given.is_direct else ())
        self.master = given.client_device.task_name

    def devices(self, task: TaskName) -> tuple[str, ...]:
        named = [d for d in self._given.devices if self.is_local or d.task_name == task]
        return tuple(f"{device.type.lower()}:{device.index}" for device in named)

    def run_client(self, client: Client) -> Mapping[str, Any]:
        """`run.init` once, then the steps; the values of the last one by name, null for targets."""
        run, loss = self._given.run, self._workload.loss
        record = {"vizdist.loss": loss} if loss else {}
        tracing = tracing_of(client.recorder, self._plan.run_id, "run", self._plan.trace)
        with Session(client.master, self._given.graph, tracing) as session:
            if run.init:
                self._run_aside(client, run.init)
            client.line.line_up(Ready())
            feeds = self._feeds(tracing)
            for number in range(1, self._plan.steps + 1):
                client.line.on_step(number)
                values = session.run(run.names, next(feeds), record)
            result = dict(zip(run.names, map(plain, values), strict=True))
            return {"result": result, **self._evaluate(client, tracing)}

    def _run_aside(self, client: Client, name: str, feeds: Feeds | None = None) -> Any:
        """Apart from the record."""
        with Session(client.master, self._given.graph, NO_TRACING) as aside:
            return aside.run(name, feeds)

    def _feeds(self, tracing: Tracing) -> Iterator[Feeds]:
        """Of one step after another: what every step gets, and the next of the workload's own."""
        every = {n: literal_to_tensor(each) for n, each in self._given.run.feeds.items()}
        if self._workload.feeds is None:
            yield from repeat(every)
            return
        own = self._workload.feeds(self._plan.seed)
        for number in count(1):
            with tracing.recorder.span("data.next", tracing.step(number)) as span:
                taken = next(own, None)
                if taken is None:
                    raise StepError(
                        "OUT_OF_RANGE",
                        f"End of sequence: the feeds ended before step {number}; let them repeat",
                    )
                span.set("vizdist.batch", max(map(_num_rows, taken.values()), default=0))
            yield {**every, **taken}

    def _evaluate(self, client: Client, tracing: Tracing) -> Mapping[str, float]:
        if self._workload.evaluation is None:
            return {}
        metric, feeds = self._workload.evaluation()
        with tracing.recorder.span("train.evaluate", tracing.run) as span:
            accuracy = float(self._run_aside(client, metric, feeds))
            span.set("vizdist.accuracy", accuracy)
            span.set("vizdist.examples", max(map(_num_rows, feeds.values()), default=0))
        return {"accuracy": accuracy}


class ServeJob:
    """A task started by hand without a workload: it serves, whoever the clients are."""

    def __init__(self, plan: Plan, cluster: ClusterSpec) -> None:
        self._plan = plan
        self.cluster = cluster
        self.clients: frozenset[TaskName] = frozenset()
        self.is_local = False
        self.master = next(cluster.tasks())

    def devices(self, task: TaskName) -> tuple[str, ...]:
        return devices_of(task, self._plan.topology)

    def run_client(self, client: Client) -> Mapping[str, Any]:
        raise AssertionError(f"{client.task} is no client: it has no workload")


def _num_rows(tensor: torch.Tensor) -> int:
    return len(tensor) if tensor.dim() else 1


def plain(value: torch.Tensor | Literal | None) -> Any:
    """A tensor as nested lists, None for a target."""
    if isinstance(value, Literal):
        return value_of(value)
    return None if value is None else value.tolist()
