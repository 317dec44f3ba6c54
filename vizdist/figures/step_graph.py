"""The graph that one step ran, with what it measured: canvas and page take both from here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracer.model.graph_table import NodeRow
from vizdist.analysis.node_measures import NOTHING_MEASURED, StepMeasures, measure_nodes
from vizdist.analysis.steps import clients_of, shown_step
from vizdist.figures.graph_passes import PassChange, passes_of
from vizdist.store.problems import Problem
from vizdist.store.trace import StepInfo, Trace


@dataclass(frozen=True, slots=True)
class StepGraph:
    """`tasks` are those whose client runs a step of this number, each with a graph of its own.

    `passes` are the optimizations that the graph went through.
    """

    stages: Mapping[str, Sequence[NodeRow]]
    measures: StepMeasures
    step: StepInfo | None
    tasks: tuple[str, ...]
    problems: tuple[Problem, ...]
    passes: tuple[PassChange, ...] = ()

    @property
    def told(self) -> dict[str, Any]:
        """Of which step an answer is; one that is not whole may still go on."""
        if self.step is None:
            return {"step": None, "task": None, "isWhole": True}
        return {"step": self.step.number, "task": self.step.task, "isWhole": self.step.is_whole}

    def stage(self, wanted: str | None) -> str:
        """The wanted stage if the trace holds it, else the last it holds; "" if it holds none."""
        if wanted and wanted in self.stages:
            return wanted
        return list(self.stages)[-1] if self.stages else ""


def step_graph(trace: Trace, number: int | None, task: str = "") -> StepGraph:
    """The graph of a step (None: the one pages open with) as a task ran it.

    Of several tasks the first by name, so that the next step shows the same one.
    """
    shown = shown_step(trace, number)
    tasks = tuple(clients_of(trace, shown))
    chosen = task if task in tasks else next(iter(tasks), "")
    step = trace.step(shown, chosen) if shown is not None else None
    table = trace.graph(step)
    if table is None:
        return StepGraph({}, NOTHING_MEASURED, step, tasks, ())
    measures = measure_nodes(trace, step) if step else NOTHING_MEASURED
    passes = passes_of(trace, table)
    return StepGraph(table.stages, measures, step, tasks, table.problems, passes)
