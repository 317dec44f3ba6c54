"""`--strategy a,b`: each gets what is meant for it, and has a trace and an end of its own."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.launch.commands import manifest, tracer_here
from tracer.cli import command_parser
from tracer.launch.plan import Plan
from tracer.launch.several import plans_from
from tracer.workloads.requested import Requested

THREE = ("--strategy", "one_device,multi_worker_mirrored,parameter_server_v1")


def planned(*arguments: str) -> dict[str, Plan]:
    parsed = command_parser().parse_args(["run", "digits-mlp", *arguments])
    options = Requested.named("digits-mlp").options
    return {plan.strategy: plan for plan in plans_from(parsed, options)}


def test_each_strategy_gets_the_flags_and_options_that_it_has_a_use_for() -> None:
    options = ("--option", "batch=8", "--option", "sync=true", "--option", "autoshard=OFF")
    alone, mirrored, servers = planned(*THREE, "--workers", "3", "--ps", "2", *options).values()
    assert [plan.topology.workers for plan in (alone, mirrored, servers)] == [None, 3, 3]
    assert [plan.topology.ps for plan in (alone, mirrored, servers)] == [None, None, 2]
    assert [plan.options["batch"] for plan in (alone, mirrored, servers)] == ["8"] * 3
    assert servers.options["sync"] == "true"
    assert mirrored.options["autoshard"] == "OFF"
    assert not {"sync", "autoshard"} & alone.options.keys()


def test_their_traces_lie_side_by_side_under_their_names() -> None:
    plans = planned(*THREE, "--out", "runs")
    assert {name: plan.out for name, plan in plans.items()} == {
        name: f"runs/{name}.trace" for name in THREE[1].split(",")
    }
    assert [plan.out for plan in planned("--strategy", "one_device", "--out", "runs").values()] == [
        "runs"
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--strategy", "one_device,miror"), "did you mean mirrored"),
        (("--strategy", "mirrored,mirrored"), "mirrored is named twice"),
        (("--strategy", "one_device,mirrored", "--ps", "1"), "leave --ps out"),
        (("--strategy", "one_device,mirrored", "--option", "synk=true"), "no option is named"),
        (("--strategy", "one_device,mirrored", "--option", "sync=true"), "no option is named"),
        (("--strategy", "one_device,mirrored", "--checkpoint", "saved"), "what the first one"),
        ((*THREE, "--option", "backup_workers=1"), "without sync=true no update waits"),
    ],
)
def test_a_request_that_one_of_them_cannot_serve_starts_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: Sequence[str], says: str
) -> None:
    done = tracer_here(capsys, "run", "digits-mlp", *arguments, "--out", str(tmp_path / "runs"))
    assert done.returncode == 2
    assert says in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_holds_something_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "note.txt").write_text("mine")
    done = tracer_here(capsys, "run", "digits-mlp", *THREE, "--out", str(tmp_path))
    assert done.returncode == 2
    assert "is not empty" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]


def test_one_that_fails_loses_no_other_and_the_exit_code_is_the_worst(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A batch of all rows: two workers of which each has its half never fill one."""
    both = ("--strategy", "parameter_server_v1,one_device", "--workers", "2")
    whole = ("--option", "batch=1437", "--steps", "2", "--in-process", "--json")
    done = tracer_here(capsys, "run", "digits-mlp", *both, *whole, "--out", str(tmp_path / "runs"))
    assert done.returncode == 1
    failed, ended = map(json.loads, done.stdout.splitlines())
    assert failed["strategy"] == "parameter_server_v1"
    assert "get a batch" in failed["error"]["message"]
    assert (ended["strategy"], ended["steps"]) == ("one_device", 2)
    traces = {path.stem: manifest(path)["outcome"] for path in (tmp_path / "runs").iterdir()}
    assert traces == {"parameter_server_v1": "failed", "one_device": "done"}
    assert "one_device: step" in done.stderr
