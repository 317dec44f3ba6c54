"""What may be secret in a command or the environment stands neither in a trace nor on a screen."""

import sys

import pytest

from tracer.cli import main
from tracer.launch import doctor
from tracer.launch.account import first_manifest, outcome_of
from tracer.launch.plan import Plan
from tracer.model.cluster import ClusterSpec


def test_the_manifest_holds_the_command_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    argv = ["/bin/tracer", "run", "w", "--endpoint", "http://me:SECRET@host/?api_key=SECRET"]
    monkeypatch.setattr(sys, "argv", argv)
    command = first_manifest(Plan(run_id="r"), ClusterSpec({})).command
    assert command == ["tracer", "run", "w", "--endpoint", "http://host/"]


def test_nor_do_options_or_the_error_that_ended_it() -> None:
    plan = Plan(run_id="r", options={"data": "https://me:SECRET@host/x?token=SECRET"})
    assert first_manifest(plan, ClusterSpec({})).options == {"data": "https://host/x"}
    failed = ValueError("nothing at https://me:SECRET@host/x, nor at http://host/?key=SECRET")
    assert outcome_of(failed) == ("failed", "nothing at https://host/x, nor at http://host/")


@pytest.mark.parametrize("where", ["http://me:SECRET@host:1", "https://host/?api_key=SECRET"])
def test_doctor_shows_no_secret_of_an_endpoint(where: str) -> None:
    variables = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_ZIPKIN_ENDPOINT"
    said = str(list(doctor.report(dict.fromkeys(variables, where))))
    assert "SECRET" not in said
    assert "'http" in said
    assert "://host" in said


def test_a_run_with_a_header_that_cannot_be_sent_does_not_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=SECRET%0Amore")
    to = "--endpoint", "http://127.0.0.1:9"
    assert main(["run", "digits-mlp", "--strategy", "one_device", *to]) == 2
    said = capsys.readouterr()
    assert "header 1 cannot be sent" in said.err
    assert "SECRET" not in said.out + said.err
