"""Records when loops and their iterations begin and end, a span each."""

from tracer.model.step import SpanContext
from tracer.model.trace_folder import Flag
from tracer.record.recorder import Recorder
from tracer.runtime.frame_plan import Plan
from tracer.runtime.frame_state import FrameState, IterationState, Propagation


class RecordedPropagation(Propagation):
    def __init__(self, plan: Plan, recorder: Recorder, context: SpanContext) -> None:
        super().__init__(plan)
        self._recorder = recorder
        self._context = context

    def _frame_begins(self, frame: FrameState) -> None:
        outer, site = frame.parent.span if frame.parent else None, frame.plan.told.frame_site
        if site:
            context = outer.context if outer else self._context
            key = self._recorder.key(f"{frame.frame_id}:0")
            frame.span = self._recorder.open(site, context, key)

    def _frame_ends(self, frame: FrameState, flags: int = 0) -> None:
        if frame.span is not None:
            frame.span.close(flags=flags, extra=frame.last + 1)

    def _iteration_begins(self, iteration: IterationState) -> None:
        frame, site = iteration.frame, iteration.frame.plan.told.iteration_site
        if site and frame.span is not None:
            iteration.key_number = self._recorder.key(iteration.tag)
            iteration.span = self._recorder.open(site, frame.span.context, iteration.key_number)

    def _iteration_ends(self, iteration: IterationState, flags: int = 0) -> None:
        if iteration.span is not None:
            iteration.span.close(flags=flags | (Flag.DEFERRED if iteration.is_deferred else 0))

    def close(self) -> None:
        """The run is over: what it left, because it failed, ends here; inner loops first."""
        for frame in reversed(self.frames.values()):
            for iteration in frame.iterations.values():
                self._iteration_ends(iteration, Flag.ERROR)
            self._frame_ends(frame, Flag.ERROR)
