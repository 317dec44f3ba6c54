"""The summary of a trace as text for a terminal, or as one JSON object."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import orjson

from tracer.model.metric import NOT_JUDGED
from vizdist.analysis.look_next import Finding
from vizdist.analysis.mechanisms.text_table import listed
from vizdist.analysis.sentence import Sentence
from vizdist.analysis.stalls_told import Told
from vizdist.analysis.step_report import found_of_step, steps_of, told_of_step
from vizdist.analysis.step_split import TaskSplit, split_step
from vizdist.analysis.summary import Summary, in_progress, summarise
from vizdist.analysis.wrong_report import tell as tell_wrong
from vizdist.i18n import Lang, t
from vizdist.i18n.printable import printable
from vizdist.i18n.units import duration, micros, percentages, size
from vizdist.store.details import hex_id
from vizdist.store.liveness import RUNNING, outcome_now
from vizdist.store.problems import Problem, TraceError
from vizdist.store.trace import StepInfo, Trace


def report_text(trace: Trace, step: int | None = None, lang: Lang = "en") -> str:
    """Sentences first, then tables; of a step that is asked for, its mechanisms too.

    TraceError if the step is not there.
    """
    seen = _seen(trace)
    asked = [] if step is None else steps_of(trace, step)
    blocks: list[Iterable[str]] = [
        _head(trace, seen, lang),
        tell_wrong(seen.wrong, lang) if seen.wrong else (),
        *(_split(split, lang) for split in _splits(trace, seen, step)),
        *(lines for one in asked for lines in told_of_step(one, lang)),
        _matrix(seen, lang),
        _findings(seen.findings, lang),
        _processes(trace, lang),
        _problems(trace, lang),
    ]
    told = [[printable(line) for line in block] for block in blocks]
    return "\n\n".join("\n".join(lines) for lines in told if lines) + "\n"


def report_json(trace: Trace, step: int | None = None) -> str:
    """One line of strict JSON; times in ns, sizes in bytes, ids in hex."""
    seen = _seen(trace)
    return orjson.dumps(_as_mapping(trace, seen, step), option=orjson.OPT_NON_STR_KEYS).decode()


def _seen(trace: Trace) -> Summary:
    goes_on = outcome_now(trace.path, trace.manifest) == RUNNING
    return in_progress(trace) if goes_on else summarise(trace)


def _splits(trace: Trace, seen: Summary, step: int | None) -> list[TaskSplit]:
    """The client's split of every request with this number; of a typical step if none is asked."""
    if step is None:
        return [seen.typical] if seen.typical else []
    number = trace.step(step).number
    return [split_step(trace, one)[0] for one in trace.steps if one.number == number]


def sentence_text(sentence: Sentence, lang: Lang) -> str:
    return t(f"analysis.{sentence.key}", lang, **sentence_values(sentence, lang))


def sentence_values(sentence: Sentence, lang: Lang) -> dict[str, object]:
    """With lists as the language joins them."""
    return {name: _in_words(value, lang) for name, value in sentence.values.items()}


def finding_texts(finding: Finding, lang: Lang) -> tuple[str, str]:
    """(what was found, its cause or remedy)."""
    key = f"analysis.look.{finding.key}"
    values = {name: _in_words(value, lang) for name, value in finding.values.items()}
    says, remedy = (t(f"{key}.{part}", lang, **values) for part in ("says", "remedy"))
    return says, remedy


def _in_words(value: object, lang: Lang) -> object:
    if isinstance(value, Told):
        return t(f"timeline.canvas.stall.{value.key}", lang, **value.values)
    if isinstance(value, tuple):
        return listed(value, lang) if value else t("analysis.nothing", lang)
    return value


def _head(trace: Trace, seen: Summary, lang: Lang) -> Iterator[str]:
    told = (trace.title, trace.manifest.workload, trace.manifest.strategy)
    yield " · ".join(word for word in told if word)
    between = t("analysis.report.between", lang)
    yield between.join(sentence_text(sentence, lang) for sentence in seen.headline)
    for sentence in seen.sentences:
        proof = f"  [{hex_id(sentence.proof[0])}]" if any(sentence.proof) else ""
        yield f"  {sentence_text(sentence, lang)}{proof}"


def _split(split: TaskSplit, lang: Lang) -> Iterator[str]:
    took = str(duration(split.total))
    yield t("analysis.report.step", lang, took=took, step=split.step.number, task=split.task)
    shares = percentages([float(ns) for ns in split.parts.values()])
    for (name, ns), share in zip(split.parts.items(), shares, strict=True):
        yield f"  {t(f'shell.class.{name}', lang):<10}{micros(ns):>10} µs{share:>7.1f} %"


def _matrix(seen: Summary, lang: Lang) -> Iterator[str]:
    moved = seen.moved.per_step_of_tasks
    if not moved:
        return
    tasks = sorted({task for pair in moved for task in pair})
    yield t("analysis.report.moved", lang)
    yield "  " + " " * 12 + "".join(f"{task:>12}" for task in tasks)
    for source in tasks:
        cells = (moved.get((source, target), 0) for target in tasks)
        yield f"  {source:<12}" + "".join(
            f"{size(cell)!s:>12}" if cell else f"{0:>12}" for cell in cells
        )


def _findings(findings: Sequence[Finding], lang: Lang) -> Iterator[str]:
    if not findings:
        return
    yield t("analysis.report.look", lang)
    for finding in findings:
        says, remedy = finding_texts(finding, lang)
        proof = f"  [{hex_id(finding.proof[0])}]" if any(finding.proof) else ""
        yield f"  {says}{t('analysis.report.between', lang)}{remedy}{proof}"


def _processes(trace: Trace, lang: Lang) -> Iterator[str]:
    manifest = trace.manifest
    if manifest.tasks:
        yield t("analysis.report.processes", lang)
        for task in manifest.tasks:
            values = {"task": task.task, "pid": task.pid, "outcome": task.outcome}
            yield "  " + t("analysis.report.process", lang, **values)
    counts = {
        "recorded": f"{manifest.recorded:,}",
        "written": f"{manifest.written:,}",
        "read": f"{len(trace):,}",
    }
    if not trace.is_foreign:
        yield "  " + t("analysis.report.spans", lang, **counts)


def _problems(trace: Trace, lang: Lang) -> Iterator[str]:
    if trace.problems:
        yield t("analysis.report.problems", lang)
    for problem in trace.problems:
        yield f"  {problem_text(problem, lang)}"


def problem_text(problem: Problem, lang: Lang) -> str:
    values = {"where": problem.where, "detail": problem.detail}
    return t(f"analysis.problem.{problem.kind}", lang, count=problem.count, **values)


def refusal_text(error: TraceError, lang: Lang) -> str:
    """Why a trace cannot be opened; in English where it is told in no other way."""
    if not error.told:
        return str(error)
    main, *reasons = error.told
    told = "; ".join(problem_text(reason, lang).rstrip(".。") for reason in reasons)
    return problem_text(replace(main, detail=told or main.detail), lang)


def _as_mapping(trace: Trace, seen: Summary, step: int | None) -> dict[str, Any]:
    manifest = trace.manifest
    return {
        "trace": trace.title,
        "workload": manifest.workload,
        "strategy": manifest.strategy,
        "outcome": manifest.outcome,
        "headline": [sentence_text(sentence, "en") for sentence in seen.headline],
        "sentences": [_sentence(sentence) for sentence in seen.sentences],
        "look_next": [_finding(finding) for finding in seen.findings],
        "steps": _steps(seen),
        "split": [_split_mapping(split) for split in _all_splits(trace, seen, step)],
        "mechanisms": [] if step is None else [found_of_step(o) for o in steps_of(trace, step)],
        "bytes": {
            "per_step": seen.moved.per_step,
            "variables": seen.moved.variable_bytes,
            "is_closed_form": seen.moved.matches_closed_form,
            "by_device": [[*pair, num] for pair, num in seen.moved.by_device.items()],
        },
        "loss": dict(seen.loss.lines),
        **(seen.loss.metric.to_json() if seen.loss.metric else NOT_JUDGED),
        "staleness": seen.stale.missed,
        "faults": {
            "error": seen.faults.error,
            "tasks": [[task.task, task.outcome, task.error] for task in seen.faults.tasks],
            "unfinished": seen.faults.unfinished,
            "errors": seen.faults.errors,
        },
        "what_went_wrong": asdict(seen.wrong) if seen.wrong else None,
        "processes": [
            {"task": task.task, "pid": task.pid, "outcome": task.outcome} for task in manifest.tasks
        ],
        "spans": {
            "recorded": manifest.recorded,
            "written": manifest.written,
            "read": len(trace),
        },
        "problems": [asdict(problem) for problem in trace.problems],
    }


def _all_splits(trace: Trace, seen: Summary, step: int | None) -> list[TaskSplit]:
    """Every task's split, for those steps that `_splits` shows."""
    shown: list[StepInfo] = [split.step for split in _splits(trace, seen, step)]
    return [split for one in shown for split in split_step(trace, one)]


def _sentence(sentence: Sentence) -> Mapping[str, Any]:
    return {
        "key": sentence.key,
        "text": sentence_text(sentence, "en"),
        "spans": [hex_id(span) for span in sentence.proof],
    }


def _finding(finding: Finding) -> Mapping[str, Any]:
    says, remedy = finding_texts(finding, "en")
    spans = [hex_id(span) for span in finding.proof]
    return {"key": finding.key, "text": says, "remedy": remedy, "spans": spans}


def _steps(seen: Summary) -> Mapping[str, Any]:
    slowest = seen.times.slowest
    return {
        "count": len({step.number for step in seen.times.steps}),
        "median_ns": seen.times.median,
        "total_ns": seen.times.total,
        "slowest": {"number": slowest.number, "ns": slowest.duration} if slowest else None,
    }


def _split_mapping(split: TaskSplit) -> Mapping[str, Any]:
    return {
        "task": split.task,
        "step": split.step.number,
        "ns": split.total,
        "parts_ns": split.parts,
    }
