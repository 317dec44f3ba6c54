"""JSON as people write it: every way in which a text fails to be JSON, told in one form.

JSON has no infinite numbers and no NaN. Where a float may be one it is written as protobuf's JSON
writes it: "Infinity", "-Infinity", "NaN".
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracer.model.refusal import Refusal


def read_text(path: Path, what: str, refusal: type[Refusal]) -> str:
    """The text of a file; raises `refusal` beginning with `what`, or OSError."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refusal(f"{what} is not UTF-8 text: byte {error.start} cannot be read") from None


def parse_json(text: str, what: str, refusal: type[Refusal]) -> Any:
    """Raises `refusal` beginning with `what`, also where one object has a key twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise refusal(f"{what} has the key {twice!r} twice in one object; keep one of them")
        return made

    try:
        return json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise refusal(
            f"{what} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}; "
            "keys and strings need double quotes"
        ) from None
    except RecursionError:
        raise refusal(f"{what} cannot be read: its lists and objects lie too deep") from None
    except Refusal:
        raise
    except ValueError as error:  # a number of thousands of digits
        raise refusal(f"{what} cannot be read: {error}") from None


def plain_json(value: Any) -> Any:
    """The same with texts for floats that JSON cannot hold."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {name: plain_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    return value
