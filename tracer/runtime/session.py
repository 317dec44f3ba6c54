"""The client's side: a graph, a master, one `run` a step (TF `session.py`, `direct_session.cc`)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from math import isnan
from types import MappingProxyType
from typing import Any, Self

import torch

from tracer.model.cluster import LOCALHOST, ClusterSpec, TaskName
from tracer.model.graph import Graph, Node
from tracer.model.step import SpanContext
from tracer.passes.placer import BY_RULE, Placer
from tracer.record.recorder import NO_RECORDER, Recorder
from tracer.runtime.client_names import check_fetch, feed_check, fetch_names, tensor_fed
from tracer.runtime.client_values import are_kept, copied
from tracer.runtime.cuda import CUDA
from tracer.runtime.devices import make_devices
from tracer.runtime.gpu import Driver
from tracer.runtime.interfaces import (
    SHARED,
    DeviceAttributes,
    MasterInterface,
    RequestNames,
    RunCallableRequest,
    RunStepRequest,
    RunStepResult,
    SessionOptions,
    StepError,
)
from tracer.runtime.master import STEP_TIMEOUT_S, Master
from tracer.runtime.worker import Worker
from tracer.runtime.worker_cache import WorkerCache
from tracer.runtime.worker_env import ExecutorKind, WorkerEnv

Value = torch.Tensor | None


@dataclass(frozen=True, slots=True)
class Tracing:
    """Where a client's spans go.

    `run` is the context of what lies outside steps; `step` gives the root context of a step by its
    number, from 1.
    """

    recorder: Recorder
    run: SpanContext
    step: Callable[[int], SpanContext]


def _told(value: torch.Tensor) -> float | str:
    """A number, or several beside each other; what is no number stays empty."""
    if not value.dim():
        number: float = value.item()
        return number
    return ",".join("" if isnan(each) else f"{each:.9g}" for each in value.tolist())


def _unsampled(step: int) -> SpanContext:
    return SpanContext(0, 1, 0, step, sampled=False)


NO_TRACING = Tracing(NO_RECORDER, _unsampled(0), _unsampled)


class _Plan:
    """What a list of fetches asks for: `node:port` fetches a tensor, `node` only runs it.

    A fetch that is also fed is answered from the feed. `full` are the feeds' names with their
    ports, `checks` what their values must be. `is_near`: the master is in this process.
    """

    def __init__(
        self, graph: Graph, fetches: Sequence[str], feeds: Sequence[str], *, is_near: bool
    ) -> None:
        for name in fetches:
            check_fetch(graph, name)
        self.full = tuple(tensor_fed(graph, name) for name in feeds)
        self.is_full = self.full == tuple(feeds)
        self.checks = tuple(
            (name, check) for name in self.full if (check := feed_check(graph, name)) is not None
        )
        self.names = tuple(fetches)
        wanted = dict.fromkeys(fetches)
        self.fetches = tuple(name for name in wanted if ":" in name and name not in self.full)
        self.targets = tuple(name for name in wanted if ":" not in name)
        self.request = RequestNames(self.full, self.fetches, self.targets)
        self.is_near = is_near
        self.keeps = is_near and are_kept(graph, wanted)

    def feeds(self, given: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """By full name, each checked, and cast where its dtype is another. Raises StepError."""
        feeds = given if self.is_full else dict(zip(self.full, given.values(), strict=True))
        for name, check in self.checks:
            if (fitted := check(value := feeds[name])) is not value:
                feeds = {**feeds, name: fitted}
        return copied(feeds) if self.keeps else feeds

    def values(self, feeds: Mapping[str, torch.Tensor], result: RunStepResult) -> list[Value]:
        fetched = copied(result.fetched) if self.is_near else result.fetched
        return [fetched[name] if name in fetched else feeds.get(name) for name in self.names]


class Session:
    """Feeds are tensors by `node:port`. Sessions see the same variables, which live in their tasks.

    Isolated ones have their own. Methods raise StepError. Steps are numbered from 1 in the order in
    which they were asked for.
    """

    def __init__(
        self,
        master: MasterInterface,
        graph: Graph,
        tracing: Tracing = NO_TRACING,
        options: SessionOptions = SHARED,
    ) -> None:
        self.num_steps = 0
        self._master = master
        self._is_near = isinstance(master, Master)
        self._graph = graph
        self._tracing = tracing
        self._plans: dict[tuple[tuple[str, ...], tuple[str, ...]], _Plan] = {}
        self._version = 0
        self._is_closed = False
        with tracing.recorder.span("session.create", tracing.run) as span:
            self.handle = master.create_session(graph, span.context, options)
            span.set("vizdist.session.handle", self.handle)

    def extend(self, nodes: Iterable[Node]) -> None:
        """Adds nodes to the session's graph; what was run before stays as it is.

        Raises GraphError for nodes that do not fit, StepError ABORTED if another client has
        extended the graph meanwhile.
        """
        self._check_open()
        more = tuple(nodes)
        extended = Graph([*self._graph.nodes, *more])
        self._version = self._master.extend_session(self.handle, more, self._version)
        self._graph = extended

    def list_devices(self) -> tuple[DeviceAttributes, ...]:
        self._check_open()
        return self._master.list_devices(self.handle)

    def run(
        self,
        fetches: str | Sequence[str],
        feeds: Mapping[str, torch.Tensor] | None = None,
        record: Mapping[str, str] | None = None,
    ) -> Any:
        """Runs a step; returns the fetched tensors in order (one alone for one name).

        Targets give None. `record` maps attributes of the step's span to fetches that become their
        values.
        """
        self._check_open()
        feeds = {} if feeds is None else feeds
        values = self._run(self._plan(fetch_names(fetches), tuple(feeds)), feeds, record)
        return values[0] if isinstance(fetches, str) else values

    def make_callable(
        self,
        fetches: str | Sequence[str],
        feeds: str | Sequence[str] = (),
        record: Mapping[str, str] | None = None,
    ) -> "SessionCallable":
        """The same as a function of the fed tensors, whose names the master knows from now on."""
        self._check_open()
        plan = self._plan(fetch_names(fetches), fetch_names(feeds))
        return SessionCallable(
            self, plan, self._master.make_callable(self.handle, plan.request), record
        )

    def partial_run_setup(
        self, fetches: str | Sequence[str], feeds: str | Sequence[str] = ()
    ) -> "PartialRun":
        """A step whose feeds come, and whose fetches are taken, in several calls, each once."""
        self._check_open()
        plan = self._plan(fetch_names(fetches), fetch_names(feeds))
        handle = self._master.partial_run_setup(self.handle, plan.request)
        self.num_steps += 1
        return PartialRun(self, handle, self._tracing.step(self.num_steps))

    def _plan(self, fetches: tuple[str, ...], feeds: tuple[str, ...]) -> _Plan:
        plan = self._plans.get((fetches, feeds))
        if plan is None:
            plan = _Plan(self._graph, fetches, feeds, is_near=self._is_near)
            self._plans[fetches, feeds] = plan
        return plan

    def _run(
        self, plan: _Plan, feeds: Mapping[str, torch.Tensor], record: Mapping[str, str] | None
    ) -> list[Value]:
        fed = plan.feeds(feeds)

        def send(context: SpanContext) -> RunStepResult:
            return self._master.run_step(
                RunStepRequest(self.handle, fed, plan.fetches, plan.targets, context)
            )

        return self._step(plan, fed, record, send)

    def _run_callable(
        self,
        plan: _Plan,
        handle: int,
        tensors: tuple[torch.Tensor, ...],
        record: Mapping[str, str] | None,
    ) -> list[Value]:
        self._check_open()
        feeds = plan.feeds(dict(zip(plan.full, tensors, strict=True)))
        fed = tuple([feeds[name] for name in plan.full])

        def send(context: SpanContext) -> RunStepResult:
            return self._master.run_callable(RunCallableRequest(self.handle, handle, fed, context))

        return self._step(plan, feeds, record, send)

    def _step(
        self,
        plan: _Plan,
        feeds: Mapping[str, torch.Tensor],
        record: Mapping[str, str] | None,
        send: Callable[[SpanContext], RunStepResult],
    ) -> list[Value]:
        self.num_steps += 1
        context = self._tracing.step(self.num_steps)
        return self._traced(context, plan, feeds, send, record or {})

    def _traced(
        self,
        context: SpanContext,
        plan: _Plan,
        feeds: Mapping[str, torch.Tensor],
        send: Callable[[SpanContext], RunStepResult],
        record: Mapping[str, str],
        told: Mapping[str, str] = MappingProxyType({}),
    ) -> list[Value]:
        """Sends a request under the step's span; `told` are further attributes of it."""
        if not context.sampled:
            return plan.values(feeds, send(context))
        recorder = self._tracing.recorder
        recorder.step_boundary()
        with recorder.span("session.run", context, **told) as span:
            span.set("vizdist.session.handle", self.handle)
            result = send(span.context)
            span.stop_clock()
            values = plan.values(feeds, result)
            span.set("vizdist.step.id", f"{result.step_id:016x}")
            span.set("vizdist.cache.hit", result.was_made)
            for attribute, name in record.items():
                value = values[plan.names.index(name)]
                if value is not None:
                    span.set(attribute, _told(value))
        return values

    def _run_part(
        self,
        handle: str,
        context: SpanContext,
        fetches: str | Sequence[str],
        feeds: Mapping[str, torch.Tensor],
    ) -> list[Value]:
        self._check_open()
        plan = self._plan(fetch_names(fetches), tuple(feeds))
        fed = plan.feeds(feeds)
        if self._is_near:  # what one call brings may be read after the next
            fed = copied(fed)

        def send(context: SpanContext) -> RunStepResult:
            return self._master.run_step(
                RunStepRequest(self.handle, fed, plan.fetches, (), context, handle)
            )

        return self._traced(context, plan, fed, send, {}, {"vizdist.partial_run": handle})

    def _check_open(self) -> None:
        if self._is_closed:
            raise StepError("FAILED_PRECONDITION", "Attempted to use a closed Session.")

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        with self._tracing.recorder.span("session.close", self._tracing.run):
            self._master.close_session(self.handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """What went wrong inside is said, not what then went wrong in closing."""
        with suppress(StepError) if error is not None else nullcontext():
            self.close()


class SessionCallable:
    """A step as a function of its feeds. The master forgets it with `release`."""

    def __init__(
        self, session: Session, plan: _Plan, handle: int, record: Mapping[str, str] | None
    ) -> None:
        self.handle = handle
        self._session = session
        self._plan = plan
        self._record = record

    def __call__(self, *tensors: torch.Tensor) -> list[Value]:
        return self._session._run_callable(self._plan, self.handle, tensors, self._record)

    def release(self) -> None:
        self._session._master.release_callable(self._session.handle, self.handle)


class PartialRun:
    """A step that goes on from call to call, until all its feeds and fetches have come."""

    def __init__(self, session: Session, handle: str, context: SpanContext) -> None:
        self.handle = handle
        self._session = session
        self._context = context

    def run(
        self,
        fetches: str | Sequence[str] = (),
        feeds: Mapping[str, torch.Tensor] = MappingProxyType({}),
    ) -> list[Value]:
        """Brings some feeds, takes some fetches. Raises StepError for one that came before."""
        return self._session._run_part(self.handle, self._context, fetches, feeds)


class DirectSession(Session):
    """One task without a cluster: its devices are `/job:localhost`, nothing leaves the process.

    `label` is how rows and errors name the task.
    """

    def __init__(
        self,
        graph: Graph,
        devices: Sequence[str] = ("cpu:0",),
        tracing: Tracing = NO_TRACING,
        *,
        label: str = "worker:0",
        step_timeout_s: float = STEP_TIMEOUT_S,
        executor: ExecutorKind = "generated",
        driver: Driver = CUDA,
        placer: Placer = BY_RULE,
    ) -> None:
        task = TaskName(LOCALHOST, 0)
        env = WorkerEnv(
            task,
            make_devices(task, devices, tracing.recorder, driver),
            recorder=tracing.recorder,
            executor=executor,
            label=label,
        )
        self.worker = Worker(env, WorkerCache())
        cluster = ClusterSpec.of_counts(**{LOCALHOST: 1})
        self._owned = Master(self.worker, cluster, step_timeout_s=step_timeout_s, placer=placer)
        super().__init__(self._owned, graph, tracing)

    def close(self) -> None:
        super().close()
        self._owned.close()
        self.worker.close()
