"""What `OTEL_*` variables ask for: one table of those that are honoured, and how they are read.

A value that cannot be used is said in a warning and passed over, as OpenTelemetry has it; only what
a flag says is refused.
"""

import logging
import math
import os
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

PREFIX: Final = "OTEL_"

#: variable → what it decides here; `tracer doctor` prints this
HONOURED: Final[Mapping[str, str]] = {
    "OTEL_SDK_DISABLED": "true: nothing is recorded or exported",
    "OTEL_SERVICE_NAME": "service.name of every span (default vizdist)",
    "OTEL_RESOURCE_ATTRIBUTES": "more attributes of every process",
    "OTEL_TRACES_EXPORTER": "otlp or none",
    "OTEL_TRACES_SAMPLER": "which of the steps that --trace names are recorded",
    "OTEL_TRACES_SAMPLER_ARG": "the share of steps, for traceidratio",
    "OTEL_PROPAGATORS": "how your own code's calls carry the trace on",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "where spans are sent too (--endpoint wins)",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "the same, taken as it is",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf or grpc",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "the same",
    "OTEL_EXPORTER_OTLP_HEADERS": "sent with every request",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "the same",
    "OTEL_EXPORTER_OTLP_TIMEOUT": "seconds that a request may take (default 10)",
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "the same",
    "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip or none",
    "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": "the same",
    "OTEL_EXPORTER_OTLP_INSECURE": "true: gRPC without TLS where the endpoint has no scheme",
    "OTEL_EXPORTER_OTLP_TRACES_INSECURE": "the same",
    "OTEL_EXPORTER_OTLP_CERTIFICATE": "file of the authorities to trust",
    "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE": "the same",
    "OTEL_EXPORTER_OTLP_CLIENT_KEY": "file of our own key",
    "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY": "the same",
    "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": "file of our own certificate",
    "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE": "the same",
    "OTEL_ATTRIBUTE_COUNT_LIMIT": "attributes of a span, event or link of your own code",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "characters of a value of your own code",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "attributes of a span of your own code (default 128)",
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "characters of a value of your own code",
    "OTEL_SPAN_EVENT_COUNT_LIMIT": "events of a span of your own code (default 128)",
    "OTEL_SPAN_LINK_COUNT_LIMIT": "links of a span of your own code (default 128)",
    "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT": "attributes of an event (default 128)",
    "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT": "attributes of a link (default 128)",
}

_log = logging.getLogger(__name__)

Environment = Mapping[str, str]


def ignored(environ: Environment) -> list[str]:
    """`OTEL_*` variables that are set and mean nothing here."""
    return sorted(name for name in environ if name.startswith(PREFIX) and name not in HONOURED)


def is_true(environ: Environment, name: str) -> bool:
    return environ.get(name, "").strip().lower() == "true"


def is_disabled(environ: Environment = os.environ) -> bool:
    return is_true(environ, "OTEL_SDK_DISABLED")


def pairs_of(text: str, name: str) -> dict[str, str]:
    """`key=value,key=value`, percent-decoded; what is no pair is passed over, and said.

    An item may be secret: it is told by its place.
    """
    found = {}
    items = filter(None, (part.strip() for part in text.split(",")))
    for number, item in enumerate(items, start=1):
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            _log.warning("%s: item %d is no key=value; it is passed over", name, number)
            continue
        found[unquote(key.strip())] = unquote(value.strip())
    return found


def resource_from(environ: Environment = os.environ) -> dict[str, str]:
    """Attributes of every process; what vizdist says of itself cannot be overwritten."""
    name = "OTEL_RESOURCE_ATTRIBUTES"
    found = pairs_of(environ.get(name, ""), name)
    resource = {key: text for key, text in found.items() if not key.startswith("vizdist.")}
    if service := environ.get("OTEL_SERVICE_NAME", ""):
        resource["service.name"] = service
    return resource


def sampler_from(environ: Environment = os.environ) -> float:
    """The share of steps to record, 0…1. A step has no parent: `parentbased_` says nothing."""
    name = environ.get("OTEL_TRACES_SAMPLER", "").strip().lower()
    known = {"": 1.0, "always_on": 1.0, "always_off": 0.0, "traceidratio": -1.0}
    share = known.get(name.removeprefix("parentbased_"))
    if share is None:
        _log.warning("OTEL_TRACES_SAMPLER=%s is not known here; every step is recorded", name)
        return 1.0
    return _ratio(environ) if share < 0 else share


def _ratio(environ: Environment) -> float:
    text = environ.get("OTEL_TRACES_SAMPLER_ARG", "1")
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if 0 <= share <= 1:
        return share
    _log.warning("OTEL_TRACES_SAMPLER_ARG=%s is no number from 0 to 1; it counts as 1", text)
    return 1.0
