"""The run in sentences: templates with values, each with the page that shows it and its proof."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tracer.model.metric import Metric
from vizdist.analysis.branches import Branch, branches, loops, of_most
from vizdist.analysis.bytes_moved import BytesMoved, bytes_moved
from vizdist.analysis.collectives import Collective, collectives
from vizdist.analysis.faults import Faults, faults
from vizdist.analysis.faults_told import of_asked
from vizdist.analysis.gathered_gradients import Gathered, gathered_gradients
from vizdist.analysis.graph_counts import graph_counts
from vizdist.analysis.look_next import Finding, look_next
from vizdist.analysis.loss_curve import LossCurve, loss_curve
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.path_stretches import way_of
from vizdist.analysis.progress import progress
from vizdist.analysis.sentence import MOST_NAMED, Sentence, some_of
from vizdist.analysis.slow_step import why_slow
from vizdist.analysis.staleness import Staleness, staleness
from vizdist.analysis.step_headline import of_time
from vizdist.analysis.step_split import TaskSplit, split_of_client
from vizdist.analysis.step_times import StepTimes, step_times
from vizdist.analysis.typical_step import TypicalStep, typical_step
from vizdist.analysis.what_if_path import longest_changed
from vizdist.analysis.what_went_wrong import WhatWentWrong, what_went_wrong
from vizdist.i18n.units import duration, figures, size
from vizdist.store.problems import Problem
from vizdist.store.trace import Trace

METRICS = ("accuracy", "next letter accuracy", "R²")  #: whose sentences say what they are


@dataclass(frozen=True, slots=True)
class Summary:
    """All that the Summary page and `vizdist report` say of a trace."""

    headline: tuple[Sentence, ...]
    sentences: tuple[Sentence, ...]
    findings: tuple[Finding, ...]
    times: StepTimes
    moved: BytesMoved
    loss: LossCurve
    stale: Staleness
    faults: Faults
    typical: TaskSplit | None  #: of a step of median length
    remarks: tuple[Problem, ...]  #: what of its files is missing or was mended
    wrong: WhatWentWrong | None  #: of a run that did not end well


def summarise(trace: Trace) -> Summary:
    times = step_times(trace)
    typical = split_of_client(trace, times.typical) if times.typical else None
    parts = Summary(
        (),
        (),
        tuple(look_next(trace)),
        times,
        bytes_moved(trace),
        loss_curve(trace),
        staleness(trace),
        faults(trace),
        typical,
        trace.problems,
        what_went_wrong(trace),
    )
    return Summary(
        tuple(_headline(trace, parts)),
        tuple(_sentences(trace, parts)),
        *(getattr(parts, name) for name in list(Summary.__dataclass_fields__)[2:]),
    )


def in_progress(trace: Trace) -> Summary:
    """Of a run that goes on: what is not there yet is not missing, and no end is no fault."""
    seen, now = summarise(trace), progress(trace)
    on = Sentence(
        "headline.running", {"step": f"{now.step:,}", "of": f"{now.of_steps:,}"}, source="step"
    )
    told = tuple(said for said in seen.headline if not said.key.startswith("cause."))
    findings = tuple(found for found in seen.findings if found.key != "missing")
    first = (on,) if now.of_steps else ()
    remarks = tuple(one for one in seen.remarks if one.kind != "count")
    return replace(
        seen, headline=(*first, *told)[:2], findings=findings, remarks=remarks, wrong=None
    )


def _headline(trace: Trace, seen: Summary) -> Iterator[Sentence]:
    """Two sentences; what went wrong is the first."""
    if (cause := seen.faults.cause) is not None:
        key, proof = f"cause.{cause.key}", cause.proof
        yield Sentence(key, cause.values, "timeline", proof, cause.step, "outcome")
    steps = sorted({step.number for step in seen.times.steps})
    if not steps:
        yield Sentence("headline.no_steps", {"count": len(trace)}, source="kind")
        return
    yield _of_loss(seen.loss, len(steps))
    if seen.typical is not None and cause is None:
        yield of_time(trace, seen.times, seen.typical)


def _of_loss(loss: LossCurve, num_steps: int) -> Sentence:
    """Where each worker has its own it is their mean, as the run itself prints it."""
    values: dict[str, object] = {"count": num_steps}
    if len(loss.mean) < 2:
        return Sentence("headline.steps", values, source="step")
    first, *_, last = (f"{value:.3f}" for _, value in loss.mean)
    values |= {"first": first, "last": last, "workers": len(loss.lines)}
    key = "mean_loss" if len(loss.lines) > 1 else "loss"
    return Sentence(f"headline.{key}", values, source="vizdist.loss")


def _sentences(trace: Trace, seen: Summary) -> Iterator[Sentence]:
    yield from of_asked(trace, seen.faults.cause)
    yield from _of_faults(seen.faults)
    yield from _of_graph(trace)
    if not seen.times.steps:
        yield from _of_spans(trace)
    yield from _of_steps(seen)
    yield from _of_path(trace, len(seen.times.steps))
    yield from _of_control_flow(trace, seen.times)
    yield from _of_bytes(seen.moved)
    yield from _of_outlier(trace, seen.times)
    yield from _of_variables(seen.stale)
    yield from _of_gathered(gathered_gradients(trace))
    yield from _of_collectives([one for one in collectives(trace) if one.step])
    if seen.loss.metric is not None:
        yield _of_metric(seen.loss.metric)


def _of_metric(metric: Metric) -> Sentence:
    """By its name; what is known by name is explained too."""
    key = metric.name if metric.name in METRICS else "other"
    values = {"name": metric.name, "value": str(metric)}
    return Sentence(f"metric.{key}", values, "summary", source="vizdist.metric")


def _of_graph(trace: Trace) -> Iterator[Sentence]:
    graph = trace.graph(trace.steps[-1]) if trace.steps else None
    if graph is None or not graph.stages:
        return
    counts = graph_counts(graph)
    values: dict[str, object] = {
        "full": counts.nodes.get("full", 0),
        "pruned": counts.nodes.get("pruned", 0),
        "devices": counts.devices,
        "count": counts.pairs,
        "control": counts.control_pairs,
    }
    key = "graph" if counts.control_pairs else "graph_data" if counts.pairs else "graph_uncut"
    key = f"{key}_whole" if values["full"] == values["pruned"] else key
    yield Sentence(key, values, "graph", (), trace.steps[-1].number, "graph.chunk")


def _of_steps(seen: Summary) -> Iterator[Sentence]:
    split = seen.typical
    if split is None:
        return
    compute, transfer, update = (split.parts[name] for name in ("compute", "transfer", "update"))
    values: dict[str, object] = {
        "took": str(duration(split.total)),
        "compute": str(duration(compute)),
        "transfer": str(duration(transfer)),
        "update": str(duration(update)),
        "task": split.task,
        "steps": len(seen.times.steps),
    }
    key = "median" if update else "median_without_update"
    key = key if transfer else "median_alone"
    key = key if split.has_ops else "median_without_ops"
    yield Sentence(key, values, "timeline", (split.step.span,), split.step.number)


def _of_path(trace: Trace, num_steps: int) -> Iterator[Sentence]:
    """What the critical path of a typical step goes to most."""
    typical = typical_step(trace)
    if typical is None or not typical.stretches:
        return
    most = typical.stretches[0]
    values: dict[str, object] = {
        "count": len({stretch.task for stretch in typical.stretches}),
        "steps": num_steps,
        "share": f"{figures(100 * most.total / typical.step.duration)} %",
        "name": most.name,
        "task": most.task,
    }
    key = f"path.{way_of(most)}"
    yield Sentence(key, values, "timeline", most.spans, typical.step.number)
    yield from _of_what_if(trace, typical)


def _of_what_if(trace: Trace, typical: TypicalStep) -> Iterator[Sentence]:
    """What a step would take without that; the graph tries other changes too."""
    tried = longest_changed(trace, typical.stretches, typical.what_if)
    if tried is None:
        return
    span, found = tried
    values: dict[str, object] = {
        "name": found.change.name.replace("→", " → "),
        "would": str(duration(found.would_take)),
        "saved": str(duration(found.saved)),
    }
    key = f"what_if.{found.change.kind}.{'shorter' if found.saved > 0 else 'same'}"
    yield Sentence(key, values, "graph", (span,), typical.step.number)


def _of_control_flow(trace: Trace, times: StepTimes) -> Iterator[Sentence]:
    """Which branches a typical step took, and what its loops came to."""
    if times.typical is None:
        return
    one, number = OneStep(trace, times.typical), times.typical.number
    for branch in branches(one)[:MOST_NAMED]:
        yield _of_branch(branch, number)
    for loop in of_most(loops(one), MOST_NAMED):
        least, most = min(loop.messages.values(), default=0), max(loop.messages.values(), default=0)
        values: dict[str, object] = {
            "step": f"{number:,}",
            "name": loop.name,
            "count": loop.rounds,
            "edges": f"{len(loop.messages):,}",
            "messages": f"{most:,}" if least == most else f"{least:,}–{most:,}",
            "dead": f"{loop.ends_dead:,}",
        }
        is_one_more = least == most == loop.rounds + 1
        key = "one_more" if is_one_more else "crossing" if most else "local"
        yield Sentence(f"loop.{key}", values, "replay", loop.spans, number, "iteration")


def _of_branch(branch: Branch, number: int) -> Sentence:
    values: dict[str, object] = {"step": f"{number:,}", "predicate": branch.predicate}
    if branch.loop:
        key = "turns"
        counts = {"true": branch.times[1], "count": sum(branch.times)}
        no, yes = map(some_of, branch.sides)
        values |= {"name": branch.loop, "on_true": yes, "on_false": no, **counts}
    else:
        key = "true" if branch.is_true else "false"
        key = key if branch.passed else f"{key}_alone"
        ran, passed = some_of(branch.ran), some_of(branch.passed)
        values |= {"ran": ran, "passed": passed, "tasks": tuple(branch.tasks)}
        values |= {"num_passed": len(branch.passed)}
    return Sentence(f"branch.{key}", values, "replay", branch.spans, number, "dead")


def _of_bytes(moved: BytesMoved) -> Iterator[Sentence]:
    if not (moved.total and moved.tensors):  # pieces of collectives are told as such
        return
    names: Counter[str] = Counter()
    for tensor in moved.tensors:
        names[tensor.name] += tensor.bytes
    [(name, most)] = names.most_common(1)
    proof = next(tensor.span for tensor in moved.tensors if tensor.name == name)
    values: dict[str, object] = {
        "bytes": str(size(moved.per_step)),
        "steps": moved.num_steps,
        "name": name,
        "share": f"{figures(100 * most / moved.total)} %",
    }
    yield Sentence("bytes", values, "rendezvous", (proof,), source="bytes")
    if moved.variable_bytes:
        key = "closed_form" if moved.matches_closed_form else "not_closed_form"
        each = {"variables": f"{moved.variable_bytes:,}", "bytes": figures(moved.per_step)}
        yield Sentence(key, each | {"steps": moved.num_steps}, "summary", source="bytes")


def _of_outlier(trace: Trace, times: StepTimes) -> Iterator[Sentence]:
    if times.outlier is None:
        return
    usual = times.usual_for(times.outlier)
    cause = why_slow(trace, times.outlier, usual) if usual else None
    values: dict[str, object] = {
        "step": times.outlier.number,
        "took": str(duration(times.outlier.duration)),
    }
    if cause is None:
        proof = (times.outlier.span,)
        yield Sentence("outlier.unknown", values, "timeline", proof, times.outlier.number)
        return
    values |= {"task": cause.task, "name": cause.name, "late": str(duration(cause.late))}
    key = f"outlier.{cause.measure}"
    yield Sentence(key, values, "timeline", (cause.span,), times.outlier.number)


def _of_gathered(found: Gathered | None) -> Iterator[Sentence]:
    if found is None:
        return
    values = {"given": f"{found.given:,}", "dropped": f"{found.dropped:,}"}
    key, proof = ("dropped", (found.first,)) if found.dropped else ("gathered", ())
    yield Sentence(key, values, "timeline", proof, found.step, source="vizdist.dropped")


def _of_collectives(found: Sequence[Collective]) -> Iterator[Sentence]:
    """Means a step, over the steps that have any."""
    if not found:
        return
    steps = len({one.step for one in found})
    sent: Counter[int] = Counter()
    for one in found:
        for rank in one.ranks:
            sent[rank.number] += rank.sent_bytes
    waited = sum(rank.wait_ns for one in found for rank in one.ranks)
    longest = max((rank for one in found for rank in one.ranks), key=lambda rank: rank.wait_ns)
    values = {
        "count": f"{len(found) / steps:.3g}",
        "ways": ", ".join(sorted({f"{one.kind} {one.algorithm}" for one in found})),
        "bytes": str(size(max(sent.values()) // steps)),
        "wait": str(duration(waited // steps)),
    }
    proof = (int(longest.span, 16),)
    key = "collectives" if any(sent.values()) else "collectives_uncounted"
    yield Sentence(key, values, "collectives", proof, source="vizdist.wait_ns")


def _of_variables(stale: Staleness) -> Iterator[Sentence]:
    if not stale.num_variables:
        return
    values: dict[str, object] = {
        "count": stale.num_variables,
        "copies": stale.num_copies - stale.num_variables + 1,
        "updates": f"{stale.num_updates:,}",
        "late": f"{sum(number for missed, number in stale.missed.items() if missed):,}",
        "most": f"{stale.most:,}",
    }
    key = "stale" if stale.most else "fresh"
    yield Sentence(key, values, "variables", (stale.worst,), source="version")
    if stale.num_others:
        yield Sentence("others", {"count": stale.num_others}, "variables", source="graph.chunk")


def _of_faults(wrong: Faults) -> Iterator[Sentence]:
    """What follows from the cause: other tasks that did not end well."""
    guilty = wrong.cause.values.get("task") if wrong.cause else None
    for task in wrong.tasks:
        if task.task != guilty:
            yield Sentence(
                f"ended.{task.outcome}",
                {"task": task.task},
                "timeline",
                wrong.proof,
                source="outcome",
            )


def _of_spans(trace: Trace) -> Iterator[Sentence]:
    """Of a trace without steps: how much there is, and where."""
    if len(trace):
        values = {"count": len(trace.tasks), "time": str(duration(trace.end - trace.start))}
        yield Sentence("spans", values, "timeline")
