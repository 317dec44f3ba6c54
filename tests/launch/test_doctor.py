"""`tracer doctor` tells every limit and setting, and what `OTEL_*` mean here."""

from collections.abc import Mapping
from dataclasses import fields

import pytest

from tests.launch.commands import tracer
from tracer.launch import doctor
from tracer.launch.environment import process_settings
from tracer.launch.plan import Limits
from tracer.record.otel_settings import HONOURED


def told(environ: Mapping[str, str]) -> dict[str, dict[str, str]]:
    return {title: dict(rows) for title, rows in doctor.report(environ)}


def test_every_limit_is_in_the_table() -> None:
    assert set(doctor.LIMITS) == {field.name for field in fields(Limits)}
    limits = told({})["limits"]
    assert limits["a step (--step-timeout)"] == f"{Limits().step_s:g} s"
    assert limits["trace folder (--max-trace-size)"] == "10 GB"
    assert limits["export after the run (--flush-timeout)"] == "30 s"


def test_versions_devices_and_settings_are_those_of_this_host() -> None:
    sections = told({})
    assert sections["versions"].keys() >= {"python", "torch", "grpcio", "opentelemetry-api"}
    assert "cores" in sections["devices"]["cpu"]
    assert sections["settings of task processes"] == process_settings(1)
    assert sections["transport"]["proxies"] == "none"


def test_what_the_user_has_set_is_told() -> None:
    sections = told({"OMP_NUM_THREADS": "7", "https_proxy": "http://proxy:3128"})
    assert sections["settings of task processes"]["OMP_NUM_THREADS"].startswith("7 (yours")
    assert sections["transport"]["proxies"] == "https_proxy: ignored without --allow-proxy"


def test_otel_variables_are_honoured_or_said_to_mean_nothing() -> None:
    sections = told(
        {
            "OTEL_BSP_SCHEDULE_DELAY": "1",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://receiver",
            "OTEL_EXPORTER_OTLP_HEADERS": "api-key=secret",
            "OTEL_TRACES_SAMPLER": "traceidratio",
            "OTEL_TRACES_SAMPLER_ARG": "0.25",
        }
    )
    variables, recording = sections["OTEL_* variables"], sections["recording"]
    assert variables["OTEL_BSP_SCHEDULE_DELAY"] == "ignored: it means nothing here"
    assert "where spans are sent too" in variables["OTEL_EXPORTER_OTLP_ENDPOINT"]
    assert "secret" not in str(sections)
    assert recording["export (--endpoint)"] == "http://receiver:4318/v1/traces"
    assert recording["steps (--trace)"] == "all, 25% of them"
    assert all(name in told({})["OTEL_* variables"]["none is set"] for name in HONOURED)


def test_a_disabled_sdk_is_told() -> None:
    recording = told({"OTEL_SDK_DISABLED": "true"})["recording"]
    assert recording["spans"] == "none: OTEL_SDK_DISABLED is true"


@pytest.mark.cluster
def test_the_command_prints_all_of_it() -> None:
    done = tracer("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    for title, _ in doctor.report({}):
        assert f"\n{title}\n" in f"\n{done.stdout}"
