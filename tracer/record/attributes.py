"""Makes any value fit for a span: one bad attribute never costs the span or the batch.

Lone surrogates become U+FFFD, integers beyond 64 bits text, tensors a summary of shape and type,
long texts are cut, anything else is its bounded repr.
"""

import re
import reprlib
from collections.abc import Mapping
from typing import Any

Value = str | bool | int | float | list[Any]

TEXT_LIMIT = 64 * 1024  #: characters
LIST_LIMIT = 1024  #: items

_SURROGATES = re.compile("[\ud800-\udfff]")
_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 200


def clean_text(text: str) -> str:
    if len(text) > TEXT_LIMIT:
        text = f"{text[:TEXT_LIMIT]}… ({len(text)} characters)"
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def clean(value: object) -> Value:
    if isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value)  # numpy's is one, and cannot be packed
    if isinstance(value, int):
        return int(value) if -(1 << 63) <= value < 1 << 63 else str(value)
    if isinstance(value, str):
        return clean_text(str.__str__(value))  # so is an enum's text
    if isinstance(value, list | tuple):
        return [clean(item) for item in value[:LIST_LIMIT]]
    return _described(value)


def clean_all(attributes: Mapping[str, object]) -> dict[str, Value]:
    return {clean_text(str(name)) or "unnamed": clean(v) for name, v in attributes.items()}


def _described(value: Any) -> str:
    try:
        if hasattr(value, "shape") and hasattr(value, "dtype"):
            return f"{type(value).__name__} {value.dtype} {list(value.shape)}"
        return clean_text(_repr.repr(value))
    except Exception:  # noqa: BLE001 (a user's object may raise anything)
        return f"<{type(value).__name__}>"
