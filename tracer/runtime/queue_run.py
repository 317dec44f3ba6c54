"""One step of one partition, run from a ready queue.

One thread at a time works on a run. What comes on other threads, a value or the end of an
asynchronous kernel, is left in the inbox, and who leaves something there goes on with the run if
nobody does.
"""

import threading
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from tracer.ops.kernel import DEAD
from tracer.record.open_span import OpenSpan
from tracer.runtime import turn
from tracer.runtime.async_wait import Wait, by_port
from tracer.runtime.frame_plan import Item
from tracer.runtime.frame_state import IterationState, Propagation
from tracer.runtime.interfaces import Received, StepError
from tracer.runtime.prepared import Kind, PreparedNode, PreparedPartition
from tracer.runtime.step_run import (
    ExecutorDone,
    StepRun,
    dead_result,
    device_error,
    error_at,
    value_of,
)

#: after which a run leaves a thread that may also read messages. Long enough that the change of
#: threads, which costs a tenth of it, is no part of a short step
SLICE_NS = 1_000_000

#: what a node gave out, by port; None: it was dead
Outputs = Sequence[Any] | None

Place = tuple[Item, IterationState]  #: a node in an iteration


class _Ended(NamedTuple):
    """A node that ended on another thread, at `when` in ns."""

    item: Item
    iteration: IterationState
    outputs: Outputs
    error: StepError | None
    when: int


class QueueRun:
    def __init__(
        self, partition: PreparedPartition, flow: Propagation, step: StepRun, done: ExecutorDone
    ) -> None:
        self.partition = partition
        self.flow = flow
        self.step = step
        self.context = step.context  #: of what it does
        self.done = done
        self.error: StepError | None = None
        self.inbox: deque[_Ended] = deque()
        self.waits: set[Wait[Place]] = set()
        self.lock = threading.Lock()
        self.is_busy = False
        gpu, process = partition.device.gpu, QueueRun.process
        self.process_here = gpu.on_stream(process) if gpu else process  # that knows no run
        self.until = 0  # when a slice ends, in ns

    def start(self, when: int = 0) -> None:
        if (
            self.partition.is_async or not self.partition.is_straight
        ):  # it may run for long without asking for anything
            self.step.rendezvous.when_aborted(self.stop)
        self.flow.begin(when)
        self.wake()

    def tell(self, ended: _Ended) -> None:
        self.inbox.append(ended)
        self.wake()

    def wake(self) -> None:
        with self.lock:
            if self.is_busy:
                return
            self.is_busy = True
        turn.run(self.work)

    def work(self) -> None:
        self.process_here(self)

    def process(self) -> None:
        """Runs what is ready; a long piece goes on in the device's thread, in slices.

        A slice that has begun an asynchronous kernel ends, so that what the kernel tells other
        tasks leaves before more is computed.
        """
        self.until = time.perf_counter_ns() + SLICE_NS
        inbox, ready = self.inbox, self.flow.ready
        while True:
            if inbox:
                self.take(inbox.popleft())
            elif ready:
                self.visit(*ready.popleft())
            elif self.rests():
                return
            if not self.until:
                turn.run(self.work)
                return
            if time.perf_counter_ns() > self.until:
                self.partition.device.thread.submit(self.work)
                return

    def rests(self) -> bool:
        """Nothing is ready; false if something came at the last moment."""
        with self.lock:
            if self.inbox:
                return False
            self.is_busy = False
            is_over = not self.flow.num_outstanding
        if is_over:
            self.end()
        return True

    def visit(self, item: Item, iteration: IterationState, is_dead: bool, ready: int) -> None:
        if self.error is not None:
            self.flow.num_outstanding -= 1
        elif item.is_kernel and not is_dead:
            self.do(item, iteration, is_dead, ready)
        else:
            self.visit_other(item, iteration, is_dead, ready)

    def visit_other(self, item: Item, iteration: IterationState, is_dead: bool, ready: int) -> None:
        """What is no kernel, or dead."""
        kind = item.node.kind
        if kind is Kind.RECV:
            self.ask(item, iteration, is_dead)
        elif is_dead and kind not in (Kind.SEND, Kind.RETVAL):
            self.inputs(item, iteration)
            self.bury(item, iteration, ready)
        elif kind is Kind.ASYNC:
            self.launch(item, iteration, ready)
        else:
            self.do(item, iteration, is_dead, ready)

    def do(self, item: Item, iteration: IterationState, is_dead: bool, ready: int) -> None:
        try:
            outputs = self.compute(item, iteration, is_dead, ready)
        except Exception as error:  # noqa: BLE001 (kernels may raise anything)
            self.fail(error_at(self.partition, item.node, error))
            outputs = None
        self.settle(item, iteration, None if is_dead else outputs, self.now())

    def take(self, ended: _Ended) -> None:
        if ended.error is not None:
            self.fail(ended.error)
        self.settle(ended.item, ended.iteration, ended.outputs, ended.when)

    def settle(self, item: Item, iteration: IterationState, outputs: Outputs, when: int) -> None:
        """After a failure nodes only count down."""
        if self.error is None:
            self.flow.settle(item, iteration, outputs, when)
        else:
            self.flow.num_outstanding -= 1

    def inputs(self, item: Item, iteration: IterationState) -> list[Any]:
        """Takes the node's inputs out of the iteration, so that it alone holds them."""
        values = iteration.entries[item.first : item.last]
        iteration.entries[item.first : item.last] = item.nothing
        return values

    def ask(self, item: Item, iteration: IterationState, is_dead: bool) -> None:
        arrived = partial(self.arrived, item, iteration, is_dead, None)
        self.step.pull(item.node, self.step.context, arrived, self.key(item.node, iteration))

    def key(self, node: PreparedNode, iteration: IterationState) -> str:
        """The rendezvous key in this iteration; prepared is that of the root."""
        return node.key[: -len("0:0")] + iteration.tag if iteration.frame.frame_id else node.key

    def arrived(
        self,
        item: Item,
        iteration: IterationState,
        is_dead: bool,
        span: OpenSpan | None,
        received: Received,
    ) -> None:
        """A `_Recv` that is dead takes its value too, and makes nothing of it."""
        outputs, failure = None, None
        try:
            value = value_of(item.node, received, span)
            outputs = None if is_dead else (value,)
        except Exception as error:  # noqa: BLE001 (as of a kernel)
            failure = error_at(self.partition, item.node, error)
        self.tell(_Ended(item, iteration, outputs, failure, self.now()))

    def bury(self, item: Item, iteration: IterationState, ready: int) -> None:  # noqa: ARG002
        self.settle(item, iteration, None, 0)

    def launch(self, item: Item, iteration: IterationState, ready: int) -> None:
        """Begins an asynchronous kernel."""
        wait = Wait(self, (item, iteration), ready, self.opened(item, iteration))
        self.waits.add(wait)
        self.until = 0
        try:
            wait.goes_on(item.node.kernel(wait, *self.inputs(item, iteration)))
        except Exception as error:  # noqa: BLE001 (kernels may raise anything)
            wait(error=error)
        if self.error is not None:
            wait.cancel()

    def opened(self, item: Item, iteration: IterationState) -> OpenSpan | None:  # noqa: ARG002
        return None

    def waited(self, wait: Wait[Place], result: Any, error: Exception | None) -> None:
        """An asynchronous kernel has ended, on whatever thread."""
        self.waits.discard(wait)
        item, iteration = wait.place
        outputs, failure = None, None
        try:
            if error is not None:
                raise error
            outputs = by_port(item.node, result)
        except Exception as reason:  # noqa: BLE001 (as of a kernel)
            failure = error_at(self.partition, item.node, reason)
        self.closed(wait, outputs, failure)
        self.tell(_Ended(item, iteration, outputs, failure, self.now()))

    def closed(self, wait: Wait[Place], outputs: Outputs, failure: StepError | None) -> None:
        """For who records."""

    def compute(
        self, item: Item, iteration: IterationState, is_dead: bool, ready: int
    ) -> Sequence[Any]:
        del ready
        if not item.is_kernel:
            return self.call(item.node, iteration, self.inputs(item, iteration), is_dead, 0)
        entries = iteration.entries
        values = entries[item.first : item.last]
        entries[item.first : item.last] = item.nothing
        result = item.kernel(*values)
        return (result,) if item.is_single else by_port(item.node, result)

    def call(
        self,
        node: PreparedNode,
        iteration: IterationState,
        inputs: list[Any],
        is_dead: bool,
        span: int,
    ) -> Sequence[Any]:
        match node.kind:
            case Kind.SEND:
                self.send(node, self.key(node, iteration), inputs[0], is_dead, span)
                return ()
            case Kind.RETVAL:
                if is_dead or inputs[0] is DEAD:
                    raise dead_result(self.partition, node)
                self.step.results[node.key] = node.kernel(inputs[0])
                return ()
            case Kind.ARG:
                return (node.kernel(self.step.args[node.key]),)
            case _:
                return by_port(node, node.kernel(*inputs))

    def send(self, node: PreparedNode, key: str, value: Any, is_dead: bool, span: int) -> None:
        send = self.step.rendezvous.local.send
        if is_dead:
            send(key, None, True, span)
        elif node.sends is None:
            send(key, node.kernel(value), False, span)
        else:
            node.sends(send, key, node.kernel(value), False, span, self.context if span else None)

    def now(self) -> int:
        return 0

    def fail(self, error: StepError) -> None:
        """The first error stands; it also ends what other partitions of the step wait for."""
        if self.error is None:
            self.error = error
            self.step.rendezvous.abort(error)
            self.stop(error)

    def stop(self, error: StepError) -> None:
        """The step is aborted: nothing more is run, and what waits is told to end."""
        if self.error is None:
            self.error = error
        for wait in list(self.waits):
            wait.cancel()

    def end(self) -> None:
        """Once all nodes have ended; on a GPU they have only been launched by then."""
        gpu = self.partition.device.gpu
        if gpu is None:
            self.finish()
        else:
            gpu.when_drained(self.drained)

    def drained(self, error: Exception | None) -> None:
        if error is not None:
            self.fail(device_error(self.partition, error))
        self.finish()

    def finish(self) -> None:
        self.done(self.error)
