"""The headline's sentence on time: what a step takes, and whose steps take far longer."""

from vizdist.analysis.path_stretches import way_of
from vizdist.analysis.sentence import Sentence, some_of
from vizdist.analysis.step_split import TaskSplit
from vizdist.analysis.step_times import StepTimes, Straggler
from vizdist.analysis.typical_step import typical_step
from vizdist.i18n.units import duration, figures
from vizdist.store.trace import Trace


def of_time(trace: Trace, times: StepTimes, typical: TaskSplit) -> Sentence:
    """Of the task that is slow, if one is: its users wait for it."""
    if times.straggler is not None:
        return _of_straggler(trace, times.straggler, typical)
    name, ns = max(typical.parts.items(), key=lambda part: part[1])
    share = f"{figures(100 * ns / max(1, typical.total))} %"
    key = f"most.{name}" if typical.has_ops else "took"
    values = {"took": str(duration(times.median)), "share": share}
    return Sentence(f"headline.{key}", values, proof=(typical.step.span,))


def _of_straggler(trace: Trace, slow: Straggler, typical: TaskSplit) -> Sentence:
    """By how much, and what its critical path goes to: the cause may lie on another task."""
    values: dict[str, object] = {
        "took": str(duration(slow.took)),
        "task": slow.task,
        "others": some_of(slow.others),
        "ratio": figures(slow.ratio),
        "usual": str(duration(slow.usual)),
    }
    found = typical_step(trace)
    if found is None or not found.stretches:
        return Sentence("headline.straggler.took", values, proof=(typical.step.span,))
    most = found.stretches[0]
    share = f"{figures(100 * most.total / found.step.duration)} %"
    values |= {"share": share, "name": most.name, "at": most.task}
    proof = (typical.step.span, *most.spans)
    return Sentence(f"headline.straggler.{way_of(most)}", values, proof=proof)
