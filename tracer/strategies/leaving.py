"""How a worker leaves those that step together on parameter servers, when its data end.

    tell   before its last step: 1 at its place in `sync_rep_left`, which lies on ps:0
    left   once it has the step that comes next: who has told so

An update takes gradients of `wanted` workers, so with its last gradients in all who end with the
same step have told so before any of them looks. Either nobody is left, and training is over; or
enough go on without this one; or they would wait for it, which is an error here and not there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tracer.model.cluster import TaskName
from tracer.runtime.interfaces import StepError


@dataclass(frozen=True, slots=True)
class Leaving:
    """`tell` and `left` are the target and the fetch of the graph of `worker`."""

    tell: str
    left: str
    worker: TaskName
    is_chief: bool
    wanted: int

    def error(self, left: Sequence[int], step: int) -> StepError | None:
        """Why the others cannot go on; None where they can, or have ended too.

        `left`: of each worker whether its data ended; those of this one did with `step`.
        """
        others = [TaskName("worker", index) for index, gone in enumerate(left) if not gone]
        if not others or (len(others) >= self.wanted and not self.is_chief):
            return None
        names = ", ".join(map(str, others))
        why = (
            f"{self.worker} makes the updates"
            if self.is_chief
            else f"an update takes gradients of {self.wanted} workers"
        )
        return StepError(
            "OUT_OF_RANGE",
            f"the data of {self.worker} ended with step {step}, and {names} would go on, but {why}:"
            " give every worker as many batches, let the data repeat, or ask for fewer --steps",
            task=str(self.worker),
        )
