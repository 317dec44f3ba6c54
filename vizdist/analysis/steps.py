"""Which steps a trace holds, and which one a page opens with."""

from dataclasses import dataclass

from vizdist.analysis.critical_path import critical_path
from vizdist.analysis.faults import faults
from vizdist.analysis.step_split import CLASSES, TaskSplit, split_of_client
from vizdist.analysis.step_times import step_times
from vizdist.store.trace import StepInfo, Trace

MAX_COLUMNS = 120  #: steps drawn side by side; more would be thinner than 5 px


@dataclass(frozen=True, slots=True)
class StepRow:
    """Steps of one task side by side; `count` is how many there are."""

    task: str
    splits: tuple[TaskSplit, ...]
    count: int


def step_numbers(trace: Trace) -> list[int]:
    return sorted({step.number for step in trace.steps})


def clients_of(trace: Trace, number: int | None) -> list[str]:
    """The tasks that run a step of this number, by name; each ran one of its own."""
    return sorted({step.task for step in trace.steps if step.number == number})


def shown_step(trace: Trace, wanted: int | None) -> int | None:
    """The wanted step if the trace holds it, else the one in which the run went wrong.

    Of a run in which none did it is the step of median duration. None: no steps.
    """
    if any(step.number == wanted for step in trace.steps):
        return wanted
    shown = _broken(trace) or step_times(trace).typical
    return shown.number if shown else None


def _broken(trace: Trace) -> StepInfo | None:
    """The last step that a client began, if it failed or never ended: the cause's own goes first.

    While a run goes on its last steps have not ended yet, and nothing is wrong with them.
    """
    last = {step.task: step for step in trace.steps}.values()
    torn = [step for step in last if not step.is_whole]
    is_over = trace.manifest.outcome != "running"
    if not torn or not (is_over or step_times(trace).typical is None):
        return None
    cause = faults(trace).cause
    number = cause.step if cause else 0
    return max(torn, key=lambda step: (step.number == number, step.start))


def asked_step(trace: Trace, number: int | None) -> int | None:
    """A step asked for by number, TraceError if the trace does not hold it; else as pages open.

    A trace without any step has nothing to mistake: what it holds is shown.
    """
    if number is None or not trace.steps:
        return shown_step(trace, None)
    return trace.step(number).number


def step_facts(trace: Trace, number: int) -> tuple[int, int]:
    """(duration in ns, number of spans) of a step; its first task's where every worker runs one."""
    return trace.step(number).duration, int((trace.all.step == number).sum())


def steps_around(trace: Trace, number: int) -> StepRow:
    """Steps of one task, as many as fit, with this one among them.

    Of several that run one of this number it is the task in which a step stands out, else the one
    whose steps take far longer.
    """
    times = step_times(trace)
    tasks = [step.task for step in trace.steps if step.number == number]
    slow = [one.task for one in (times.outlier, times.straggler) if one]
    task = next((name for name in slow if name in tasks), trace.step(number).task)
    steps = [step for step in trace.steps if step.task == task]
    at = next(i for i, step in enumerate(steps) if step.number == number)
    first = max(0, min(at - MAX_COLUMNS // 2, len(steps) - MAX_COLUMNS))
    shown = steps[first : first + MAX_COLUMNS]
    splits = tuple(split_of_client(trace, step) for step in shown)
    return StepRow(splits[0].task, splits, len(steps))


def splits_of(trace: Trace, number: int, most: int = 4) -> list[TaskSplit]:
    """The split of a step for each of the first tasks that run one of this number."""
    steps = [step for step in trace.steps if step.number == number][:most]
    return [split_of_client(trace, step) for step in steps]


def split_of_path(trace: Trace, step: StepInfo, name: str) -> TaskSplit | None:
    """The classes along the critical path of a step, called `name`; None without ops."""
    path = critical_path(trace, step)
    if path is None:
        return None
    parts = dict.fromkeys(CLASSES, 0)
    for piece in path.pieces:
        parts[piece.part] += piece.duration
    return TaskSplit(name, step, parts)
