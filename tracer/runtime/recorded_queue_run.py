"""A run from a ready queue, with spans."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from tracer.model.trace_folder import Flag
from tracer.record.open_span import OpenSpan
from tracer.record.recorder import Recorder
from tracer.runtime.async_wait import Wait, bytes_of
from tracer.runtime.frame_plan import Item, Plan
from tracer.runtime.frame_state import IterationState
from tracer.runtime.interfaces import Received, StepError
from tracer.runtime.loop_spans import RecordedPropagation
from tracer.runtime.prepared import Kind, PreparedNode, PreparedPartition
from tracer.runtime.queue_run import Outputs, Place, QueueRun
from tracer.runtime.step_run import ExecutorDone, StepRun, close_recv

#: nodes whose span tells the bytes of what they were given; others tell what they made
GIVEN = (Kind.SEND, Kind.RETVAL)


class RecordedQueueRun(QueueRun):
    flow: RecordedPropagation

    def __init__(
        self,
        partition: PreparedPartition,
        plan: Plan,
        step: StepRun,
        done: ExecutorDone,
        recorder: Recorder,
    ) -> None:
        self.recorder = recorder
        self.span = recorder.open(partition.site, step.context)
        flow = RecordedPropagation(plan, recorder, self.span.context)
        super().__init__(partition, flow, step, done)
        self.context = self.span.context

    def start(self, when: int = 0) -> None:
        super().start(when or self.span.start)

    def now(self) -> int:
        return self.recorder.now()

    def ask(self, item: Item, iteration: IterationState, is_dead: bool) -> None:
        node = item.node
        span = self.recorder.open(node.site, self.context, self.number(node, iteration))
        arrived = partial(self.arrived, item, iteration, is_dead, span)
        self.step.pull(node, span.context, arrived, self.key(node, iteration))

    def arrived(
        self,
        item: Item,
        iteration: IterationState,
        is_dead: bool,
        span: OpenSpan | None,
        received: Received,
    ) -> None:
        if span is not None:
            close_recv(self.recorder, span, received, is_remote=item.node.source is not None)
        super().arrived(item, iteration, is_dead, span, received)

    def number(self, node: PreparedNode, iteration: IterationState) -> int:
        """What the recorder calls the key of a transfer, or the place of another node."""
        if node.key_number and iteration.frame.frame_id:
            return self.recorder.key(self.key(node, iteration))
        return node.key_number or iteration.key_number

    def bury(self, item: Item, iteration: IterationState, ready: int) -> None:
        """What is dead is recorded, and takes no time."""
        recorder = self.recorder
        now, key = recorder.now(), iteration.key_number
        site = item.node.site
        recorder.writer().record(site, self.context, now, now, ready, key=key, flags=Flag.DEAD)
        self.settle(item, iteration, None, now)

    def opened(self, item: Item, iteration: IterationState) -> OpenSpan | None:
        number = self.number(item.node, iteration)
        return self.recorder.open(item.node.site, self.context, number)

    def closed(self, wait: Wait[Place], outputs: Outputs, failure: StepError | None) -> None:
        wait.close_span(outputs or (), failure)

    def compute(
        self, item: Item, iteration: IterationState, is_dead: bool, ready: int
    ) -> Sequence[Any]:
        node, inputs = item.node, self.inputs(item, iteration)
        recorder, writer = self.recorder, self.recorder.writer()
        key = self.number(node, iteration)
        start = recorder.now()
        span = writer.begin(node.site, self.context, start)
        variable = inputs[0] if node.variable >= 0 else None
        version = variable.version if variable is not None else 0
        gpu = self.partition.device.gpu if node.kind is Kind.KERNEL and node.run_site else None
        begun = gpu.mark() if gpu else None
        try:
            outputs = self.call(node, iteration, inputs, is_dead, span)
        except Exception as error:
            recorder.annotate(span, {}, error=str(error))
            writer.end(start, recorder.now(), ready, key=key, flags=Flag.ERROR)
            raise
        end = recorder.now()
        num_bytes = 0 if is_dead else bytes_of(inputs if node.kind in GIVEN else outputs)
        extra = variable.version if node.writes and variable is not None else version
        if gpu and begun:
            gpu.launched(node.run_site, self.context, span, start, begun, num_bytes, extra, key)
            num_bytes = extra = 0
        flags = Flag.DEAD * is_dead | Flag.DROPPED * (node.drops and outputs[0])
        writer.end(start, end, ready, num_bytes, key, extra=extra, flags=flags)
        return outputs

    def finish(self) -> None:
        self.flow.close()
        if self.error is not None:
            self.recorder.annotate(self.span.span, {}, error=self.error.message)
        self.span.close(flags=Flag.ERROR if self.error is not None else 0)
        self.done(self.error)
