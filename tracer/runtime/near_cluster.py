"""A whole cluster in one process: real masters, workers and rendezvous, joined by plain calls.

Tasks belong to the record, not to processes: each has a recorder of its own here too.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from tracer.model.cluster import ClusterSpec, TaskName
from tracer.ops.kernel import Clock, OpDef
from tracer.ops.registry import lookup
from tracer.passes.placer import BY_RULE, Placer
from tracer.record.clock import SystemClock
from tracer.record.recorder import NO_RECORDER, Recorder
from tracer.runtime.collectives import Collectives
from tracer.runtime.cuda import CUDA
from tracer.runtime.devices import make_devices
from tracer.runtime.gpu import Driver
from tracer.runtime.interfaces import WorkerInterface
from tracer.runtime.master import STEP_TIMEOUT_S, Master
from tracer.runtime.master_step import Lost, never
from tracer.runtime.resource_manager import TaskResources
from tracer.runtime.worker import Worker
from tracer.runtime.worker_cache import WorkerCache
from tracer.runtime.worker_env import ExecutorKind, WorkerEnv


class NearCluster:
    def __init__(
        self,
        cluster: ClusterSpec,
        *,
        devices: Mapping[TaskName, Sequence[str]] | None = None,
        recorder_of: Callable[[TaskName], Recorder] = lambda _: NO_RECORDER,
        clock: Clock | None = None,
        step_timeout_s: float = STEP_TIMEOUT_S,
        executor: ExecutorKind = "generated",
        lookup: Callable[[str], OpDef] = lookup,
        passes: Sequence[str] = (),
        placer: Placer = BY_RULE,
        driver: Driver = CUDA,
        session_gc_s: float = 0.0,
        checkpoints: Path | None = None,
        caches_responses: bool = False,
        native_collectives: bool = False,
        lost: Lost = never,
    ) -> None:
        self.spec = cluster
        self.workers: dict[TaskName, Worker] = {}
        self.masters: dict[TaskName, Master] = {}
        for task in cluster.tasks():
            physical = (devices or {}).get(task, ("cpu:0",))
            recorder = recorder_of(task)
            env = WorkerEnv(
                task,
                make_devices(task, physical, recorder, driver),
                recorder=recorder,
                clock=clock or SystemClock(),
                executor=executor,
                lookup=lookup,
                resources=TaskResources(checkpoints),
                caches_responses=caches_responses,
                collectives=Collectives(is_native=native_collectives),
            )
            self.workers[task] = Worker(env, WorkerCache(self._stub, recorder))
            self.masters[task] = Master(
                self.workers[task],
                cluster,
                step_timeout_s=step_timeout_s,
                passes=passes,
                placer=placer,
                session_gc_s=session_gc_s,
                lost=lost,
            )

    def _stub(self, task: TaskName, _address: str) -> WorkerInterface:
        return self.workers[task]

    def close(self) -> None:
        for master in self.masters.values():
            master.close()
        for worker in self.workers.values():
            worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
