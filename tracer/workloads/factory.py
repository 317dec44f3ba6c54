"""A factory makes a workload; its parameters are the options of that workload.

    def workload(batch: Annotated[int, AtLeast(1), "images in a batch"] = 64) -> Workload: …

declares `--option batch=64`: name, type and default are the parameter's, a sentence and a bound are
in its annotation, a `Literal` says which values there are.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from tracer.model.option import Declared, Option
from tracer.model.refusal import Refusal

Factory = Callable[..., Any]

_KINDS = (bool, int, float, str)
_OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class FactoryError(Refusal):
    """A factory that makes no workload; the text says what it must do instead."""


@dataclass(frozen=True, slots=True)
class AtLeast:
    """In an annotation: the least value that the parameter may have."""

    value: float


def says_of(factory: Factory) -> str:
    """The first line of its docstring."""
    return (inspect.getdoc(factory) or "").partition("\n")[0]


def options_of(factory: Factory, name: str) -> Declared:
    """The options that a factory's parameters declare.

    A default of a type that no text gives (None, a function) declares none. Raises FactoryError for
    a parameter without a default.
    """
    hints = _hints(factory)
    options: dict[str, Option] = {}
    for parameter in _parameters(factory):
        if parameter.kind in _OPEN:
            continue
        if parameter.default is parameter.empty:
            raise FactoryError(
                f"{name} needs {parameter.name!r}, which nothing gives it. A factory is called "
                "without arguments: give the parameter a default, which --option "
                f"{parameter.name}=VALUE then overrides"
            )
        if isinstance(parameter.default, _KINDS):
            options[parameter.name] = _option(parameter.default, hints.get(parameter.name))
    return options


def returns(factory: Factory, kind: type) -> bool:
    """Whether its annotation says so."""
    return _hints(factory).get("return") is kind


def _parameters(factory: Factory) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(factory).parameters.values())
    except (TypeError, ValueError):  # a callable of C tells nothing of itself
        return []


def _hints(factory: Factory) -> dict[str, Any]:
    try:
        return get_type_hints(factory, include_extras=True)
    except Exception:  # noqa: BLE001 (whatever a user's annotations name)
        return {}


def _option(default: bool | float | str, hint: Any) -> Option:
    notes: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *rest = get_args(hint)
        notes = tuple(rest)
    return Option(
        default,
        says=next((note for note in notes if isinstance(note, str)), ""),
        allowed=tuple(map(str, get_args(hint))) if get_origin(hint) is Literal else (),
        least=next((note.value for note in notes if isinstance(note, AtLeast)), None),
    )
