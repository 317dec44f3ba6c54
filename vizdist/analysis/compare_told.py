"""What a comparison comes to, in sentences: which run is slower and why, and what is not alike."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, Union

from vizdist.analysis.compare import ComparedRun, Comparison
from vizdist.analysis.medians import LEAST, differ
from vizdist.analysis.run_facts import Fact
from vizdist.i18n.units import duration, figures, size

AS_LONG = 1.05  #: times from which a step took longer, and not as long
EXPLAINS = 0.4  #: part of the difference that one thing must account for
TOLD = ("workload", "devices", "host", "steps", "seed")  #: without which times say little
MOST = 4  #: conditions up to which a sentence has room for values

K = TypeVar("K", bound=Hashable)
Value = Union[str, int, "Said", tuple[str | Fact, ...]]
Values = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Said:
    """`compare.told.<key>`; a value is a text, a sentence of its own, or several to list.

    `runs` are letters.
    """

    key: str
    values: Mapping[str, Value] = field(default_factory=dict)


def told(found: Comparison) -> Iterator[Said]:
    """On time, on bytes, and on what was set up in another way."""
    if found.is_alike:
        yield Said("alike", {"runs": _letters(found.runs)})
        return
    yield from _of_time(found)
    if len(found.timed) == len(found.runs):
        yield from _of_bytes(found.runs)
    yield from _of_conditions(found)


def _letters(runs: Iterable[ComparedRun]) -> tuple[str, ...]:
    return tuple(run.letter for run in runs)


def _of_time(found: Comparison) -> Iterator[Said]:
    """Of runs without a step time, why; else of the slowest beside the fastest, where known."""
    for run in found.runs:
        if run.step and not run.ended:
            yield Said("unended", {"run": run.letter, "step": f"{run.step.number:,}"})
    untimed = [run for run in found.runs if not run.step]
    for key, has_steps in (("untimed", True), ("stepless", False)):
        if runs := [run for run in untimed if bool(run.trace.steps) == has_steps]:
            yield Said(key, {"runs": _letters(runs)})
    if len(found.timed) < 2:
        return
    few = [run for run in found.timed if run.median and not run.median.is_known]
    if few and not found.is_of_one_step:
        yield Said("few", {"runs": _letters(few), "least": str(LEAST)})
    else:
        yield _slowest(found)


def _slowest(found: Comparison) -> Said:
    """A step that was asked for is told as it was, medians only where noise does not explain it."""
    of_one = "_in_step" if found.is_of_one_step else ""
    ordered = sorted(found.timed, key=lambda run: run.took)
    fast, slow = ordered[0], ordered[-1]
    values: Values = {"step": f"{found.asked:,}" if found.asked is not None else ""}
    took = tuple(str(duration(run.took)) for run in found.timed)
    alike: Values = values | {"runs": _letters(found.timed), "took": took}
    if slow.took < AS_LONG * fast.took:
        return Said(f"as_long{of_one}", alike)
    if not of_one and slow.median and fast.median and not differ(slow.median, fast.median):
        return Said("as_varied", alike)
    values |= {
        "slow": slow.letter,
        "fast": fast.letter,
        "took": str(duration(slow.took)),
        "ratio": figures(slow.took / max(1, fast.took)),
    }
    cause = _cause(slow, fast)
    key = f"slower{of_one}"
    return Said(f"{key}_as", values | {"cause": cause}) if cause else Said(key, values)


def _cause(slow: ComparedRun, fast: ComparedRun) -> Said | None:
    """The one thing that explains enough: of the critical path, else a class of time."""
    enough = EXPLAINS * (slow.took - fast.took)
    named = {key: ns for key, ns in slow.path.items() if key.name}
    key = _most_grown(named, fast.path)
    if key and (late := named[key] - fast.path.get(key, 0)) >= enough:
        return Said(f"longer.{key.part}", {"name": key.name, "late": str(duration(late))})
    if not (slow.split and fast.split and slow.split.has_ops and fast.split.has_ops):
        return None
    before, now = fast.split.parts, slow.split.parts
    part = _most_grown(now, before)
    if part and (late := now[part] - before[part]) >= enough:
        return Said(f"more.{part}", {"late": str(duration(late))})
    return None


def _most_grown(now: Mapping[K, int], before: Mapping[K, int]) -> K | None:
    return max(now, key=lambda key: now[key] - before.get(key, 0), default=None)


def _of_bytes(runs: Sequence[ComparedRun]) -> Iterator[Said]:
    ordered = sorted(runs, key=lambda run: run.moved.per_step)
    least, most = ordered[0], ordered[-1]
    fewer, more = round(least.moved.per_step), round(most.moved.per_step)
    values: Values = {
        "least": least.letter, "most": most.letter, "runs": _letters(runs),
        "bytes": str(size(more)), "ratio": figures(more / max(1, fewer)),
    }  # fmt: skip
    if fewer == more:
        yield Said("same_bytes" if more else "no_bytes", values)
    else:
        yield Said("more_bytes" if fewer else "some_bytes", values)


def _of_conditions(found: Comparison) -> Iterator[Said]:
    """No difference in how runs were set up is left unsaid; of those in TOLD the values too."""
    silent = [run for run in found.runs if run.trace.is_foreign]
    if silent:
        yield Said("untold", {"runs": _letters(silent)})
    told = [place for place, run in enumerate(found.runs) if run not in silent]
    if len(told) < 2:
        return
    facts = tuple(fact for fact in found.facts if fact.is_condition and fact.differs_among(told))
    if not facts:
        runs = _letters(found.runs[place] for place in told)
        yield Said("set_up_alike", {"runs": runs})
        return
    are_few = len(facts) <= MOST
    named = (f if are_few and f.key in TOLD else f._replace(values=()) for f in facts)
    yield Said("differ", {"facts": tuple(named)})
