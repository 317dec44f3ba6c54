"""Every fault under every strategy: one root cause in time, nothing left over, a trace that opens.

Each limit of a run is a minute, but that of a step where only it can end the run. So what is over
in half a minute was ended by no limit, however slow the machine is.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from tests.launch.commands import is_listened_to, manifest
from tests.launch.test_faults import run, told
from vizdist.cli import main as vizdist
from vizdist.store.trace import open_trace

pytestmark = pytest.mark.cluster

IN_TIME_S = 30.0
STEPS = 100_000  #: more than anybody would wait for

ALONE = {name: ("--strategy", name) for name in ("one_device", "mirrored", "central_storage")}
GROUP = ("--strategy", "multi_worker_mirrored", "--workers", "2")
SERVERS = ("--strategy", "parameter_server_v1", "--ps", "1", "--workers", "2")
TOGETHER = {
    "visible": GROUP,
    "native": (*GROUP, "--collectives", "native"),
    "async": SERVERS,
    "sync": (*SERVERS, "--option", "sync=true"),
}
FLAGS = ALONE | TOGETHER

SAYS = {
    "kill": "was killed by SIGKILL",
    "stop": "was stopped by SIGSTOP, and does not go on",
    "error": "this op fails as asked for",
    "drop": "did not end within 3 s",
}
OUTCOMES = {"kill": "killed", "stop": "lost", "error": "done", "drop": "done"}


class Case(NamedTuple):
    """`flags` is a key of FLAGS."""

    flags: str
    kind: str
    task: str
    step: int

    @property
    def fault(self) -> str:
        return f"{self.kind}:{self.task}@step:{self.step}"

    def __str__(self) -> str:
        return f"{self.flags}-{self.fault}"


def cases() -> Iterator[Case]:
    for name in ALONE:
        for step, kind in enumerate(("kill", "stop", "error"), 1):
            yield Case(name, kind, "worker:0", step)
    for name in TOGETHER:
        kinds = ("kill", "stop", "error") if name == "native" else tuple(SAYS)
        for task in ("worker:0", "worker:1") if name in ("visible", "native") else (
            "worker:0", "worker:1", "ps:0"
        ):  # fmt: skip
            for step, kind in enumerate(kinds, 1):
                yield Case(name, kind, task, step)


FEW = {"visible-kill:worker:1@step:1"}  #: in the short form of the tests


def rows() -> list[Any]:
    return [
        pytest.param(case, id=str(case), marks=() if str(case) in FEW else pytest.mark.slow)
        for case in cases()
    ]


@pytest.mark.parametrize("case", rows())
def test_a_fault_ends_the_run_with_its_one_cause_and_leaves_nothing(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "t"
    limit = ("--step-timeout", "3" if case.kind == "drop" else "60")
    flags = (*FLAGS[case.flags], "--steps", str(STEPS), *limit, "--fault", case.fault)
    code, printed, errors = run(out, "digits-mlp", *flags)
    assert code == 1, errors
    error = printed["error"]
    assert SAYS[case.kind] in error["message"]
    assert error["task"] == case.task or case.kind == "drop"
    causes = [line for line in errors.splitlines() if line.startswith("tracer: ")]
    assert len(causes) == 1, errors
    assert causes[0].startswith(f"tracer: {error['task']} in step ")
    assert seconds_from_fault_to_end(out, case.fault) < IN_TIME_S
    ended = {each["task"]: each["outcome"] for each in manifest(out)["tasks"]}
    assert ended[error["task"]] == OUTCOMES[case.kind]
    assert_nothing_is_left(out)
    assert vizdist(["report", str(out)]) == 0
    assert error["task"] in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "task"), [("visible", "worker:1"), ("async", "ps:0"), ("sync", "worker:0")]
)
def test_late_frames_slow_every_step_from_then_on_and_end_no_run(
    name: str, task: str, tmp_path: Path
) -> None:
    out, fault = tmp_path / "t", f"delay=100:{task}@step:6"
    code, _, errors = run(out, "digits-mlp", *FLAGS[name], "--steps", "10", "--fault", fault)
    assert code == 0, errors
    trace = open_trace(out)
    assert [each["vizdist.fault"] for each in told(trace, "fault.inject")] == [fault]
    late = trace.spans(step=10, kinds=["session.run"])
    assert max(late.end - late.start) > 100e6
    assert_nothing_is_left(out)


def seconds_from_fault_to_end(out: Path, fault: str) -> float:
    """From the fault's own record to the run's last word, the trace written."""
    trace = open_trace(out)
    assert [each["vizdist.fault"] for each in told(trace, "fault.inject")] == [fault]
    (start,) = trace.spans(kinds=["fault.inject"]).start.tolist()
    return float(manifest(out)["ended_ns"] - start) / 1e9


def assert_nothing_is_left(out: Path) -> None:
    ended = manifest(out)
    assert ended["recorded"] == ended["written"]
    assert not [each for each in ended["tasks"] if psutil.pid_exists(each["pid"])]
    addresses = [each["address"] for each in ended["tasks"] if each["address"]]
    assert not [address for address in addresses if is_listened_to(address)]
