"""What faults that were asked for did to a run, in sentences: the blow, then what came of it."""

from collections.abc import Iterator, Sequence

from tracer.model.fault import Kind
from vizdist.analysis.asked_faults import (
    AskedFault,
    Recovery,
    Restart,
    Slowed,
    Strike,
    asked_faults,
)
from vizdist.analysis.faults import RootCause
from vizdist.analysis.medians import differ
from vizdist.analysis.sentence import Sentence, some_of
from vizdist.i18n import Lang, t
from vizdist.i18n.units import duration
from vizdist.store.trace import Trace

SOURCE = "fault.inject"


def of_asked(trace: Trace, cause: RootCause | None) -> Iterator[Sentence]:
    """Nothing of a fault that no span tells of."""
    for one in asked_faults(trace):
        if one.strike is not None:
            yield _struck(one, one.strike)
            yield from _followed(one, one.strike, cause)


def asked_text(one: AskedFault, lang: Lang) -> str:
    """In a few words, whether it struck."""
    if one.strike is None:
        return t("library.asked.missed", lang, fault=one.text)
    return t("library.asked.struck", lang, fault=one.text, step=f"{one.strike.step:,}")


def _struck(one: AskedFault, strike: Strike) -> Sentence:
    values = {
        "fault": one.text,
        "task": str(one.fault.task),
        "step": f"{strike.step:,}",
        "late": str(duration(one.fault.delay_ms * 1e6)),
    }
    key = f"fault.{one.fault.kind}"
    return Sentence(key, values, "timeline", (strike.span,), strike.step, SOURCE)


def _followed(one: AskedFault, strike: Strike, cause: RootCause | None) -> Iterator[Sentence]:
    if strike.restart is not None:
        yield _restarted(one, strike.restart)
    if strike.recovery is not None:
        yield _recovered(one, strike.recovery)
    if strike.slowed is not None:
        yield _slowed(strike.slowed)
    if strike.restart is None and cause is not None and _is_of(one, cause):
        key = "after_fault.failed"
        values = {"task": str(one.fault.task)}
        yield Sentence(key, values, "timeline", cause.proof, cause.step, "outcome")


def _is_of(one: AskedFault, cause: RootCause) -> bool:
    """A delay slows, it ends nothing; what else strikes a task is why that task failed."""
    return one.fault.kind is not Kind.DELAY and cause.values.get("task") == str(one.fault.task)


def _restarted(one: AskedFault, found: Restart) -> Sentence:
    values = {
        "task": str(one.fault.task),
        "took": str(duration(found.took)),
        "step": f"{found.step:,}",
    }
    key = "after_fault.restarted_at" if found.step else "after_fault.restarted"
    return Sentence(key, values, "timeline", found.proof, found.step, "task.restart")


def _recovered(one: AskedFault, found: Recovery) -> Sentence:
    values: dict[str, object] = {
        "count": len(found.clients),
        "task": str(one.fault.task),
        "lost": _span_of(found.lost),
        "resumed": _span_of(found.resumed),
        "took": str(duration(found.took)),
    }
    step = found.resumed[0]
    return Sentence(
        "after_fault.recovered", values, "timeline", found.proof, step, "session.recover"
    )


def _span_of(numbers: Sequence[int]) -> str:
    first, last = f"{numbers[0]:,}", f"{numbers[-1]:,}"
    return first if first == last else f"{first}–{last}"


def _slowed(found: Slowed) -> Sentence:
    """Before is told where there were steps enough to tell it by."""
    values: dict[str, object] = {
        "tasks": some_of(found.clients),
        "after": str(duration(found.after.ns)),
        "count": found.after.count,
    }
    key = "since"
    if found.before is not None and found.before.is_known and found.after.is_known:
        values["before"] = str(duration(found.before.ns))
        key = "changed" if differ(found.before, found.after) else "unchanged"
    proof = found.proof
    return Sentence(f"after_fault.{key}", values, "timeline", (proof.span,), proof.number)
