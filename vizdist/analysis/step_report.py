"""The mechanisms of a step, section by section, each only where the trace proves it."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from vizdist.analysis.mechanisms import (
    caches,
    calls,
    control_flow,
    critical_path,
    executor,
    failures,
    history,
    leftovers,
    preparation,
    queues,
    sessions,
    stages,
    transfers,
)
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.i18n import Lang, t
from vizdist.store.trace import Trace


class Section(NamedTuple):
    """`find` gives a dataclass or None, `tell` the lines of it."""

    find: Callable[[OneStep], Any]
    tell: Callable[[Any, Lang], Iterator[str]]


#: `mechanisms.<name>.title` is the heading of a section
SECTIONS: Mapping[str, Section] = {
    "failures": Section(failures.find, failures.tell),
    "history": Section(history.find, history.tell),
    "stages": Section(stages.find, stages.tell),
    "preparation": Section(preparation.find, preparation.tell),
    "sessions": Section(sessions.find, sessions.tell),
    "caches": Section(caches.find, caches.tell),
    "calls": Section(calls.find, calls.tell),
    "critical_path": Section(critical_path.find, critical_path.tell),
    "executor": Section(executor.find, executor.tell),
    "control_flow": Section(control_flow.find, control_flow.tell),
    "queues": Section(queues.find, queues.tell),
    "transfers": Section(transfers.find, transfers.tell),
    "leftovers": Section(leftovers.find, leftovers.tell),
}


def steps_of(trace: Trace, number: int) -> list[OneStep]:
    """Every request with this number. TraceError if there is none."""
    number = trace.step(number).number
    return [OneStep(trace, step) for step in trace.steps if step.number == number]


def told_of_step(one: OneStep, lang: Lang) -> Iterator[list[str]]:
    """The sections as lines, a heading first."""
    values = {"step": one.step.number, "task": one.step.task}
    for name, section in SECTIONS.items():
        if (found := section.find(one)) is not None:
            title = t(f"mechanisms.{name}.title", lang, **values)
            yield [title, *section.tell(found, lang)]


def found_of_step(one: OneStep) -> dict[str, Any]:
    """The same as plain data, a section where it was found."""
    found = {name: section.find(one) for name, section in SECTIONS.items()}
    known = {name: part for name, part in found.items() if part is not None}
    step = one.step
    head = {"step": step.number, "task": step.task, "start_ns": step.start - one.trace.start}
    return {**head, **known}
