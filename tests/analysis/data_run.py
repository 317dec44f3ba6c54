"""Runs whose data are split by the real pipelines and recorded by the real recorder."""

from collections.abc import Sequence
from pathlib import Path

from tests.analysis.sample_run import EPOCH, ended
from tests.strategies.inputs_golden import elements, rows
from tracer.model.step import trace_of_step
from tracer.model.trace_folder import Manifest, TaskRecord
from tracer.record.clock import FakeClock
from tracer.record.manifest import write_manifest
from tracer.record.recorder import Recorder
from tracer.runtime.interfaces import StepError
from tracer.strategies.inputs.dataset import Dataset
from tracer.strategies.inputs.distribute import distribute_dataset
from tracer.strategies.inputs.next_input import next_input
from vizdist.store.trace import Trace

STEP_NS = 10_000


def data_run(
    folder: Path,
    dataset: Dataset | None = None,
    *,
    workers: int = 2,
    replicas: int = 1,
    autoshard: str = "AUTO",
    losses: Sequence[str] = (),
    steps: int = 100,
) -> Trace:
    """Without a data set 24 elements in batches of 8.

    `losses` are those of the replicas of worker:0, a text a step. A refused policy ends the run.
    """
    folder.mkdir(parents=True)
    write_manifest(folder, Manifest("run-1", workload="told", tasks=[TaskRecord("collector", 1)]))
    scratch = folder.parent / f"{folder.name}-scratch"
    scratch.mkdir()
    clock = FakeClock(EPOCH)
    for index in range(workers):
        recorder = Recorder(scratch, f"worker:{index}", clock=clock)
        inputs = distribute_dataset(
            dataset or rows(elements(24), 8),
            workers=workers, worker=index, replicas=replicas, autoshard=autoshard,
        )  # fmt: skip
        for number in range(1, steps + 1):
            context = trace_of_step("run-1", f"worker:{index}", number)
            clock.advance(STEP_NS)
            try:
                next_input(inputs, number, recorder, context)
            except StepError:
                break
            with recorder.span("session.run", context) as span:
                if index == 0 and number <= len(losses):
                    each = losses[number - 1]
                    span.set("vizdist.replica.losses", each)
                    span.set("vizdist.loss", float(each.split(",")[0]))
    return ended(folder, scratch)
