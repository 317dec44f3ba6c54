"""A run of one worker, written by the real recorder; a test tells what happens in it, and when."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.store.sample_trace import EPOCH
from tracer.model.step import trace_of_step
from tracer.model.trace_folder import Manifest
from tracer.record.clock import FakeClock
from tracer.record.manifest import write_manifest
from tracer.record.recorder import Recorder
from tracer.record.sink import Sink
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.store.trace import open_trace

STEP_NS = 1_000


class ToldRun:
    """Its clock moves by what happens: every span takes `took` ns."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "told.trace"
        self._scratch = folder / "scratch"
        self._folder.mkdir()
        self._scratch.mkdir()
        write_manifest(self._folder, Manifest("run-1", started_ns=EPOCH))
        self._clock = FakeClock(EPOCH)
        self._recorders: dict[str, Recorder] = {}
        self.context = trace_of_step("run-1", "run", 0)

    def recorder(self, task: str) -> Recorder:
        if task not in self._recorders:
            self._recorders[task] = Recorder(self._scratch, task, clock=self._clock)
        return self._recorders[task]

    def span(
        self,
        kind: str,
        *,
        task: str = "worker:0",
        name: str = "",
        took: int = 10,
        error: str = "",
        **attributes: object,
    ) -> None:
        """`attributes` without their `vizdist.`, `__` for a dot within."""
        with self.recorder(task).span(kind, self.context, name=name or kind) as span:
            for key, value in attributes.items():
                span.set(f"vizdist.{key.replace('__', '.')}", value)
            if error:
                span.fail(ValueError(error))
            self._clock.advance(took)

    @contextmanager
    def step(
        self, number: int, *, task: str = "worker:0", life: int = 1, **attributes: object
    ) -> Iterator[None]:
        """What is told inside is part of the step; in another life its number comes again."""
        outside = self.context
        context = trace_of_step("run-1", f"{task}, life {life}", number)
        with self.recorder(task).span("session.run", context) as root:
            for key, value in attributes.items():
                root.set(f"vizdist.{key.replace('__', '.')}", value)
            self.context = root.context
            yield
            self._clock.advance(STEP_NS)
        self.context = outside

    def one_step(self, number: int) -> OneStep:
        """To be asked for once, when all is told."""
        sink = Sink(self._folder, self._scratch)
        sink.turn(self._clock.now_ns(), at_end=True)
        sink.tell()
        sink.close()
        trace = open_trace(self._folder)
        return OneStep(trace, trace.step(number))
