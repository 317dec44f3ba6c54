"""Runs side by side: what a step of each took, moved and waited for, and what is not alike."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vizdist.analysis.bytes_moved import BytesMoved, Pair, bytes_moved
from vizdist.analysis.collectives import clients_meet
from vizdist.analysis.critical_path import critical_path
from vizdist.analysis.graph_diff import GraphDiff, graph_diff
from vizdist.analysis.loss_curve import LossCurve, Point, loss_curve
from vizdist.analysis.medians import Median, by_task, differ
from vizdist.analysis.path_stretches import stretches
from vizdist.analysis.replicas import works
from vizdist.analysis.run_facts import Fact, conditions, outcomes
from vizdist.analysis.step_split import Lane, TaskSplit, lanes_of_step, split_of_client
from vizdist.analysis.step_times import step_times
from vizdist.analysis.steps import step_numbers
from vizdist.analysis.variables import variables
from vizdist.store.graphs import GraphTable
from vizdist.store.trace import StepInfo, Trace

COMMUNICATION = ("transfer", "rpc", "wait")  #: classes of time in which no op runs for it
LETTERS = "ABCD"  #: one a run, in the order in which they were asked for


class PathKey(NamedTuple):
    """An op on the critical path, or a tensor under way, on whatever task; "" between ops."""

    name: str
    part: str  #: one of step_split.CLASSES


class TaskSteps(NamedTuple):
    """How long the steps of one task take, a median a run; None where it leads none."""

    task: str
    medians: tuple[Median | None, ...]

    @property
    def differs(self) -> bool:
        """Whether two runs are farther apart than steps are by themselves."""
        known = [one for one in self.medians if one is not None and one.is_known]
        ordered = sorted(known, key=lambda one: one.ns)
        return bool(ordered) and differ(ordered[0], ordered[-1])


class Held(NamedTuple):
    """What a step works with; `copies` of its variables lie on all devices, `bytes` are theirs."""

    devices: int = 0
    variables: int = 0
    copies: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """`step` is the one shown, with its lanes; None if none ever ended.

    `median` is that of the steps it stands for, `steps` have those of every task that leads some.
    If it ended, `split` is that of its leader, and `path` are the ns that each name has of its
    critical path: of a step that did not nobody knows how long it takes.
    """

    letter: str
    trace: Trace
    step: StepInfo | None
    median: Median | None
    steps: Mapping[str, Median]
    split: TaskSplit | None
    lanes: tuple[Lane, ...]
    held: Held
    path: Mapping[PathKey, int]
    moved: BytesMoved
    loss: LossCurve
    graph: GraphTable | None

    @property
    def ended(self) -> StepInfo | None:
        return self.step if self.step and self.step.is_whole else None

    @property
    def took(self) -> int:
        """ns, 0 where no end is known."""
        return self.ended.duration if self.ended else 0

    @property
    def exposed(self) -> int | None:
        """ns of the step in which its leader ran no op while values moved or were waited for.

        None where nobody knows whether it ran one.
        """
        if self.split is None or not self.split.has_ops:
            return None
        return sum(self.split.parts[name] for name in COMMUNICATION)

    @property
    def pairs(self) -> dict[Pair, int]:
        """Bytes from one device to another in a step that uses both, in the mean."""
        used = self.moved.steps_of
        return {pair: round(count / used[pair]) for pair, count in self.moved.by_device.items()}


@dataclass(frozen=True, slots=True)
class Comparison:
    """`asked` is the step that was asked for, None: each run's step of median length.

    `graphs` is None where a run has none; `numbers` are the steps that all runs hold.
    """

    runs: tuple[ComparedRun, ...]
    asked: int | None
    numbers: tuple[int, ...]
    graphs: GraphDiff | None
    facts: tuple[Fact, ...]

    @property
    def timed(self) -> list[ComparedRun]:
        """Those that a step time is known of."""
        return [run for run in self.runs if run.ended]

    @property
    def is_of_one_step(self) -> bool:
        """Whether the step that was asked for is shown of each, and no median."""
        return self.asked is not None and self.asked in self.numbers

    @property
    def tasks(self) -> list[TaskSteps]:
        names = sorted({task for run in self.runs for task in run.steps})
        return [TaskSteps(name, tuple(run.steps.get(name) for run in self.runs)) for name in names]

    @property
    def is_alike(self) -> bool:
        """Whether nothing here tells one run from another."""
        told = [
            (run.took, run.split and run.split.parts, run.path, run.pairs, run.loss.lines)
            for run in self.runs
        ]
        is_same = all(one == told[0] for one in told)
        graphs_alike = self.graphs is None or self.graphs.none
        return is_same and graphs_alike and not any(fact.differs for fact in self.facts)


def compare(traces: Sequence[Trace], asked: int | None = None) -> Comparison:
    """Up to four traces, beside each other; the same one may come twice."""
    runs = tuple(_run(letter, trace, asked) for letter, trace in zip(LETTERS, traces, strict=False))
    graphs = [run.graph for run in runs]
    known = [graph for graph in graphs if graph is not None]
    diff = graph_diff(known) if len(known) == len(runs) else None
    held = [set(step_numbers(trace)) for trace in traces if trace.steps]
    numbers = tuple(sorted(set.intersection(*held))) if held else ()
    facts = (*conditions(traces), *outcomes(traces, graphs))
    return Comparison(runs, asked, numbers, diff, facts)


def _run(letter: str, trace: Trace, asked: int | None) -> ComparedRun:
    step = _shown(trace, asked)
    ended = step if step and step.is_whole else None
    return ComparedRun(
        letter,
        trace,
        step,
        step_times(trace).middle,
        by_task(trace.steps),
        split_of_client(trace, ended) if ended else None,
        _lanes(trace, step) if step else (),
        _held(trace, step.number) if step else Held(),
        _on_path(trace, ended) if ended else {},
        bytes_moved(trace),
        loss_curve(trace),
        trace.graph(step),
    )


def _shown(trace: Trace, asked: int | None) -> StepInfo | None:
    """The step of this number, a whole one if there is one; or one of median length."""
    found = [step for step in trace.steps if step.number == asked]
    found.sort(key=lambda step: not step.is_whole)
    return next(iter(found), None) or step_times(trace).typical


def _lanes(trace: Trace, step: StepInfo) -> tuple[Lane, ...]:
    same = [one for one in trace.steps if one.number == step.number and one.task != step.task]
    return tuple(lanes_of_step(trace, step, same if clients_meet(trace) else ()))


def _held(trace: Trace, number: int) -> Held:
    requests = [one for one in trace.steps if one.number == number]
    found = variables(trace, number)
    return Held(
        len(works(trace, requests)),
        len(found),
        sum(len(one.copies) for one in found),
        sum(one.bytes * len(one.copies) for one in found),
    )


def _on_path(trace: Trace, step: StepInfo) -> dict[PathKey, int]:
    path = critical_path(trace, step)
    found: Counter[PathKey] = Counter()
    for one in stretches(trace, path) if path else ():
        found[PathKey(one.name, one.part)] += one.total
    return dict(found)


def largest_gap(lines: Sequence[Sequence[Point]]) -> tuple[int, float] | None:
    """(step, difference) where losses lie farthest apart; None if no step has all of them."""
    tables = [dict(line) for line in lines]
    shared = set.intersection(*map(set, tables)) if tables else set()
    gaps = [(number, _gap([table[number] for table in tables])) for number in sorted(shared)]
    return max(gaps, key=lambda gap: gap[1], default=None)


def _gap(values: Sequence[float]) -> float:
    return max(values) - min(values)
