"""A worker to which faults happen: it is killed, stopped, or one of its ops fails.

Only tasks for which faults were asked are served by one; all others have a plain Worker.
"""

import os
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tracer.model.fault import OF_FRAMES, Fault, Kind
from tracer.model.graph import Node
from tracer.model.step import SpanContext
from tracer.ops.kernel import Kernel, OpContext, OpDef, OpError
from tracer.record.recorder import Recorder
from tracer.runtime.interfaces import RunDone, RunGraphRequest
from tracer.runtime.worker import Worker
from tracer.runtime.worker_cache import WorkerCache
from tracer.runtime.worker_env import WorkerEnv

SIGNALS = {Kind.KILL: signal.SIGKILL, Kind.STOP: signal.SIGSTOP}


def make_worker(
    env: WorkerEnv, cache: WorkerCache, pid: int = 0, faults: Sequence[Fault] = ()
) -> Worker:
    own = [fault for fault in faults if fault.kind not in OF_FRAMES]
    if not own:
        return Worker(env, cache, pid=pid)
    trap = _Trap()
    if any(fault.kind is Kind.ERROR for fault in own):
        env = replace(env, lookup=trap.set_in(env.lookup))
    return FaultyWorker(env, cache, pid, own, trap)


def is_due(fault: Fault, context: SpanContext) -> bool:
    """Whether a request belongs to the fault's step or a later one.

    What a client does aside from its run (setting variables up) has contexts of no trace.
    """
    return bool(context.trace_hi) and context.step >= fault.step


def record_fault(recorder: Recorder, fault: Fault, context: SpanContext) -> None:
    context = context if context.sampled else recorder.run
    with recorder.span("fault.inject", context, name=str(fault.kind)) as span:
        span.set("vizdist.fault", str(fault))
        span.set("vizdist.fault.kind", str(fault.kind))
        span.set("vizdist.fault.step", context.step)


class FaultyWorker(Worker):
    def __init__(
        self,
        env: WorkerEnv,
        cache: WorkerCache,
        pid: int,
        faults: Sequence[Fault],
        trap: "_Trap",
    ) -> None:
        super().__init__(env, cache, pid=pid)
        self._faults = list(faults)  # that have not happened yet
        self._injecting = threading.Lock()
        self._trap = trap

    def run_graph(self, request: RunGraphRequest, done: RunDone) -> None:
        with self._injecting:
            for fault in [each for each in self._faults if is_due(each, request.context)]:
                self._faults.remove(fault)
                record_fault(self.env.recorder, fault, request.context)
                self._inject(fault)
        super().run_graph(request, done)

    def _inject(self, fault: Fault) -> None:
        if fault.kind is Kind.ERROR:
            self._trap.arm(OpError("INTERNAL", f"this op fails as asked for: --fault {fault}"))
        else:
            os.kill(os.getpid(), SIGNALS[fault.kind])


class _Trap:
    """Once armed, the next op of the task fails."""

    def __init__(self) -> None:
        self._error: OpError | None = None

    def arm(self, error: OpError) -> None:
        self._error = error

    def set_in(self, lookup: Callable[[str], OpDef]) -> Callable[[str], OpDef]:
        """Ops that compute something step into it first."""

        def find(name: str) -> OpDef:
            op = lookup(name)
            if op.is_transfer or op.is_view or op.is_async:
                return op
            return replace(op, bind=self._bound(op))

        return find

    def _bound(self, op: OpDef) -> Callable[[Node, OpContext], Kernel]:
        def bind(node: Node, context: OpContext) -> Kernel:
            kernel: Any = op.bind(node, context)

            def trapped(*inputs: Any) -> Any:
                if self._error is not None:
                    error, self._error = self._error, None
                    raise error
                return kernel(*inputs)

            return trapped

        return bind
