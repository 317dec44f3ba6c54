"""What `OTEL_*` variables mean here."""

import logging

import pytest

from tracer.record.otel_settings import HONOURED, ignored, resource_from, sampler_from


def test_resource_attributes_join_every_process_and_change_none_of_ours() -> None:
    text = "team=blue, host.name=me%2Cyou ,vizdist.task=mine,service.name=a"
    environ = {"OTEL_RESOURCE_ATTRIBUTES": text}
    assert resource_from(environ) == {"team": "blue", "host.name": "me,you", "service.name": "a"}
    environ["OTEL_SERVICE_NAME"] = "b"
    assert resource_from(environ)["service.name"] == "b"
    assert resource_from({}) == {}


@pytest.mark.parametrize(
    ("name", "argument", "share"),
    [
        ("always_on", "", 1.0),
        ("always_off", "", 0.0),
        ("parentbased_always_off", "", 0.0),
        ("traceidratio", "0.25", 0.25),
        ("parentbased_traceidratio", "0", 0.0),
        ("", "0.25", 1.0),
    ],
)
def test_a_sampler_is_a_share_of_the_steps(name: str, argument: str, share: float) -> None:
    environ = {"OTEL_TRACES_SAMPLER": name, "OTEL_TRACES_SAMPLER_ARG": argument}
    assert sampler_from(environ) == share


@pytest.mark.parametrize(("name", "argument"), [("jaeger_remote", ""), ("traceidratio", "2")])
def test_a_sampler_that_is_not_known_records_all_and_says_so(
    name: str, argument: str, caplog: pytest.LogCaptureFixture
) -> None:
    environ = {"OTEL_TRACES_SAMPLER": name, "OTEL_TRACES_SAMPLER_ARG": argument}
    with caplog.at_level(logging.WARNING):
        assert sampler_from(environ) == 1.0
    assert (argument or name) in caplog.text


def test_what_means_nothing_here_is_known() -> None:
    environ = {"OTEL_BSP_SCHEDULE_DELAY": "1", "OTEL_SERVICE_NAME": "a", "PATH": "/bin"}
    assert ignored(environ) == ["OTEL_BSP_SCHEDULE_DELAY"]
    assert all(says for says in HONOURED.values())
