"""Limits on what users' spans may carry, as `OTEL_*` variables set them; ours know none."""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tracer.record.attributes import clean_all
from tracer.record.otel_settings import Environment

DEFAULT: Final = 128  #: of attributes, events and links, as OpenTelemetry has it
NONE: Final = -1

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SpanLimits:
    """Counts, and characters of a value; `NONE` is no limit."""

    attributes: int = DEFAULT
    events: int = DEFAULT
    links: int = DEFAULT
    event_attributes: int = DEFAULT
    link_attributes: int = DEFAULT
    value_length: int = NONE


def limits_from(environ: Environment = os.environ) -> SpanLimits:
    every = _limit(environ, "OTEL_ATTRIBUTE_COUNT_LIMIT", DEFAULT)
    length = _limit(environ, "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", NONE)
    return SpanLimits(
        attributes=_limit(environ, "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", every),
        events=_limit(environ, "OTEL_SPAN_EVENT_COUNT_LIMIT", DEFAULT),
        links=_limit(environ, "OTEL_SPAN_LINK_COUNT_LIMIT", DEFAULT),
        event_attributes=_limit(environ, "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", every),
        link_attributes=_limit(environ, "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", every),
        value_length=_limit(environ, "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", length),
    )


def _limit(environ: Environment, name: str, default: int) -> int:
    text = environ.get(name, "").strip()
    if text and not text.isdecimal():
        _log.warning("%s=%s is no whole number; it is passed over", name, text)
    return int(text) if text.isdecimal() else default


@dataclass(slots=True)
class Attributes:
    """Values fit for a span, up to a count; how many were left out."""

    limit: int
    value_length: int
    kept: dict[str, Any] = field(default_factory=dict)
    dropped: int = 0

    def add(self, attributes: Mapping[str, object]) -> None:
        for name, value in clean_all(attributes).items():
            if name not in self.kept and 0 <= self.limit <= len(self.kept):
                self.dropped += 1
            else:
                self.kept[name] = value if self.value_length < 0 else self._cut(value)

    def _cut(self, value: Any) -> Any:
        if isinstance(value, str):
            return value[: self.value_length]
        return [self._cut(item) for item in value] if isinstance(value, list) else value
