"""Checkpoints: what goes on from one is the run that was never interrupted, to the bit."""

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.fake_gpu import FakeDriver
from tests.training.test_on_gpus import RecordersClock
from tests.training.trained import Run, trained
from tracer.capture_graph.optimizers import Adam
from tracer.model.refusal import Refusal
from tracer.ops.tensor_file import TensorFile, write_tensors
from tracer.runtime.interfaces import MasterInterface, StepError
from tracer.training.checkpoint import MOST_KEPT, CheckpointError, Checkpoints
from tracer.training.line import Line, Ready, Round
from tracer.workloads.digits_mlp import workload
from tracer.workloads.workload import Workload

STRATEGIES = ("one_device", "parameter_server_v1")


def with_adam() -> Workload:
    """Optimizer slots count too, so an optimizer that has some."""
    made = workload()
    return Workload(made.make_module, made.loss, Adam(), made.batches)


@pytest.fixture(scope="module", params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def whole(strategy: str) -> Run:
    """Twelve steps without a break."""
    return trained(with_adam(), strategy, 12)


def same(run: Run, whole: Run) -> bool:
    return all(torch.equal(run.variables[name], whole.variables[name]) for name in whole.variables)


def test_a_run_that_goes_on_from_a_checkpoint_ends_as_one_without_a_break(
    strategy: str, whole: Run, tmp_path: Path
) -> None:
    checkpoints = Checkpoints(tmp_path, every=0)
    first = trained(with_adam(), strategy, 7, checkpoints=checkpoints)
    assert checkpoints.latest() == 7
    second = trained(with_adam(), strategy, 12, checkpoints=checkpoints)
    assert [*first.fitted.losses, *second.fitted.losses] == whole.fitted.losses
    assert second.fitted.first_step == 8
    assert same(second, whole)


def test_a_checkpoint_holds_every_variable_and_slot(strategy: str, tmp_path: Path) -> None:
    run = trained(with_adam(), strategy, 2, checkpoints=Checkpoints(tmp_path))
    (path,) = Checkpoints(tmp_path).files(2)
    file = TensorFile(path)
    assert {"fc1/weight", "fc1/weight/Adam/m", "fc2/bias/Adam/step"} <= set(file.names)
    for name, value in run.variables.items():
        assert torch.equal(file.tensor(name), value)


def test_they_are_taken_at_the_start_every_so_often_and_at_the_end(tmp_path: Path) -> None:
    run = trained(workload(), "one_device", 7, checkpoints=Checkpoints(tmp_path, every=3))
    assert json.loads((tmp_path / "checkpoint.json").read_text())["kept"] == [0, 3, 6, 7]
    saves = [span for span in run.spans if span.kind == "checkpoint.save"]
    assert [span.attributes["vizdist.checkpoint.step"] for span in saves] == [0, 3, 6, 7]
    assert all(span.attributes["vizdist.bytes"] > 9640 for span in saves)
    saved = [s for s in run.spans if s.attributes.get("vizdist.op") == "SaveV2"]
    assert len(saved) == 4


def losing(at: int, lose: Callable[[MasterInterface], None]) -> Callable[[MasterInterface], Line]:
    """A line over which a loss is heard of once, before step `at`; this client leads."""

    def line_of(master: MasterInterface) -> Line:
        left = [at]

        def on_step(step: int) -> None:
            if step == at and left:
                left.clear()
                lose(master)
                raise StepError("UNAVAILABLE", "the connection ended")

        return Line(on_step, recover=lambda _: Round(leads=True))

    return line_of


def forget(master: MasterInterface) -> None:
    """What a restart does: no session is left, no variable has a value."""
    master.reset()


def losing_at_the_start(code: str, message: str) -> Callable[[MasterInterface], Line]:
    """All is lost once, when the client has lined up for its first step."""

    def line_of(master: MasterInterface) -> Line:
        starts: list[Ready] = []

        def line_up(ready: Ready) -> int:
            starts.append(ready)
            if len(starts) == 1:
                forget(master)
                raise StepError(code, message)
            return ready.step

        return Line(line_up=line_up, recover=lambda _: Round(leads=True, has_begun=False))

    return line_of


def test_after_a_loss_of_variables_it_goes_back_to_the_last_checkpoint(
    strategy: str, whole: Run, tmp_path: Path
) -> None:
    run = trained(
        with_adam(),
        strategy,
        12,
        checkpoints=Checkpoints(tmp_path, every=5),
        line_of=losing(9, forget),
    )
    assert run.fitted.losses == whole.fitted.losses
    assert same(run, whole)
    (recover,) = [span for span in run.spans if span.kind == "session.recover"]
    assert recover.attributes["vizdist.lost_step"] == 9
    assert recover.attributes["vizdist.resumed_step"] == 6
    roots = [span for span in run.spans if span.kind == "session.run" and span.step == 7]
    assert len({(span.trace_hi, span.trace_lo) for span in roots}) == 2


def test_a_loss_that_costs_no_variable_costs_no_step(strategy: str, whole: Run) -> None:
    run = trained(with_adam(), strategy, 12, line_of=losing(9, lambda _: None))
    assert run.fitted.losses == whole.fitted.losses
    assert same(run, whole)


GROUPS: dict[str, dict[str, str]] = {
    "multi_worker_mirrored": {},
    "parameter_server_v1": {"sync": "true"},
}


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_goes_back_though_no_variable_is_lost(name: str, tmp_path: Path) -> None:
    """The step that broke off may have moved some variables or copies and not others."""
    group = partial(trained, workload(), name, devices=("cpu:0", "cpu:1"), options=GROUPS[name])
    line_of = losing(5, lambda _: None)
    run = group(6, checkpoints=Checkpoints(tmp_path, every=2), line_of=line_of)
    assert run.fitted.losses == group(6).fitted.losses
    (recover,) = [span for span in run.spans if span.kind == "session.recover"]
    assert recover.attributes["vizdist.resumed_step"] == 5
    assert [span.kind for span in run.spans].count("checkpoint.restore") == 1
    with pytest.raises(StepError, match="no checkpoint that all workers could go back to"):
        group(6, line_of=line_of)


def test_without_a_checkpoint_lost_variables_end_the_run_by_name() -> None:
    with pytest.raises(StepError, match=r"fc1/weight, fc1/bias, .*--checkpoint DIR") as caught:
        trained(workload(), "one_device", 12, line_of=losing(9, forget))
    assert caught.value.code == "FAILED_PRECONDITION"


def test_variables_lost_before_the_first_step_are_made_anew(strategy: str, whole: Run) -> None:
    """Nothing is undone by that; the client had lined up when it heard of the loss."""
    died = "a task of this session died and is started again"
    run = trained(with_adam(), strategy, 12, line_of=losing_at_the_start("ABORTED", died))
    assert run.fitted.losses == whole.fitted.losses
    assert same(run, whole)


def test_sessions_that_could_not_be_made_at_first_are_made_after_the_loss() -> None:
    """The death of another task reaches a client while it makes its first session."""

    def line_of(master: MasterInterface) -> Line:
        make, failed = master.make_callable, list[object]()

        def once(*names: Any) -> int:
            if not failed:
                failed.append(names)
                forget(master)
                raise StepError("UNAVAILABLE", "the connection ended")
            return make(*names)

        master.make_callable = once  # type: ignore[assignment, method-assign]
        return Line(recover=lambda _: Round(leads=True, has_begun=False))

    run = trained(workload(), "one_device", 3, line_of=line_of)
    assert len(run.fitted.losses) == 3


def test_a_session_that_was_not_to_be_used_is_closed_and_its_step_not_captured_again() -> None:
    def line_of(master: MasterInterface) -> Line:
        make, failed = master.make_callable, list[object]()

        def at_last(*names: Any) -> int:
            if len(failed) < 3:
                failed.append(names)
                raise StepError("UNAVAILABLE", "the connection ended")
            return make(*names)

        master.make_callable = at_last  # type: ignore[assignment, method-assign]
        return Line(recover=lambda _: Round(leads=True, has_begun=False))

    kinds = Counter(
        span.kind for span in trained(workload(), "one_device", 3, line_of=line_of).spans
    )
    assert kinds["session.create"] == kinds["session.close"] > 3
    assert kinds["graph.capture"] == 1


def test_a_client_goes_on_where_the_line_says(tmp_path: Path) -> None:
    """Another client has restored the variables of step 5: all go on from there."""

    def line_up(ready: Ready) -> int:
        return 5

    run = trained(workload(), "one_device", 7, line_of=lambda _: Line(line_up=line_up))
    assert (run.fitted.first_step, len(run.fitted.losses)) == (6, 2)


def test_a_checkpoint_of_another_model_is_refused_with_what_it_holds(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    trained(workload(), "one_device", 2, checkpoints=checkpoints)
    with pytest.raises(StepError, match=r"Key fc1/weight/Adam/m not found") as found:
        trained(with_adam(), "one_device", 4, checkpoints=checkpoints)
    assert found.value.code == "NOT_FOUND"
    assert "it holds fc1/bias, fc1/weight" in found.value.message


def test_only_the_last_ones_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in range(1, 9):
        (tmp_path / f"model.ckpt-{step}-00000-of-00001.safetensors").touch()
        checkpoints.commit(step, 1)
    kept = range(9 - MOST_KEPT, 9)
    assert json.loads((tmp_path / "checkpoint.json").read_text())["kept"] == list(kept)
    assert sorted(tmp_path.glob("model*")) == [f for step in kept for f in checkpoints.files(step)]


def test_a_checkpoint_whose_save_broke_off_is_not_gone_on_from(tmp_path: Path) -> None:
    """Its files may be there; the list does not name them yet."""
    checkpoints = Checkpoints(tmp_path)
    checkpoints.commit(3, 1)
    (tmp_path / "model.ckpt-6-00000-of-00002.safetensors").write_bytes(b"torn")
    assert checkpoints.latest() == 3


def test_shards_of_a_save_that_broke_off_are_not_taken_for_those_of_a_later_run(
    tmp_path: Path,
) -> None:
    """Of the same step, when there were more tasks to hold variables."""
    for shard in range(2):
        write_tensors(tmp_path / f"model.ckpt-2-{shard:05d}-of-00002.safetensors", {})
    checkpoints = Checkpoints(tmp_path)
    trained(workload(), "one_device", 2, checkpoints=checkpoints)
    (whole,) = checkpoints.files(2)
    assert whole.name == "model.ckpt-2-00000-of-00001.safetensors"
    assert trained(workload(), "one_device", 3, checkpoints=checkpoints).fitted.first_step == 3


@pytest.mark.parametrize("text", ["", "[]", '{"kept": 3}', '{"kept": ["a"]}', '{"kept": [-1]}'])
def test_a_list_that_cannot_be_read_is_refused_in_words(tmp_path: Path, text: str) -> None:
    (tmp_path / "checkpoint.json").write_text(text)
    with pytest.raises(CheckpointError, match="is no list of checkpoints") as refused:
        Checkpoints(tmp_path).latest()
    assert isinstance(refused.value, Refusal)


def test_variables_of_gpus_are_saved_and_restored_by_the_task_s_cpu(tmp_path: Path) -> None:
    on_gpu = partial(
        trained,
        strategy="one_device",
        devices=("cuda:0",),
        driver=FakeDriver(RecordersClock()),
        checkpoints=Checkpoints(tmp_path),
    )
    first = on_gpu(with_adam(), steps=3)
    second = on_gpu(with_adam(), steps=6)
    here = trained(with_adam(), "one_device", 6)
    assert [*first.fitted.losses, *second.fitted.losses] == here.fitted.losses
    assert same(second, here)
