"""What a task finds in its environment, and what of it is left aside."""

import os

import pytest

from tracer.launch.environment import say_if_proxy_is_ignored, task_environment, threads_per_task
from tracer.launch.plan import PLAN_VARIABLE, Plan
from tracer.record.clock import OFFSET_NS, OFFSET_VARIABLE


def test_tasks_share_the_cores_and_the_users_settings_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert [threads_per_task(tasks) for tasks in (1, 3, 100)] == [8, 2, 1]
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "5")
    found = task_environment(Plan("r"), "/scratch", "secret", 4)
    assert (found["OMP_NUM_THREADS"], found["MKL_NUM_THREADS"]) == ("2", "5")


def test_a_task_gets_plan_and_clock_of_its_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLAN_VARIABLE, "someone else's")
    monkeypatch.setenv(OFFSET_VARIABLE, "7")
    found = task_environment(Plan("mine"), "/scratch", "secret", 1)
    assert Plan.from_json(found[PLAN_VARIABLE]).run_id == "mine"
    assert found[OFFSET_VARIABLE] == str(OFFSET_NS)


@pytest.mark.parametrize("name", ["http_proxy", "https_proxy", "grpc_proxy"])
def test_a_proxy_that_is_ignored_is_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    for other in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.delenv(other, raising=False)
    say_if_proxy_is_ignored(Plan("r"))
    monkeypatch.setenv(name, "http://127.0.0.1:9")
    say_if_proxy_is_ignored(Plan("r", allow_proxy=True))
    assert not caplog.messages
    say_if_proxy_is_ignored(Plan("r"))
    (message,) = caplog.messages
    assert message.startswith(f"{name} is set; cluster traffic does not go there")
