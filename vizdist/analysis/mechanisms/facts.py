"""The attributes of a span that are its kind's own, as plain facts."""

from collections.abc import Mapping
from typing import Any

from tracer.model.schema import SPAN_KINDS

_OURS = "vizdist."
LONGEST = 60  #: letters of a fact that are written out


def facts_of(kind: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """In the order of the schema, without the prefix that all have."""
    return {
        name.removeprefix(_OURS): attributes[name]
        for name in SPAN_KINDS[kind].attributes
        if name in attributes
    }


def facts_text(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_short(str(value))}" for name, value in facts.items())


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
