"""Where spans go, by flag and by environment."""

import logging
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracer.record.export_target import (
    EndpointError,
    ExportTarget,
    HeaderError,
    Tls,
    target_from,
    with_bare_urls,
)

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"


def told(endpoint: str = "", **environ: str) -> str:
    return str(target_from(endpoint, environ))


@pytest.mark.parametrize(
    ("endpoint", "target"),
    [
        ("http://receiver", "http://receiver:4318/v1/traces"),
        ("http://receiver:80/", "http://receiver:80/v1/traces"),
        ("http://receiver:80/otlp", "http://receiver:80/otlp/v1/traces"),
        ("http://receiver:80/otlp/v1/traces", "http://receiver:80/otlp/v1/traces"),
        ("https://receiver/?team=blue", "https://receiver:4318/v1/traces"),
        ("grpc://receiver", "grpc://receiver:4317"),
        ("grpcs://[::1]:9", "grpcs://[::1]:9"),
    ],
)
def test_a_flag_is_completed(endpoint: str, target: str) -> None:
    assert told(endpoint) == target


@pytest.mark.parametrize(
    "endpoint",
    ["receiver:4318", "ftp://receiver", "http://", "http://receiver:port", "http://a:b@receiver",
     "grpc:receiver", "http://[::1", "http://receiver:99999", "http://receiver/?a b"],
)  # fmt: skip
def test_a_flag_that_names_no_receiver_is_refused(endpoint: str) -> None:
    with pytest.raises(EndpointError, match="--endpoint"):
        target_from(endpoint, {})


@given(st.text(max_size=30))
def test_any_text_is_a_receiver_or_refused(text: str) -> None:
    with suppress(EndpointError):
        assert (target_from(text, {}) is None) == (not text)


def test_nothing_is_exported_unless_somebody_says_where() -> None:
    assert target_from("", {}) is None
    assert target_from("", {"OTEL_TRACES_EXPORTER": "none", ENDPOINT: "http://a"}) is None
    assert target_from("http://a", {"OTEL_SDK_DISABLED": "true"}) is None
    assert told(OTEL_TRACES_EXPORTER="otlp") == "http://localhost:4318/v1/traces"


def test_the_flag_wins_over_the_environment() -> None:
    assert told("http://b", **{ENDPOINT: "http://a", "OTEL_TRACES_EXPORTER": "none"}) == (
        "http://b:4318/v1/traces"
    )


def test_an_endpoint_for_traces_is_taken_as_it_is() -> None:
    environ = {TRACES: "http://a/own", ENDPOINT: "http://b"}
    assert told(**environ) == "http://a:4318/own"
    assert told(**{ENDPOINT: "http://b"}) == "http://b:4318/v1/traces"


def test_the_protocol_may_be_grpc() -> None:
    assert told(**{PROTOCOL: "grpc", ENDPOINT: "http://a"}) == "grpc://a:4317"
    assert told(**{PROTOCOL: "grpc", ENDPOINT: "https://a:1"}) == "grpcs://a:1"
    assert told(**{PROTOCOL: "grpc", ENDPOINT: "a:1"}) == "grpcs://a:1"
    insecure = {"OTEL_EXPORTER_OTLP_INSECURE": "true"}
    assert told(**{PROTOCOL: "grpc", ENDPOINT: "a:1"}, **insecure) == "grpc://a:1"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (ENDPOINT, "nowhere"),
        (PROTOCOL, "http/json"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/such/file"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
    ],
)
def test_what_the_environment_says_in_vain_is_told_and_passed_over(
    name: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    environ = {ENDPOINT: "http://a", name: value}
    with caplog.at_level(logging.WARNING):
        target = target_from("", environ)
    assert value in caplog.text
    assert target == (None if name == ENDPOINT else ExportTarget("a", 4318))


@pytest.mark.parametrize(
    "endpoint",
    [
        "ftp://me:SECRET@receiver",
        "http://me:SECRET@receiver:port",
        "http://me:SEC#SECRET@receiver",
        "http://me:SEC/SECRET@receiver:port",
        "me:SECRET@receiver:4318",
        "ftp://receiver/?api_key=SECRET",
        "http://receiver:port/?api_key=SECRET",
        "http://receiver/?api key=SECRET",
        "http://receiver/#SECRET in a fragment",
    ],
)
def test_nothing_secret_in_an_endpoint_is_told(
    endpoint: str, caplog: pytest.LogCaptureFixture
) -> None:
    said = ""
    try:
        said = str(target_from(endpoint, {}))
    except EndpointError as error:
        said = str(error)
    target_from("", {ENDPOINT: endpoint})
    assert "SECRET" not in said + caplog.text
    assert "SECRET" not in with_bare_urls(f"--endpoint={endpoint}") or "://" not in endpoint


def test_a_query_is_sent_and_not_shown() -> None:
    target = target_from("http://receiver/otlp?api_key=SECRET", {})
    assert target is not None
    assert target.path == "/otlp/v1/traces?api_key=SECRET"
    assert str(target) == "http://receiver:4318/otlp/v1/traces"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("--endpoint=https://me:pw@host:1/a?k=v", "--endpoint=https://host:1/a"),
        ("http://host/?mail=a@b", "…"),
        ("--steps=3", "--steps=3"),
        ("plain?text", "plain?text"),
    ],
)
def test_a_command_is_stored_without_what_its_urls_hide(text: str, shown: str) -> None:
    assert with_bare_urls(text) == shown


@pytest.mark.parametrize(
    "header", ["a=1,x-api-key=SECRET%0Amore", "a=1,x:SECRET=y", "a=1,b=SECRÉT"]
)
@pytest.mark.parametrize("endpoint", ["", "http://b"])
def test_a_header_that_no_request_can_carry_is_refused_without_its_value(
    endpoint: str, header: str
) -> None:
    with pytest.raises(HeaderError, match="header 2 cannot be sent") as refused:
        target_from(endpoint, {ENDPOINT: "http://a", "OTEL_EXPORTER_OTLP_HEADERS": header})
    assert "SECR" not in str(refused.value)


def test_a_header_that_is_no_pair_is_told_by_its_place(caplog: pytest.LogCaptureFixture) -> None:
    headers = "a=1,x-api-key:SECRET"
    target = target_from("http://a", {"OTEL_EXPORTER_OTLP_HEADERS": headers})
    assert target is not None
    assert target.headers == {"a": "1"}
    assert "item 2 is no key=value" in caplog.text
    assert "SECRET" not in caplog.text


def test_the_rest_is_the_environments(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.touch()
    target = target_from(
        "https://a",
        {
            "OTEL_EXPORTER_OTLP_HEADERS": "A=1",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "B=x%2Cy",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "2.5",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
            "OTEL_EXPORTER_OTLP_CLIENT_KEY": str(key),
        },
    )
    assert target == ExportTarget(
        "a",
        4318,
        is_secure=True,
        headers={"b": "x,y"},
        timeout_s=2.5,
        is_compressed=True,
        tls=Tls(key=str(key)),
    )
    assert "x,y" not in str(target)
