"""Runs a partition node by node from a ready queue, by pending counts (TF `executor.cc`).

It takes the partitions that hold control flow; the generated executor takes all others.
"""

from tracer.record.recorder import Recorder
from tracer.runtime.frame_plan import Plan
from tracer.runtime.frame_state import Propagation
from tracer.runtime.prepared import PreparedPartition
from tracer.runtime.queue_run import QueueRun
from tracer.runtime.recorded_queue_run import RecordedQueueRun
from tracer.runtime.step_run import ExecutorDone, StepRun


class QueueExecutor:
    def __init__(self, partition: PreparedPartition, recorder: Recorder) -> None:
        self._partition = partition
        self._recorder = recorder
        self._plan = Plan(partition)

    def run(self, step: StepRun, done: ExecutorDone) -> None:
        if step.context.sampled:
            RecordedQueueRun(self._partition, self._plan, step, done, self._recorder).start()
        else:
            QueueRun(self._partition, Propagation(self._plan), step, done).start()
