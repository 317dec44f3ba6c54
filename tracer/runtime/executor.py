"""Runs a partition node by node from a ready queue, by pending counts (TF `executor.cc`).

The plain and slow twin of the generated executor; it takes every partition that has no control
flow.
"""

import threading
from collections import deque
from functools import partial
from typing import Any

from tracer.model.step import SpanContext
from tracer.model.trace_folder import Flag
from tracer.record.open_span import OpenSpan
from tracer.record.recorder import Recorder
from tracer.runtime import turn
from tracer.runtime.interfaces import Received, StepError
from tracer.runtime.prepared import Kind, PreparedNode, PreparedPartition
from tracer.runtime.segment_code import moved_values
from tracer.runtime.step_run import (
    ExecutorDone,
    StepRun,
    close_recv,
    device_error,
    error_at,
    value_of,
)


class QueueExecutor:
    def __init__(self, partition: PreparedPartition, recorder: Recorder) -> None:
        self.partition = partition
        self.recorder = recorder
        self.pending = [len(node.after) for node in partition.nodes]
        self.consumers: list[list[int]] = [[] for _ in partition.nodes]
        self.uses = [0] * partition.num_values
        for position, node in enumerate(partition.nodes):
            for before in node.after:
                self.consumers[before].append(position)
            for value in node.inputs:
                self.uses[value] += 1

    def run(self, step: StepRun, done: ExecutorDone) -> None:
        _Run(self, step, done).start()


class _Run:
    """One step of one partition. `_ready` holds (position, when it became ready in ns)."""

    def __init__(self, executor: QueueExecutor, step: StepRun, done: ExecutorDone) -> None:
        self._executor = executor
        self._nodes = executor.partition.nodes
        self._step = step
        self._done = done
        self._recorder = executor.recorder
        self._span = self._recorder.open(executor.partition.site, step.context)
        self._context: SpanContext = self._span.context
        self._lock = threading.Lock()
        self._pending = executor.pending.copy()
        self._uses = executor.uses.copy()
        self._values: list[Any] = [None] * executor.partition.num_values
        self._left = len(self._nodes)
        self._ready: deque[tuple[int, int]] = deque()
        self._error: StepError | None = None
        self._gpu = executor.partition.device.gpu
        self._work = self._gpu.on_stream(self._process) if self._gpu else self._process

    def start(self) -> None:
        if not self._nodes:
            self._end()
        roots = (at for at, pending in enumerate(self._pending) if not pending)
        self._ready.extend((at, self._span.start) for at in roots)
        turn.run(self._work)

    def _process(self) -> None:
        while self._ready:
            try:
                position, ready = self._ready.popleft()
            except IndexError:  # another thread was faster
                return
            node = self._nodes[position]
            if node.kind is Kind.RECV and self._error is None:
                self._ask(position, node)
                continue
            if self._error is None:
                try:
                    self._run_node(node, ready)
                except Exception as error:  # noqa: BLE001 (kernels may raise anything)
                    self._fail(error_at(self._executor.partition, node, error))
            self._ended(position)

    def _ask(self, position: int, node: PreparedNode) -> None:
        span = self._recorder.open(node.site, self._context, node.key_number)
        self._step.pull(node, span.context, partial(self._arrived, position, span))

    def _arrived(self, position: int, span: OpenSpan, received: Received) -> None:
        node = self._nodes[position]
        partition = self._executor.partition
        try:
            if self._context.sampled:
                close_recv(self._recorder, span, received, is_remote=node.source is not None)
            self._values[node.outputs[0]] = value_of(partition, node, received, span)
        except Exception as error:  # noqa: BLE001 (as of a kernel)
            self._fail(error_at(partition, node, error))
        self._ended(position)
        turn.run(self._work)

    def _run_node(self, node: PreparedNode, ready: int) -> None:
        inputs = [self._values[value] for value in node.inputs]
        if not self._context.sampled:
            self._store(node, self._call(node, inputs, 0))
            return
        recorder, writer = self._recorder, self._recorder.writer()
        start = recorder.now()
        span = writer.begin(node.site, self._context, start)
        variable = self._values[node.variable] if node.variable >= 0 else None
        version = variable.version if variable is not None else 0
        gpu = self._gpu if node.kind is Kind.KERNEL and node.run_site else None
        begun = gpu.mark() if gpu else None
        try:
            result = self._call(node, inputs, span)
            end = recorder.now()
            self._store(node, result)
        except Exception as error:
            recorder.annotate(span, {}, error=str(error))
            writer.end(start, recorder.now(), ready, flags=Flag.ERROR)
            raise
        num_bytes = sum(getattr(self._values[v], "nbytes", 0) for v in moved_values(node))
        extra = variable.version if node.writes and variable is not None else version
        if gpu and begun:
            gpu.launched(node.run_site, self._context, span, start, begun, num_bytes, extra)
            num_bytes = extra = 0
        writer.end(start, end, ready, num_bytes=num_bytes, key=node.key_number, extra=extra)

    def _call(self, node: PreparedNode, inputs: list[Any], span: int) -> Any:
        match node.kind:
            case Kind.SEND:
                value, send = node.kernel(inputs[0]), self._step.rendezvous.local.send
                if node.sends is None:
                    return send(node.key, value, False, span)
                context = self._context if self._context.sampled else None
                return node.sends(send, node.key, value, False, span, context)
            case Kind.RETVAL:
                self._step.results[node.key] = node.kernel(inputs[0])
                return None
            case Kind.ARG:
                return node.kernel(self._step.args[node.key])
            case _:
                return node.kernel(*inputs)

    def _store(self, node: PreparedNode, result: Any) -> None:
        if len(node.outputs) == 1:
            self._values[node.outputs[0]] = result
        elif node.outputs:
            for value, output in zip(node.outputs, result, strict=True):
                self._values[value] = output

    def _ended(self, position: int) -> None:
        """Counts the node's consumers down and lets go of what was read for the last time."""
        when = self._recorder.now() if self._context.sampled else 0
        with self._lock:
            for consumer in self._executor.consumers[position]:
                self._pending[consumer] -= 1
                if not self._pending[consumer]:
                    self._ready.append((consumer, when))
            for value in self._nodes[position].inputs:
                self._uses[value] -= 1
                if not self._uses[value]:
                    self._values[value] = None
            self._left -= 1
            is_last = not self._left
        if is_last:
            self._end()

    def _fail(self, error: StepError) -> None:
        """The first error stands; after it nodes only count down."""
        if self._error is None:
            self._error = error
            self._step.rendezvous.abort(error)

    def _end(self) -> None:
        """Once all nodes have ended; on a GPU they have only been launched by then."""
        if self._gpu is None:
            self._finish()
        else:
            self._gpu.when_drained(self._drained)

    def _drained(self, error: Exception | None) -> None:
        if error is not None:
            self._fail(device_error(self._executor.partition, error))
        self._finish()

    def _finish(self) -> None:
        if self._error is not None and self._context.sampled:
            self._recorder.annotate(self._span.span, {}, error=self._error.message)
        self._span.close(flags=Flag.ERROR if self._error is not None else 0)
        self._done(self._error)
