"""A worker's part of a step: the client's feeds in, executors, its fetches out.

In a partial run the executors go on from the first call to the last, and each call brings some
feeds and takes some fetches (TF `partial_run_mgr.cc`).
"""

import threading
from collections.abc import Mapping, Sequence
from functools import partial

import torch

from tracer.model.graph import Node
from tracer.model.step import SpanContext
from tracer.ops.kernel import OpError
from tracer.record.open_span import OpenSpan
from tracer.record.recorder import Recorder
from tracer.runtime.copies import Copies
from tracer.runtime.interfaces import (
    Received,
    RunDone,
    RunGraphRequest,
    RunGraphResult,
    StepError,
)
from tracer.runtime.prepared import KINDS, Kind
from tracer.runtime.remote_rendezvous import StepRendezvous
from tracer.runtime.step_run import Executor, ExecutorDone, StepRun, close_recv
from tracer.runtime.worker_env import WorkerEnv


class ClientEnd:
    """A feed or fetch of a registered graph, as it is recorded."""

    __slots__ = ("key_number", "site")

    def __init__(self, recorder: Recorder, node: Node, key: str) -> None:
        is_feed = KINDS[node.op] is Kind.RECV
        self.key_number = recorder.key(key)
        self.site = recorder.site(
            "rendezvous.send" if is_feed else "rendezvous.recv",
            name=node.attrs["tensor_name"],
            lane="feeds" if is_feed else "fetches",
            attributes={
                "vizdist.edge.kind": "feed" if is_feed else "fetch",
                "vizdist.device": node.device,
            },
        )


class RegisteredGraph:
    """`ends` are the client's ends by key; a graph of a task without cluster has none.

    `copies` are those of distributed variables that it writes, told after each recorded step.
    `is_alone`: it has one partition there, so nothing is ever sent.
    """

    def __init__(
        self,
        executors: list[Executor],
        ends: Mapping[str, ClientEnd],
        copies: Copies | None = None,
        *,
        is_alone: bool,
    ) -> None:
        self.executors = executors
        self.ends = ends
        self.copies = copies
        self.is_alone = is_alone


class PartialRun:
    """The executors of a step that comes in several calls, for its last call as if they were one.

    They outlive the first call, so what they record lies in the step and in no call.
    """

    def __init__(
        self, graph: RegisteredGraph, context: SpanContext, rendezvous: StepRendezvous
    ) -> None:
        self._executors = graph.executors
        self._step = StepRun(rendezvous, context.under(0), {})
        self._lock = threading.Lock()
        self._left = len(graph.executors)
        self._error: StepError | None = None
        self._done: ExecutorDone | None = None

    def start(self) -> None:
        for executor in self._executors:
            executor.run(self._step, self._ended)

    def run(self, _: StepRun, done: ExecutorDone) -> None:
        """Calls `done` when all executors have ended."""
        with self._lock:
            if self._left:
                self._done = done
                return
        done(self._error)

    def _ended(self, error: StepError | None) -> None:
        with self._lock:
            if error is not None and (self._error is None or self._error.derived):
                self._error = error
            self._left -= 1
            done = None if self._left else self._done
        if done is not None:
            done(self._error)


class GraphRun:
    """One call of one worker's part of a step: feeds in, executors, fetches out."""

    def __init__(
        self,
        env: WorkerEnv,
        graph: RegisteredGraph,
        executors: Sequence[Executor],
        request: RunGraphRequest,
        rendezvous: StepRendezvous,
        done: RunDone,
    ) -> None:
        self._env = env
        self._graph = graph
        self._executors = executors
        self._request = request
        self._rendezvous = rendezvous
        self._done = done
        self._step = StepRun(rendezvous, request.context, request.feeds)
        self._keys = request.fetch_keys if graph.ends else ()
        self._left = list(range(len(executors) + len(self._keys)))  # counts down, see executors
        self._fetched: dict[str, torch.Tensor] = {}
        self._error: StepError | None = None

    def start(self) -> None:
        if self._graph.ends:
            try:
                self._feed()
            except StepError as error:  # aborted before it began
                self._error = error
        if not self._left:
            self._finish()
        for key in self._keys:
            self._fetch(key)
        for executor in self._executors:
            executor.run(self._step, self._ended)

    def _feed(self) -> None:
        send, context = self._rendezvous.local.send, self._request.context
        if not context.sampled:
            for key, tensor in self._request.feeds.items():
                send(key, tensor)
            return
        now, writer = self._env.recorder.now, self._env.recorder.writer()
        for key, tensor in self._request.feeds.items():
            end = self._graph.ends[key]
            start = now()
            span = writer.begin(end.site, context, start)
            send(key, tensor, False, span)
            writer.end(
                start,
                now(),
                num_bytes=tensor.nbytes,
                key=end.key_number,
            )

    def _fetch(self, key: str) -> None:
        end = self._graph.ends[key]
        span = self._env.recorder.open(end.site, self._request.context, end.key_number)
        self._rendezvous.local.recv(key, partial(self._received, key, span))

    def _received(self, key: str, span: OpenSpan, received: Received) -> None:
        if self._request.context.sampled:
            close_recv(self._env.recorder, span, received, is_remote=False)
        if received.error is not None:
            self._ended(received.error)
        elif received.tensor is None:
            self._ended(self._invalid(key))
        else:
            self._fetched[key] = received.tensor
            self._ended(None)

    def _invalid(self, key: str) -> StepError:
        return StepError(
            "INTERNAL",
            f"Failed to fetch outputs for step {self._request.step_id}. (Original error message: "
            f"The tensor returned for {key} was not valid.)",
            task=self._env.name,
        )

    def _ended(self, error: StepError | None) -> None:
        if error is not None and (self._error is None or self._error.derived):
            self._error = error
        if self._left.pop() == 0:
            self._finish()

    def _finish(self) -> None:
        if self._error is not None:
            self._done(RunGraphResult(error=self._error))
            return
        try:
            self._tell_copies()
        except Exception as error:  # noqa: BLE001 (a step that does not hear of it never ends)
            reason = OpError.of(error)
            failed = StepError(reason.code, reason.message, task=self._env.name)
            self._done(RunGraphResult(error=failed))
            return
        fetched = self._fetched if self._graph.ends else self._step.results
        self._done(RunGraphResult(fetched))

    def _tell_copies(self) -> None:
        if self._graph.copies is not None and self._request.context.sampled:
            self._graph.copies.tell(self._request.context)
