"""Runs a partition without control flow as generated functions, one a segment.

No thread waits: a `_Recv`'s answer, or the end of an asynchronous kernel, counts its segments down
on the thread that brings it, and whoever counts to zero runs the segment in its turn, or hands it
to the device's thread where it is known to be long. After a failure everything still counts down,
only nothing computes any more, so a partition always ends exactly once, when all its answers are
in.

A `_Recv` may get word that its value is dead, for it lies on a branch that was not taken. Then all
nodes that need it are dead, which are whole segments: only their `_Send`s run, to say so.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tracer.model.step import SpanContext
from tracer.model.trace_folder import Flag
from tracer.ops.kernel import DEAD
from tracer.record.open_span import OpenSpan
from tracer.record.recorder import Recorder
from tracer.runtime import turn
from tracer.runtime.async_wait import Wait, by_port
from tracer.runtime.interfaces import Received, StepError
from tracer.runtime.prepared import Kind, PreparedNode, PreparedPartition
from tracer.runtime.segment_code import SegmentCode, compile_segment
from tracer.runtime.segments import Cut, Segment, cut_into_segments
from tracer.runtime.step_run import (
    ExecutorDone,
    StepRun,
    close_recv,
    dead_result,
    device_error,
    error_at,
    value_of,
)

#: a segment that takes longer than this is no work for a thread that also reads messages
INLINE_LIMIT_NS = 400_000


class _Waiting:
    """A `_Recv` or an asynchronous kernel: where its values go and which segments count it."""

    __slots__ = ("node", "segments", "slots")

    def __init__(
        self, node: PreparedNode, slots: tuple[int, ...], segments: tuple[int, ...]
    ) -> None:
        self.node = node
        self.slots = slots
        self.segments = segments


class _Part:
    """A segment with its code, the asynchronous kernels that it begins, and its cost.

    The cost follows quick runs at once and slow ones by and by: on a busy machine a run is often
    slow because its thread was put aside, and handing it to another thread would make that worse.
    """

    __slots__ = ("begins", "code", "cost_ns", "segment")

    def __init__(
        self, segment: Segment, code: SegmentCode, begins: tuple[_Waiting, ...] = ()
    ) -> None:
        self.segment = segment
        self.code = code
        self.begins = begins
        self.cost_ns = 0

    def see(self, took_ns: int) -> None:
        more = took_ns - self.cost_ns
        self.cost_ns += more >> 6 if more > 0 else more >> 1


class GeneratedExecutor:
    def __init__(self, partition: PreparedPartition, recorder: Recorder) -> None:
        nodes, gpu = partition.nodes, partition.device.gpu
        cut = cut_into_segments(nodes)
        self.run_types = (_Run, _TracedRun) if gpu is None else (_GpuRun, _TracedGpuRun)
        self.partition = partition
        self.recorder = recorder
        waits = {at: _waiting(nodes[at], cut, at) for at in cut.waiting}
        self.recvs = [wait for wait in waits.values() if wait.node.kind is Kind.RECV]
        self.kernels = {at: wait for at, wait in waits.items() if wait.node.kind is Kind.ASYNC}
        self.parts = [
            _Part(
                segment,
                compile_segment(nodes, segment, cut.slots, recorder, gpu),
                tuple(self.kernels[at] for at in segment.nodes if at in self.kernels),
            )
            for segment in cut.segments
        ]
        self.frame: list[Any] = [None] * (len(cut.slots) + 1)
        self.counts = [list(range(part.segment.num_needs)) for part in self.parts]
        self.left = list(range(len(self.parts) + len(waits)))
        self.first = [at for at, part in enumerate(self.parts) if not part.segment.num_needs]

    def run(self, step: StepRun, done: ExecutorDone) -> None:
        self.run_types[step.context.sampled](self, step, done).start()


def _waiting(node: PreparedNode, cut: Cut, at: int) -> _Waiting:
    unread = len(cut.slots)  # a place of its own for what only orders others
    slots = tuple(cut.slots.get(value, unread) for value in node.outputs)
    return _Waiting(node, slots, cut.waiting[at])


class _Run:
    """One step of one partition.

    A count-down is a list of numbers: `pop` is atomic, and who pops 0 was the last. So no lock is
    needed, whatever thread an answer comes on.
    """

    __slots__ = (
        "begun",
        "context",
        "counts",
        "dead",
        "done",
        "error",
        "executor",
        "frame",
        "left",
        "send",
        "step",
        "waits",
    )

    def __init__(self, executor: GeneratedExecutor, step: StepRun, done: ExecutorDone) -> None:
        self.executor = executor
        self.step = step
        self.context: SpanContext = step.context  #: of what it does
        self.done = done
        self.error: StepError | None = None
        self.frame = executor.frame.copy()
        self.counts = [count.copy() for count in executor.counts]
        self.left = executor.left.copy()
        self.dead: set[int] = set()  # segments
        self.begun: set[_Waiting] = set()  # asynchronous kernels
        self.waits: set[Wait[_Waiting]] = set()
        self.send = step.rendezvous.local.send

    def start(self) -> None:
        self.begin(0)

    def begin(self, when: int) -> None:
        """Asks for all values first, so that the requests leave before anything computes."""
        if self.executor.kernels:
            self.step.rendezvous.when_aborted(self.stop)
        if not self.left:
            self.finish()
        for recv in self.executor.recvs:
            self.ask(recv)
        for number in self.executor.first:
            self.spawn(number, when)

    def ask(self, recv: _Waiting) -> None:
        self.step.pull(recv.node, self.step.context, partial(self.arrived, recv, None))

    def arrived(self, recv: _Waiting, span: OpenSpan | None, received: Received) -> None:
        """Whatever goes wrong, the segments are counted down: nobody else will do it."""
        executor, node, when = self.executor, recv.node, 0
        try:
            if span is not None:
                is_remote = node.source is not None
                when = close_recv(executor.recorder, span, received, is_remote=is_remote)
            value = value_of(node, received, span)
            if value is DEAD:
                self.dead.update(recv.segments)
            else:
                self.frame[recv.slots[0]] = value
        except Exception as error:  # noqa: BLE001 (as of a kernel)
            self.fail(error_at(executor.partition, node, error))
        self.count_down(recv.segments, when)

    def count_down(self, numbers: Sequence[int], when: int) -> None:
        """One thing that these segments wait for is there; one thing fewer is left to do."""
        counts = self.counts
        for number in numbers:
            if counts[number].pop() == 0:
                self.spawn(number, when)
        if self.left.pop() == 0:
            self.finish()

    def spawn(self, number: int, when: int) -> None:
        work = partial(self.segment, number, when)
        if self.executor.parts[number].cost_ns > INLINE_LIMIT_NS:
            self.executor.partition.device.thread.submit(work)
        else:
            turn.run(work)

    def segment(self, number: int, when: int) -> None:
        part = self.executor.parts[number]
        if self.error is None:
            start = time.perf_counter_ns()
            try:
                if self.dead and number in self.dead:
                    self.bury(part, when)
                else:
                    self.compute(part.code, when)
            except Exception as error:  # noqa: BLE001 (kernels may raise anything)
                partition = self.executor.partition
                position = part.code.failed_node(error)
                node = partition.nodes[position] if position >= 0 else None
                self.fail(error_at(partition, node, error))
            part.see(time.perf_counter_ns() - start)
        for kernel in part.begins:
            if kernel not in self.begun:  # it failed or is dead before that
                self.count_down(kernel.segments, self.now())
        self.count_down(part.segment.successors, self.now())

    def compute(self, code: SegmentCode, when: int) -> None:  # noqa: ARG002 (traced)
        code.plain(self.frame, self.send, self.launch, self.step.args, self.step.results)

    def launch(self, at: int, ready: int, *inputs: Any) -> None:
        """Begins an asynchronous kernel."""
        kernel = self.executor.kernels[at]
        wait = Wait(self, kernel, ready, self.opened(kernel.node))
        self.begun.add(kernel)
        self.waits.add(wait)
        try:
            wait.goes_on(kernel.node.kernel(wait, *inputs))
        except Exception as error:  # noqa: BLE001 (kernels may raise anything)
            wait(error=error)
        if self.error is not None:
            wait.cancel()

    def opened(self, node: PreparedNode) -> OpenSpan | None:  # noqa: ARG002 (traced)
        return None

    def waited(self, wait: Wait[_Waiting], result: Any, error: Exception | None) -> None:
        """An asynchronous kernel has ended: as of a value that arrived."""
        self.waits.discard(wait)
        node = wait.place.node
        outputs: tuple[Any, ...] = ()
        failure: StepError | None = None
        try:
            if error is not None:
                raise error
            outputs = tuple(by_port(node, result))
            for slot, value in zip(wait.place.slots, outputs, strict=False):
                self.frame[slot] = value
        except Exception as reason:  # noqa: BLE001 (as of a kernel)
            failure = error_at(self.executor.partition, node, reason)
            self.fail(failure)
        wait.close_span(outputs, failure)
        self.count_down(wait.place.segments, self.now())

    def stop(self, error: StepError) -> None:
        """The step is aborted: nothing more computes, and what waits is told to end."""
        if self.error is None:
            self.error = error
        for wait in list(self.waits):
            wait.cancel()

    def bury(self, part: _Part, when: int) -> None:
        """What waits for a dead segment needs the same value, and more: it is dead too."""
        segment = part.segment
        self.dead.update(segment.successors, *(kernel.segments for kernel in part.begins))
        for position in segment.nodes:
            node = self.executor.partition.nodes[position]
            if node.kind is Kind.RETVAL:
                raise dead_result(self.executor.partition, node)
            self.bury_node(node, when)

    def bury_node(self, node: PreparedNode, when: int) -> None:  # noqa: ARG002 (traced)
        if node.kind is Kind.SEND:
            self.send(node.key, None, True)

    def now(self) -> int:
        return 0

    def fail(self, error: StepError) -> None:
        """The first error stands; it also ends what other partitions of the step wait for."""
        if self.error is None:
            self.error = error
            self.step.rendezvous.abort(error)

    def finish(self) -> None:
        self.done(self.error)


class _TracedRun(_Run):
    """The same, with spans. `when`, in ns, is when a segment could start."""

    __slots__ = ("span",)

    def start(self) -> None:
        recorder = self.executor.recorder
        self.span = recorder.open(self.executor.partition.site, self.step.context)
        self.context = self.span.context
        self.begin(self.span.start)

    def ask(self, recv: _Waiting) -> None:
        node = recv.node
        span = self.executor.recorder.open(node.site, self.context, node.key_number)
        self.step.pull(node, span.context, partial(self.arrived, recv, span))

    def compute(self, code: SegmentCode, when: int) -> None:
        if not code.site:  # ops are beyond the detail that is recorded
            super().compute(code, when)
            return
        step, recorder = self.step, self.executor.recorder
        writer = recorder.writer()
        row = writer.hold(code.site, recorder.now())
        try:
            code.traced(
                self.frame,
                self.send,
                self.launch,
                step.args,
                step.results,
                self.context,
                writer.take,
                row,
                when,
            )
        finally:
            writer.let_go(code.site, row, recorder.now())

    def opened(self, node: PreparedNode) -> OpenSpan | None:
        return self.executor.recorder.open(node.site, self.context, node.key_number)

    def bury_node(self, node: PreparedNode, when: int) -> None:
        """What is dead is recorded, and takes no time."""
        recorder = self.executor.recorder
        now, key, dead = recorder.now(), node.key_number, Flag.DEAD
        span = recorder.writer().record(
            node.site, self.context, now, now, when, key=key, flags=dead
        )
        if node.kind is Kind.SEND:
            self.send(node.key, None, True, span)

    def now(self) -> int:
        return self.executor.recorder.now()

    def finish(self) -> None:
        if self.error is not None:
            self.executor.recorder.annotate(self.span.span, {}, error=self.error.message)
        self.span.close(flags=Flag.ERROR if self.error is not None else 0)
        self.done(self.error)


class _GpuRun(_Run):
    """The same on a GPU: all is launched long before the GPU is done, and only then it ends."""

    __slots__ = ()

    def finish(self) -> None:
        _when_drained(self, super().finish)


class _TracedGpuRun(_TracedRun):
    __slots__ = ()

    def finish(self) -> None:
        _when_drained(self, super().finish)


def _when_drained(run: _Run, finish: Callable[[], None]) -> None:
    partition = run.executor.partition
    assert partition.device.gpu is not None

    def drained(error: Exception | None) -> None:
        if error is not None:
            run.fail(device_error(partition, error))
        finish()

    partition.device.gpu.when_drained(drained)
