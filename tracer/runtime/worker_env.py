"""What everything in one task's worker shares (TF `worker_env.h`)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tracer.model.cluster import TaskName
from tracer.ops.kernel import Clock, OpDef
from tracer.ops.registry import lookup
from tracer.record.clock import SystemClock
from tracer.record.recorder import NO_RECORDER, Recorder
from tracer.runtime.collectives import Collectives
from tracer.runtime.devices import Device
from tracer.runtime.resource_manager import TaskResources

#: `generated`: straight-line partitions run as generated functions; `queue`: by the ready queue
ExecutorKind = Literal["generated", "queue"]


@dataclass(frozen=True, slots=True)
class WorkerEnv:
    """`task` names devices and peers; `label`, if given, is how errors name the task.

    `caches_responses`: a tensor that was sent is kept until its receiver has it.
    """

    task: TaskName
    devices: tuple[Device, ...]
    recorder: Recorder = NO_RECORDER
    clock: Clock = field(default_factory=SystemClock)
    resources: TaskResources = field(default_factory=TaskResources)
    lookup: Callable[[str], OpDef] = lookup
    executor: ExecutorKind = "generated"
    label: str = ""
    caches_responses: bool = False
    collectives: Collectives = field(default_factory=Collectives)

    @property
    def name(self) -> str:
        return self.label or str(self.task)

    @property
    def client_device(self) -> Device:
        """Where a master of this task takes feeds and hands out fetches."""
        return self.devices[0]
