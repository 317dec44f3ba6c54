"""One request for several strategies: a plan for each, run one after the other.

A strategy gets of the flags and options those that it has a use for, as the others are meant for
another one of them. What none has a use for is refused, before any of them runs.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tracer.launch.account import FolderError
from tracer.launch.arguments import BadRequest, plan_from
from tracer.launch.plan import Plan
from tracer.model.option import Declared, options_in_force
from tracer.strategies.registry import STRATEGIES, find_strategy
from tracer.strategies.strategy import StrategyError, counted_jobs

#: argument → job without which a strategy has no use for it
_OF_JOBS: Final[Mapping[str, str]] = {"workers": "worker", "ps": "ps", "ps_devices": "ps"}


def plans_from(
    parsed: argparse.Namespace, declared: Declared, is_graph: bool = False
) -> Sequence[Plan]:
    """One for each strategy that is named; for a graph one. Raises what `plan_from` raises."""
    if is_graph or "," not in (parsed.strategy or ""):
        return [plan_from(parsed, declared, is_graph)]
    names = _named(parsed.strategy)
    _check(parsed, names, declared)
    return [plan_from(_own_arguments(parsed, name, names, declared), declared) for name in names]


def _named(text: str) -> Sequence[str]:
    names = [find_strategy(name.strip()).name for name in text.split(",")]
    if doubled := [name for name in names if names.count(name) > 1]:
        raise StrategyError(f"--strategy {text}: {doubled[0]} is named twice; name it once")
    return names


def _check(parsed: argparse.Namespace, names: Sequence[str], declared: Declared) -> None:
    """Raises OptionError for an option that nobody declares."""
    known = {**_options_of(names), **declared}
    options_in_force(known, parsed.option, f"{', '.join(names)} and {parsed.workload} declare")
    if parsed.checkpoint:
        raise BadRequest(
            f"--checkpoint {parsed.checkpoint}: the second strategy would go on from what the "
            "first one saved; leave it out, or name one --strategy"
        )
    folder = Path(parsed.out or "")
    if parsed.out and folder.is_dir() and any(folder.iterdir()):
        raise FolderError(f"--out {parsed.out} is not empty; name a new folder, or remove it")


def _own_arguments(
    parsed: argparse.Namespace, name: str, names: Sequence[str], declared: Declared
) -> argparse.Namespace:
    """What of the request is for this strategy; its trace lies in a folder of its own."""
    own: dict[str, Any] = {"strategy": name}
    for argument, job in _OF_JOBS.items():
        takers = [each for each in names if job in counted_jobs(STRATEGIES[each])]
        if takers and name not in takers:
            own[argument] = None
    known = {**_options_of([name]), **declared}
    foreign = _options_of(names).keys() - known.keys()
    own["option"] = [text for text in parsed.option if text.partition("=")[0] not in foreign]
    if parsed.out:
        own["out"] = str(Path(parsed.out) / f"{name}.trace")
    return argparse.Namespace(**{**vars(parsed), **own})


def _options_of(names: Sequence[str]) -> Declared:
    return {name: option for each in names for name, option in STRATEGIES[each].options.items()}
