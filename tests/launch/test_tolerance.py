"""Flags about checkpoints, restarts and faults: what is refused before anything starts."""

from pathlib import Path

import pytest

from tests.launch.test_plan import plan_of
from tracer.cli import main
from tracer.launch.plan import LIFE_VARIABLE, Life, Plan
from tracer.launch.tolerance import Tolerance, ToleranceError, check_tolerance
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.training.checkpoint import Checkpoints

MODULE = ("digits-mlp", "--strategy", "parameter_server_v1")
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
        (("diamond", "--restart", "1"), "--restart is for modules"),
        (("diamond", "--checkpoint", "c", "--checkpoint-every", "1"), "it may hold SaveV2"),
        (("digits-mlp", "--strategy=one_device", "--fault=drop:worker:0@step:2"), "is alone"),
    ],
)
def test_what_cannot_be_served_exits_2_with_the_next_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    assert main(["run", *arguments, "--out", str(tmp_path / "t")]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "t").exists()


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
