"""Flags about checkpoints, restarts and faults: what is refused before anything starts."""

import json
from pathlib import Path

import pytest

from tests.launch.test_plan import plan_of
from tracer.cli import main
from tracer.launch.plan import LIFE_VARIABLE, Life, Plan
from tracer.launch.tolerance import Tolerance, ToleranceError, check_tolerance
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.training.checkpoint import Checkpoints

MODULE = ("digits-mlp", "--strategy", "parameter_server_v1")
NATIVE = ("digits-mlp", "--strategy=multi_worker_mirrored", "--collectives=native")
CLUSTER = ClusterSpec.of_counts(ps=1, worker=2)


def test_they_reach_the_tasks_with_the_plan() -> None:
    faults = "kill:ps:0@step:3,drop:worker:1@step:5"
    flags = ("--checkpoint", "ckpt", "--checkpoint-every", "10", "--restart", "2")
    plan = plan_of(*MODULE, *flags, "--fault", faults)
    assert Plan.from_json(plan.to_json()).tolerance == Tolerance("ckpt", 10, 2, faults)
    (drop,) = plan.tolerance.faults_of(TaskName("worker", 1))
    assert str(drop) == "drop:worker:1@step:5"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((*MODULE, "--checkpoint-every", "5"), "say where to, with --checkpoint DIR"),
        ((*MODULE, "--checkpoint-every", "-1"), "--checkpoint-every -1: must be 0 or more"),
        ((*MODULE, "--restart", "-1"), "--restart -1: must be 0 or more"),
        ((*MODULE, "--fault", "kil:ps:0@step:3"), "did you mean kill"),
        ((*MODULE, "--fault", "kill:ps:3@step:3"), "there is no task ps:3; there are ps:0"),
        ((*MODULE, "--fault", "kill:ps:0@step:101"), "the run has 100 steps"),
        ((*MODULE, "--in-process", "--restart", "1"), "--restart needs tasks that are processes"),
        ((*MODULE, "--in-process", "--fault", "kill:ps:0@step:3"), "leave --in-process out"),
        (("diamond", "--restart", "-1"), "--restart -1: must be 0 or more"),
        (("diamond", "--checkpoint", "c"), "no variable, so there is nothing to save; leave"),
        (("digits-mlp", "--strategy=one_device", "--fault=drop:worker:0@step:2"), "is alone"),
        ((*NATIVE, "--fault=drop:worker:1@step:2"), "use --collectives visible, or kill, stop or"),
    ],
)
def test_what_cannot_be_served_exits_2_with_the_next_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    assert main(["run", *arguments, "--out", str(tmp_path / "t")]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "t").exists()


OWN_SAVES = {
    "devices": {"worker": 1},
    "client_graph": [
        {"name": "w", "op": "VariableV2", "attrs": {"dtype": "float32", "shape": [2]}},
        {"name": "saved", "op": "SaveV2", "inputs": ["w", "w", "w"]},
    ],
    "run": {"fetches": ["w:0"]},
}


def test_a_graph_that_saves_by_itself_is_not_saved_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "g.json").write_text(json.dumps(OWN_SAVES))
    flags = ("--checkpoint", str(tmp_path), "--checkpoint-every", "1")
    assert main(["run", str(tmp_path / "g.json"), *flags]) == 2
    assert "holds SaveV2 or RestoreV2 and saves by itself" in capsys.readouterr().err


def test_a_variable_of_open_shape_cannot_be_lost_and_restored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attrs = {"dtype": "float32", "shape": [-1, 2]}
    variable = {"name": "w", "op": "VariableV2", "attrs": attrs}
    (tmp_path / "g.json").write_text(json.dumps({**OWN_SAVES, "client_graph": [variable]}))
    assert main(["run", str(tmp_path / "g.json"), "--restart", "1"]) == 2
    assert "variable 'w' leaves its shape open" in capsys.readouterr().err


def test_a_run_that_is_over_already_says_so_instead_of_doing_nothing(tmp_path: Path) -> None:
    Checkpoints(tmp_path).commit(100, 1)
    asked = Tolerance(str(tmp_path))
    with pytest.raises(ToleranceError, match=r"holds step 100, .* has 100 steps: .* --steps 200"):
        check_tolerance(asked, CLUSTER, 100)
    assert check_tolerance(asked, CLUSTER, 101) == 100


def test_a_checkpoint_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("mine")
    with pytest.raises(ToleranceError, match="cannot be made"):
        check_tolerance(Tolerance(str(tmp_path / "f")), CLUSTER, 10)


def test_a_task_learns_from_its_environment_that_it_lived_before() -> None:
    assert Life.of_environment({}) == Life()
    told = {LIFE_VARIABLE: '{"address": "127.0.0.1:2222", "attempt": 1, "done": 6}'}
    assert Life.of_environment(told) == Life("127.0.0.1:2222", 1, 6)
