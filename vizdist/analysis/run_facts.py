"""What a run was asked to be and what came of it, as short texts that can stand side by side."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tracer.model.trace_folder import Manifest
from vizdist.analysis.graph_counts import graph_counts
from vizdist.analysis.loss_curve import metric_of
from vizdist.analysis.medians import LEAST
from vizdist.analysis.overview import cluster_tasks
from vizdist.i18n.units import duration
from vizdist.store.graphs import GraphTable
from vizdist.store.trace import Trace

#: what a manifest tells by other names, or what says nothing of how a run went
TOLD_ELSEWHERE = frozenset({
    "--strategy", "--steps", "--seed", "--workers", "--ps", "--option", "--out", "-o", "--json",
    "-v", "-q", "--endpoint",
})  # fmt: skip


class Fact(NamedTuple):
    """`compare.fact.<key>` of the catalogue, or `name` as it stands; "" where a run says nothing.

    A condition was set before the run began, all else came of it. A metric has its own name.
    """

    key: str
    values: tuple[str, ...]
    name: str = ""
    is_condition: bool = True

    @property
    def differs(self) -> bool:
        return len(set(self.values)) > 1

    def differs_among(self, places: Iterable[int]) -> bool:
        """Whether it does among some of the runs alone."""
        return len({self.values[place] for place in places}) > 1


def conditions(traces: Sequence[Trace]) -> list[Fact]:
    """How the runs were set up."""
    told = [dict(_conditions(trace)) for trace in traces]
    return [Fact(key, values) for key, values in _beside(told)] + [
        Fact("", values, name)
        for tables in _named([trace.manifest for trace in traces])
        for name, values in _beside(tables)
    ]


def outcomes(traces: Sequence[Trace], graphs: Sequence[GraphTable | None]) -> list[Fact]:
    """What came of the runs; `graphs` are those of the steps that are shown."""
    told = [dict(_outcomes(*pair)) for pair in zip(traces, graphs, strict=True)]
    metrics = [{one.name: str(one)} if (one := metric_of(trace)) else {} for trace in traces]
    return [Fact(key, values, is_condition=False) for key, values in _beside(told)] + [
        Fact("metric", values, name, is_condition=False) for name, values in _beside(metrics)
    ]


def _named(manifests: Sequence[Manifest]) -> Iterator[list[Mapping[str, str]]]:
    """What has names of its own: options, other flags, versions."""
    yield [manifest.options for manifest in manifests]
    yield [_flags(manifest) for manifest in manifests]
    yield [manifest.versions for manifest in manifests]


def _beside(tables: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for key in dict.fromkeys(key for table in tables for key in table):
        values = tuple(table.get(key, "") for table in tables)
        if any(values):
            yield key, values


def _conditions(trace: Trace) -> Iterator[tuple[str, str]]:
    manifest = trace.manifest
    yield "workload", manifest.workload
    yield "strategy", manifest.strategy
    if not manifest.run_id:
        return
    tasks = Counter(task.partition(":")[0] for task, _ in cluster_tasks(trace))
    yield "tasks", _counted(tasks)
    names = [name for task in manifest.tasks for name in task.devices]
    yield "devices", _counted(Counter(map(_device_type, names)))
    yield "host", manifest.host
    yield "steps", f"{manifest.steps:,}"
    yield "seed", str(manifest.seed)


def _device_type(device: str) -> str:
    """`CPU` of a whole device name."""
    return device.rpartition("device:")[2].partition(":")[0]


def _counted(counts: Mapping[str, int]) -> str:
    return " · ".join(f"{name} ×{count}" for name, count in sorted(counts.items()))


def _flags(manifest: Manifest) -> dict[str, str]:
    """Flags of the command line that the manifest has no other place for."""
    found: dict[str, str] = {}
    flag = ""
    for word in manifest.command:
        if word.startswith("-"):
            flag, _, value = word.partition("=")
            found[flag] = value or "✓"
        elif flag:
            known = found[flag].removeprefix("✓")
            found[flag] = f"{known} {word}".strip()
    return {name: value for name, value in found.items() if name not in TOLD_ELSEWHERE}


def _outcomes(trace: Trace, graph: GraphTable | None) -> Iterator[tuple[str, str]]:
    yield "outcome", trace.manifest.outcome if trace.manifest.run_id else ""
    lengths = [step.duration for step in trace.steps if step.is_whole]
    if len(lengths) >= LEAST:
        quarter, three = np.percentile(lengths, (25, 75)).tolist()
        yield "quartiles", f"{duration(quarter)} – {duration(three)}"
    if graph is not None:
        counts = graph_counts(graph)
        yield "nodes", f"{counts.nodes.get(graph.last_stage, 0):,}"
        yield "pairs", f"{counts.pairs:,}"
    yield "spans", f"{len(trace):,}"
