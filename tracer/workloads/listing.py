"""What can be run, and how it is spread: `tracer list`."""

from collections.abc import Iterator, Mapping
from typing import Any

from tracer.model.option import Declared, describe_options, option_line
from tracer.strategies.registry import STRATEGIES
from tracer.strategies.strategy import counted_jobs
from tracer.workloads.factory import Factory, options_of, says_of
from tracer.workloads.registry import GRAPHS, MODULES

_Rows = Mapping[str, tuple[str, Declared]]  # name → what it is, its options


def listed() -> dict[str, dict[str, Any]]:
    """Workloads, of kind "module" or "graph", and strategies."""
    kinds = (("module", _rows(MODULES)), ("graph", _rows(GRAPHS)))
    workloads = {n: {"kind": kind, **row} for kind, rows in kinds for n, row in _described(rows)}
    strategies = {
        name: {"jobs": list(counted_jobs(STRATEGIES[name])), **row}
        for name, row in _described(_strategies())
    }
    return {"workloads": workloads, "strategies": strategies}


def listing_lines() -> Iterator[str]:
    titled = (
        ("modules: tracer run NAME --strategy S", _rows(MODULES)),
        ("graphs: tracer run NAME", _rows(GRAPHS)),
        ("strategies", _strategies()),
    )
    for title, rows in titled:
        yield title
        for name, (says, options) in rows.items():
            yield f"  {name:22} {says}"
            for option_name, option in options.items():
                yield f"    --option {option_line(option_name, option)}"


def _rows(factories: Mapping[str, Factory]) -> _Rows:
    return {name: (says_of(make), options_of(make, name)) for name, make in factories.items()}


def _strategies() -> _Rows:
    return {name: (each.says, each.options) for name, each in STRATEGIES.items()}


def _described(rows: _Rows) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, (says, options) in rows.items():
        yield name, {"says": says, "options": describe_options(options)}
