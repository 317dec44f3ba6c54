"""The client's side: a graph, a master, one `run` a step (TF `session.py`, `direct_session.cc`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch

from tracer.model.cluster import LOCALHOST, ClusterSpec, TaskName
from tracer.model.graph import Graph, Input
from tracer.model.step import SpanContext
from tracer.record.recorder import NO_RECORDER, Recorder
from tracer.runtime.cuda import CUDA
from tracer.runtime.devices import make_devices
from tracer.runtime.gpu import Driver
from tracer.runtime.interfaces import MasterInterface, RunStepRequest, RunStepResult, StepError
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


def _unsampled(step: int) -> SpanContext:
    return SpanContext(0, 1, 0, step, sampled=False)


NO_TRACING = Tracing(NO_RECORDER, _unsampled(0), _unsampled)


class _Plan:
    """What a list of fetches asks for: `node:port` fetches a tensor, `node` only runs it.

    A fetch that is also fed is answered from the feed.
    """

    def __init__(self, fetches: Sequence[str], feeds: Sequence[str]) -> None:
        self.names = tuple(fetches)
        wanted = dict.fromkeys(fetches)
        self.fetches = tuple(name for name in wanted if ":" in name and name not in feeds)
        self.targets = tuple(name for name in wanted if ":" not in name)

    def values(self, feeds: Mapping[str, torch.Tensor], result: RunStepResult) -> list[Value]:
        fetched = result.fetched
        return [fetched[name] if name in fetched else feeds.get(name) for name in self.names]


class Session:
    """Feeds are tensors by `node:port`. Sessions see the same variables, which live in their tasks.

    Methods raise StepError. Steps are numbered from 1 in the order in which they were asked for.
    """

    def __init__(
        self, master: MasterInterface, graph: Graph, tracing: Tracing = NO_TRACING
    ) -> None:
        self.num_steps = 0
        self._master = master
        self._graph = graph
        self._tracing = tracing
        self._plans: dict[tuple[tuple[str, ...], tuple[str, ...]], _Plan] = {}
        self._is_closed = False
        with tracing.recorder.span("session.create", tracing.run) as span:
            self.handle = master.create_session(graph, span.context)
            span.set("vizdist.session.handle", self.handle)

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
        feeds = {} if feeds is None else feeds
        names = (fetches,) if isinstance(fetches, str) else tuple(fetches)
        values = self._run(self._plan(names, tuple(feeds)), feeds, record)
        return values[0] if isinstance(fetches, str) else values

    def make_callable(
        self,
        fetches: Sequence[str],
        feeds: Sequence[str] = (),
        record: Mapping[str, str] | None = None,
    ) -> Callable[..., list[Value]]:
        """The same as a function of the fed tensors."""
        names = tuple(feeds)
        plan = self._plan(tuple(fetches), names)

        def step(*tensors: torch.Tensor) -> list[Value]:
            return self._run(plan, dict(zip(names, tensors, strict=True)), record)

        return step

    def _plan(self, fetches: tuple[str, ...], feeds: tuple[str, ...]) -> _Plan:
        plan = self._plans.get((fetches, feeds))
        if plan is None:
            plan = self._plans[fetches, feeds] = _Plan(fetches, feeds)
        return plan

    def _run(
        self, plan: _Plan, feeds: Mapping[str, torch.Tensor], record: Mapping[str, str] | None
    ) -> list[Value]:
        if self._is_closed:
            raise StepError("FAILED_PRECONDITION", "Attempted to use a closed Session.")
        for name, tensor in feeds.items():
            self._check_feed(name, tensor)
        self.num_steps += 1
        context = self._tracing.step(self.num_steps)
        if not context.sampled:
            return plan.values(feeds, self._master.run_step(self._request(plan, feeds, context)))
        recorder = self._tracing.recorder
        recorder.step_boundary()
        with recorder.span("session.run", context) as span:
            span.set("vizdist.session.handle", self.handle)
            result = self._master.run_step(self._request(plan, feeds, span.context))
            span.stop_clock()
            values = plan.values(feeds, result)
            span.set("vizdist.step.id", f"{result.step_id:016x}")
            for attribute, name in (record or {}).items():
                value = values[plan.names.index(name)]
                if value is not None:
                    span.set(attribute, value.item())
        return values

    def _request(
        self, plan: _Plan, feeds: Mapping[str, torch.Tensor], context: SpanContext
    ) -> RunStepRequest:
        return RunStepRequest(self.handle, feeds, plan.fetches, plan.targets, context)

    def _check_feed(self, name: str, tensor: torch.Tensor) -> None:
        node = self._graph.get(Input.parse(name).node)
        shape = None if node is None else node.attrs.get("shape")
        if shape is None or node is None or node.op not in ("Placeholder", "PlaceholderV2"):
            return
        given = tuple(tensor.shape)
        fits = len(shape) == len(given) and all(
            want in (None, -1, have) for want, have in zip(shape, given, strict=True)
        )
        if not fits:
            raise StepError(
                "INVALID_ARGUMENT",
                f"Cannot feed value of shape {given} for Tensor {name}, which has shape "
                f"{tuple(shape)}",
                node=node.name,
            )

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        with self._tracing.recorder.span("session.close", self._tracing.run):
            self._master.close_session(self.handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


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
        self._owned = Master(self.worker, cluster, step_timeout_s=step_timeout_s)
        super().__init__(self._owned, graph, tracing)

    def close(self) -> None:
        super().close()
        self._owned.close()
        self.worker.close()
