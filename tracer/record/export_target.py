"""Where spans are exported to, as `--endpoint` or `OTEL_EXPORTER_OTLP_*` say it.

    http://HOST[:4318][/path]    OTLP/HTTP in protobuf; without a path, /v1/traces
    grpc://HOST[:4317]           OTLP/gRPC; grpcs:// and https:// with TLS

`OTEL_EXPORTER_OTLP_PROTOCOL=grpc` makes an http:// endpoint a gRPC one, as OpenTelemetry has it.
"""

import logging
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from tracer.model.refusal import Refusal
from tracer.record.otel_settings import Environment, is_disabled, pairs_of

GRPC: Final = "grpc"
HTTP: Final = "http/protobuf"
PORTS: Final = {GRPC: 4317, HTTP: 4318}
TRACES_PATH: Final = "/v1/traces"
TIMEOUT_S: Final = 10.0  #: of one request, as OpenTelemetry's exporters have it
LONGEST_TIMEOUT_S: Final = 60.0
_SECURE: Final = {"http": False, "https": True, "grpc": False, "grpcs": True}

#: scheme, name and password, host and path, query; with an @ elsewhere nobody knows which is which
_URL: Final = re.compile(r"([a-z][a-z0-9+.-]*://)?(?:[^/?#@]*@)?([^?#@]*)(?:[?#][^@]*)?", re.I)
_ANY_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://.*", re.I | re.S)
_HEADER: Final = re.compile(r"[a-z0-9_.-]+", re.I)  #: names that HTTP and gRPC both carry
_HEADER_VALUE: Final = re.compile(r"[ -~]*")
_PATH: Final = re.compile(r"[!-~]*")

_log = logging.getLogger(__name__)


class EndpointError(Refusal):
    """`--endpoint` with a value that no span can be sent to."""


class HeaderError(Refusal):
    """`OTEL_EXPORTER_OTLP_HEADERS` with one that no request can carry; never tells its value."""


def bare(url: str) -> str:
    """A URL as it may be shown and stored: without name, password, query and fragment."""
    found = _URL.fullmatch(url)
    return f"{found[1] or ''}{found[2]}" if found else "…"


def with_bare_urls(text: str) -> str:
    """Any text that may hold a URL."""
    return _ANY_URL.sub(lambda found: bare(found[0]), text)


@dataclass(frozen=True, slots=True)
class Tls:
    """Files, as paths; an empty one is not used."""

    authorities: str = ""
    key: str = ""
    certificate: str = ""


@dataclass(frozen=True, slots=True)
class ExportTarget:
    """A receiver and how it wants to be spoken to."""

    host: str
    port: int
    protocol: str = HTTP
    path: str = TRACES_PATH
    is_secure: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = TIMEOUT_S
    is_compressed: bool = False
    tls: Tls = field(default_factory=Tls)

    def __str__(self) -> str:
        """For people and the manifest: no headers and no query, they may be secret."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = "grpc" if self.protocol == GRPC else "http"
        path = "" if self.protocol == GRPC else self.path.partition("?")[0]
        return f"{scheme}{'s' if self.is_secure else ''}://{host}:{self.port}{path}"


def target_from(endpoint: str = "", environ: Environment = os.environ) -> ExportTarget | None:
    """Where to export to; None: nowhere. The flag wins over the environment.

    Raises EndpointError for what the flag says, and HeaderError; what else the environment says in
    vain is only told.
    """
    if is_disabled(environ):
        return None
    if endpoint:
        return _complete(
            _target(endpoint, "--endpoint", _protocol(environ), is_whole=False), environ
        )
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if exporter not in ("", "otlp", "none"):
        _log.warning("OTEL_TRACES_EXPORTER=%s is not known here; write otlp or none", exporter)
    name, text = _endpoint_of(environ, is_asked=exporter == "otlp")
    if exporter == "none" or not text:
        return None
    try:
        is_whole = name == "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
        return _complete(_target(text, name, _protocol(environ), is_whole=is_whole), environ)
    except EndpointError as error:
        _log.warning("%s; nothing is exported", error)
        return None


def _endpoint_of(environ: Environment, *, is_asked: bool) -> tuple[str, str]:
    protocol = _protocol(environ)
    for name in ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        text = environ.get(name, "").strip()
        if text and "://" not in text and protocol == GRPC:
            text = f"grpc{'' if _is_insecure(environ) else 's'}://{text}"
        if text:
            return name, text
    return "", f"http://localhost:{PORTS[protocol]}" if is_asked else ""


def _is_insecure(environ: Environment) -> bool:
    return _of(environ, "INSECURE").lower() == "true"


def _of(environ: Environment, name: str, default: str = "") -> str:
    """The variable for traces, else the one for all signals."""
    own = environ.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}", "").strip()
    return own or environ.get(f"OTEL_EXPORTER_OTLP_{name}", "").strip() or default


def _protocol(environ: Environment) -> str:
    protocol = _of(environ, "PROTOCOL", HTTP).lower()
    if protocol not in PORTS:
        _log.warning("OTEL_EXPORTER_OTLP_PROTOCOL=%s is not spoken here; %s is", protocol, HTTP)
        return HTTP
    return protocol


def _target(text: str, name: str, protocol: str, *, is_whole: bool) -> ExportTarget:
    """`is_whole`: the path is taken as it is, not completed."""
    url, port = _split(text, name)
    protocol = GRPC if url.scheme.startswith("grpc") else protocol
    path = url.path or "/"
    if not is_whole:
        whole = path.endswith(TRACES_PATH) and name == "--endpoint"
        path = path if whole else f"{path.rstrip('/')}{TRACES_PATH}"
    return ExportTarget(
        host=url.hostname or "",
        port=port or PORTS[protocol],
        protocol=protocol,
        path=f"{path}?{url.query}" if url.query else path,
        is_secure=_SECURE[url.scheme],
    )


def _split(text: str, name: str) -> tuple[SplitResult, int | None]:
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise EndpointError(
            f"{name} {bare(text)}: its host or port cannot be read; write http://HOST:4318"
        ) from None
    if url.scheme not in _SECURE or not url.hostname:
        raise EndpointError(
            f"{name} {bare(text)}: write http://HOST:4318 or grpc://HOST:4317 "
            f"({', '.join(f'{scheme}://' for scheme in _SECURE)})"
        )
    if url.username is not None:
        raise EndpointError(
            f"{name}: a name or password in the URL would be seen by all; "
            "put them into OTEL_EXPORTER_OTLP_HEADERS"
        )
    if not _PATH.fullmatch(url.path + url.query):
        raise EndpointError(f"{name} {bare(text)}: write spaces and other letters in it as %20")
    return url, port


def _complete(target: ExportTarget, environ: Environment) -> ExportTarget:
    """With what only the environment says."""
    compression = _of(environ, "COMPRESSION", "none").lower()
    if compression not in ("gzip", "none"):
        _log.warning("OTEL_EXPORTER_OTLP_COMPRESSION=%s: only gzip or none", compression)
    return replace(
        target,
        headers={name.lower(): value for name, value in _headers(environ).items()},
        timeout_s=_timeout(environ),
        is_compressed=compression == "gzip",
        tls=Tls(*(_file(environ, n) for n in ("CERTIFICATE", "CLIENT_KEY", "CLIENT_CERTIFICATE"))),
    )


def _headers(environ: Environment) -> dict[str, str]:
    name = "OTEL_EXPORTER_OTLP_HEADERS"
    headers = pairs_of(_of(environ, "HEADERS"), name)
    for number, (key, value) in enumerate(headers.items(), start=1):
        if not (_HEADER.fullmatch(key) and _HEADER_VALUE.fullmatch(value)):
            raise HeaderError(
                f"{name}: header {number} cannot be sent; write names of letters, digits, - _ . "
                "and values of printable ASCII, without line breaks"
            )
    return headers


def _file(environ: Environment, name: str) -> str:
    path = _of(environ, name)
    if path and not Path(path).is_file():
        _log.warning("OTEL_EXPORTER_OTLP_%s=%s is no file; it is passed over", name, path)
        return ""
    return path


def _timeout(environ: Environment) -> float:
    text = _of(environ, "TIMEOUT", str(TIMEOUT_S))
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        _log.warning("OTEL_EXPORTER_OTLP_TIMEOUT=%s: write seconds, more than 0", text)
        return TIMEOUT_S
    return min(seconds, LONGEST_TIMEOUT_S)
