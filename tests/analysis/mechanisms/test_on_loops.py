"""What the report says of loops and conds that the real runtime ran over two devices."""

from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from tracer.cli import main as tracer
from vizdist.analysis.branches import branches, loops
from vizdist.analysis.bytes_moved import task_of_device
from vizdist.analysis.mailbox import Transfer
from vizdist.analysis.mechanisms import control_flow, leftovers, transfers
from vizdist.analysis.mechanisms.control_flow import ControlFlow
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.report import sentence_text
from vizdist.analysis.summary import summarise
from vizdist.cli import main as vizdist
from vizdist.store.trace import open_trace

PS = "/job:ps/replica:0/task:0/device:CPU:0"
WORKER = "/job:worker/replica:0/task:0/device:CPU:0"
ASIDE = "/job:worker/replica:0/task:1/device:CPU:0"


def run(folder: Path, name: str, **options: int | str) -> OneStep:
    flags = [word for key, value in options.items() for word in ("--option", f"{key}={value}")]
    out = folder / f"{name}.trace"
    assert tracer(["run", name, "--in-process", *flags, "--out", str(out)]) == 0
    trace = open_trace(out)
    return OneStep(trace, trace.step(1))


def flow_of(one: OneStep) -> ControlFlow:
    found = control_flow.find(one)
    assert found is not None
    return found


def moved(one: OneStep) -> dict[str, list[Transfer]]:
    """Transfers inside loops, by tensor, in the order of iterations."""
    found = transfers.find(one)
    assert found is not None
    by_tensor = defaultdict(list)
    for row in sorted(found.rows, key=lambda row: row.iteration):
        if row.frame:
            by_tensor[row.tensor].append(row)
    return by_tensor


@pytest.mark.parametrize("iterations", [0, 3])
def test_every_crossing_edge_is_sent_once_more_than_the_body_runs_the_last_time_dead(
    tmp_path: Path, iterations: int
) -> None:
    one = run(tmp_path, "cross-device-while", iterations=iterations)
    edges = moved(one)
    assert edges.keys() == {"loop/Identity", "loop/Identity_1", "loop/LoopCond", "loop/body_mul"}
    for tensor, rows in edges.items():
        assert [row.iteration for row in rows] == list(range(iterations + 1))
        last = "done" if tensor == "loop/LoopCond" else "dead"  # the predicate says why
        assert [row.state for row in rows] == ["done"] * iterations + [last]
    left = leftovers.find(one)
    assert left is not None
    assert left.alone == []
    [loop] = loops(one)
    assert (loop.rounds, {*loop.messages.values()}) == (iterations, {iterations + 1})
    [said] = [said for said in summarise(one.trace).sentences if said.key == "loop.one_more"]
    told = sentence_text(said, "en")
    assert f"ran in {iterations} iterations of step 1" in told
    assert f"one message more, {iterations + 1}. The last one was dead on 3 of 4" in told
    proof = [one.trace.span(span) for span in said.proof]
    assert {span.kind for span in proof} == {"frame.run", "iteration.run", "rendezvous.recv"}
    assert sum("dead" in span.flags for span in proof) == 3


@pytest.mark.parametrize(("parallel_iterations", "deferred"), [(1, 5), (10, 0)])
def test_no_more_iterations_are_in_flight_than_may_be(
    tmp_path: Path, parallel_iterations: int, deferred: int
) -> None:
    """An iteration asks for the next one while it is still there itself."""
    options = {"iterations": 5, "parallel_iterations": parallel_iterations}
    frames = flow_of(run(tmp_path, "cross-device-while", **options)).frames
    assert {frame.device for frame in frames} == {PS, WORKER}
    for frame in frames:
        assert frame.iterations == 6
        assert (frame.most == 1) == (parallel_iterations == 1)
        assert frame.deferred == deferred


def test_each_device_runs_the_control_loop_once_an_iteration(tmp_path: Path) -> None:
    flow = flow_of(run(tmp_path, "cross-device-while", iterations=3))
    for frame in flow.frames:
        assert frame.machine == {"Merge": 4, "Switch": 4, "NextIteration": 4}
    assert flow.broadcasts == 4


def test_the_inner_loop_has_a_frame_for_each_iteration_of_the_outer(tmp_path: Path) -> None:
    frames = flow_of(run(tmp_path, "nested-while", outer=2, inner=3)).frames
    on_worker = [frame for frame in frames if frame.device == WORKER]
    ids = Counter(frame.frame for frame in on_worker)
    assert ids == {"outer/while_context": 1, "outer/inner/while_context": 3}
    inner = [frame for frame in on_worker if "inner" in frame.frame]
    assert len({frame.frame_id for frame in inner}) == 3
    assert sorted(frame.iterations for frame in inner) == [1, 4, 4]  # the last one was entered dead


def test_a_copy_without_names_tells_the_same_of_its_loops(tmp_path: Path) -> None:
    whole = run(tmp_path, "cross-device-while", iterations=2)
    out = tmp_path / "shared.trace"
    assert vizdist(["export", str(whole.trace.path), str(out), "--redact"]) == 0
    trace = open_trace(out)
    shared = flow_of(OneStep(trace, trace.step(1)))
    assert {frame.frame for frame in shared.frames}.isdisjoint({"loop/while_context"})
    nameless = [replace(frame, frame="") for frame in shared.frames]
    assert nameless == [replace(frame, frame="") for frame in flow_of(whole).frames]
    assert shared.broadcasts == 3


@pytest.mark.parametrize(("pred", "idle"), [("true", ASIDE), ("false", WORKER)])
def test_the_branch_that_is_not_taken_is_dead(tmp_path: Path, pred: str, idle: str) -> None:
    one = run(tmp_path, "cross-device-cond", pred=pred)
    flow = flow_of(one)
    assert flow.frames == []
    assert flow.dead[idle] >= 1
    found = transfers.find(one)
    assert found is not None
    answers = {row.source: row.state for row in found.rows if row.target == PS}
    assert answers[idle] == "dead"
    [branch] = branches(one)
    assert (branch.predicate, branch.is_true) == ("pred", pred == "true")
    assert branch.tasks == [task_of_device(idle)]
    ways = (["cond/f_neg"], ["cond/t_mul"])
    assert (branch.ran, branch.passed) == (ways[pred == "true"], ways[pred != "true"])
    assert "dead" not in one.trace.span(branch.spans[0]).flags
    [said] = [said for said in summarise(one.trace).sentences if said.key.startswith("branch.")]
    assert said.page == "replay"
    assert f"the predicate pred was {pred}:" in sentence_text(said, "en")
    word = {"true": "真", "false": "假"}[pred]
    assert f"谓词 pred 为{word}：运行了 {branch.ran[0]}；" in sentence_text(said, "zh")
