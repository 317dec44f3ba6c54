"""Faults that were asked for are named with what followed; a worker that is slow is the one told.

Every span is written by the recorders of the tasks themselves, on a clock that moves when told.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.analysis.sample_run import ended
from tracer.model.fault import Fault
from tracer.model.step import trace_of_step
from tracer.model.trace_folder import Manifest
from tracer.record.clock import FakeClock
from tracer.record.manifest import write_manifest
from tracer.record.recorder import Recorder
from tracer.runtime.faults import record_fault
from vizdist.analysis.asked_faults import asked_faults
from vizdist.analysis.faults_told import asked_text
from vizdist.analysis.overview import overview
from vizdist.analysis.report import sentence_text
from vizdist.analysis.sentence import Sentence
from vizdist.analysis.step_times import step_times
from vizdist.analysis.steps import steps_around
from vizdist.analysis.summary import summarise
from vizdist.figures.timeline import HUES, hues_of, strip
from vizdist.i18n import LANGUAGES
from vizdist.store.trace import Trace

MS = 1_000_000
KILL, DELAY = "kill:ps:0@step:6", "delay=50:worker:1@step:7"


class Story:
    """What tasks did one after another."""

    def __init__(self, folder: Path, *faults: str, is_struck: bool = True) -> None:
        self.folder, self.scratch, self.clock = folder, folder.parent / "scratch", FakeClock()
        for made in (folder, self.scratch):
            made.mkdir()
        command = ["tracer", "run", "x", *(["--fault", ",".join(faults)] if faults else [])]
        write_manifest(folder, Manifest("r", command=command, steps=20))
        self.recorders: dict[str, Recorder] = {}
        self.is_struck = is_struck

    def of(self, task: str) -> Recorder:
        if task not in self.recorders:
            self.recorders[task] = Recorder(self.scratch, task, clock=self.clock)
        return self.recorders[task]

    def steps(self, task: str, numbers: Iterable[int], took: int, life: str = "") -> None:
        for number in numbers:
            context = trace_of_step("r", f"{task}{life}", number)
            with self.of(task).span("session.run", context):
                self.clock.advance(took)

    def blow(self, text: str, step: int) -> None:
        fault = Fault.parse(text)
        if self.is_struck:
            task = str(fault.task)
            record_fault(self.of(task), fault, trace_of_step("r", task, step))
            self.clock.advance(1)

    def restart(self, task: str, took: int) -> None:
        told = {"vizdist.peer": task, "vizdist.attempt": 1}
        with self.of("launcher").span("task.restart", trace_of_step("r", "run", 0)) as span:
            for name, value in told.items():
                span.set(name, value)
            self.clock.advance(took)

    def recover(self, client: str, lost: int, resumed: int) -> None:
        with self.of(client).span("session.recover", trace_of_step("r", "run", 0)) as span:
            span.set("vizdist.lost_step", lost)
            span.set("vizdist.resumed_step", resumed)
            self.clock.advance(MS)

    def end(self, **manifest: object) -> Trace:
        for recorder in self.recorders.values():
            recorder.close()
        return ended(self.folder, self.scratch, **manifest)


def about_faults(trace: Trace) -> list[Sentence]:
    areas = ("fault", "after_fault")
    return [one for one in summarise(trace).sentences if one.key.partition(".")[0] in areas]


def words(trace: Trace) -> list[str]:
    return [sentence_text(one, "en") for one in about_faults(trace)]


def killed_ps(folder: Path, *, is_struck: bool = True) -> Trace:
    """The ps dies in step 6, is there again after 2 s, and both workers go back to step 5."""
    story = Story(folder, KILL, is_struck=is_struck)
    for worker in ("worker:0", "worker:1"):
        story.steps(worker, range(1, 6), MS)
    story.blow(KILL, 6)
    story.restart("ps:0", 2000 * MS)
    story.recover("worker:0", 6, 5)
    story.recover("worker:1", 7, 5)
    for worker in ("worker:0", "worker:1"):
        story.steps(worker, range(5, 10), MS, life=" again")
    return story.end()


def straggler(folder: Path, *, late: int = 50 * MS, is_struck: bool = True) -> Trace:
    """From step 7 on worker:1 is late; worker:0 never is."""
    story = Story(folder, DELAY, is_struck=is_struck)
    story.steps("worker:0", range(1, 21), 2 * MS)
    story.steps("worker:1", range(1, 7), 2 * MS)
    story.blow(DELAY, 7)
    story.steps("worker:1", range(7, 21), 2 * MS + late)
    return story.end()


def test_a_task_that_was_killed_is_named_with_its_restart_and_where_clients_went_on(
    tmp_path: Path,
) -> None:
    trace = killed_ps(tmp_path / "x.trace")
    assert words(trace) == [
        f"A fault that was asked for, {KILL}, struck in step 6: ps:0 was killed by SIGKILL.",
        "ps:0 was started again and served after 2.00 s.",
        "2 clients, which had lost ps:0 (step 6–7), went on with step 5 after 2.00 s.",
    ]
    kinds = [{trace.span(span).kind for span in one.proof} for one in about_faults(trace)]
    assert kinds == [{"fault.inject"}, {"task.restart"}, {"session.recover"}]


def test_without_its_span_a_fault_struck_nobody(tmp_path: Path) -> None:
    trace = killed_ps(tmp_path / "x.trace", is_struck=False)
    assert words(trace) == []
    [one] = overview(trace).asked
    assert asked_text(one, "en") == f"{KILL} was asked for and never struck"


def test_a_run_without_faults_tells_of_none(tmp_path: Path) -> None:
    story = Story(tmp_path / "x.trace")
    story.steps("worker:0", range(1, 9), MS)
    trace = story.end()
    assert words(trace) == []
    assert overview(trace).asked == ()


def test_a_worker_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    story = Story(tmp_path / "x.trace", "kill:worker:1@step:3")
    story.steps("worker:1", (1, 2), MS)
    story.blow("kill:worker:1@step:3", 3)
    story.restart("worker:1", 500 * MS)
    story.steps("worker:1", (3, 4), MS)
    trace = story.end()
    assert words(trace)[1:] == [
        "worker:1 was started again, served after 500 ms and went on with step 3."
    ]


def test_a_fault_that_nobody_survives_ended_the_run(tmp_path: Path) -> None:
    story = Story(tmp_path / "x.trace", "error:worker:0@step:2")
    story.steps("worker:0", (1, 2), MS)
    story.blow("error:worker:0@step:2", 2)
    trace = story.end(outcome="failed", error="worker:0 in step 2: this op fails as asked for")
    assert [one.key for one in about_faults(trace)] == ["fault.error", "after_fault.failed"]


def test_a_delay_is_told_by_the_steps_before_and_since(tmp_path: Path) -> None:
    trace = straggler(tmp_path / "x.trace")
    assert words(trace) == [
        f"A fault that was asked for, {DELAY}, struck in step 7: from then on every message that "
        "others sent to worker:1 was 50.0 ms late.",
        "Since then a step of worker:1 takes 52.0 ms, where it took 2.00 ms before.",
    ]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_library_names_a_fault_as_it_was_asked_for(tmp_path: Path, lang: str) -> None:
    [one] = overview(straggler(tmp_path / "x.trace")).asked
    assert DELAY in asked_text(one, "zh" if lang == "zh" else "en")
    assert one.strike is not None


def test_the_headline_is_of_the_worker_that_is_slow_and_tells_by_how_much(tmp_path: Path) -> None:
    trace = straggler(tmp_path / "x.trace")
    assert sentence_text(summarise(trace).headline[-1], "en").startswith(
        "A step of worker:1 takes 52.0 ms, 26.0 times as long as one of worker:0 (2.00 ms)"
    )
    shown = step_times(trace).typical
    assert shown is not None
    assert shown.task == steps_around(trace, shown.number).task == "worker:1"


def test_workers_that_step_alike_have_no_straggler(tmp_path: Path) -> None:
    trace = straggler(tmp_path / "x.trace", late=0)
    assert step_times(trace).straggler is None
    assert "times as long" not in sentence_text(summarise(trace).headline[-1], "en")


def test_the_timeline_marks_the_moment_in_the_lane_of_the_task(tmp_path: Path) -> None:
    trace = straggler(tmp_path / "x.trace")
    [one] = asked_faults(trace)
    assert one.strike is not None
    own = trace.all.take(trace.all.is_kind("fault.inject"))
    assert (own.task.tolist(), own.lane.tolist()) == (["worker:1"], ["faults"])
    assert [HUES[hue] for hue in hues_of(own)] == ["error"]
    struck = {task["task"]: task["struck"] for task in strip(trace)["tasks"]}
    assert struck == {"worker:0": [], "worker:1": [one.strike.at - trace.start]}


def test_several_faults_are_told_one_by_one_in_the_order_in_which_they_struck(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path / "x.trace", "kill:ps:0@step:9", "drop:worker:0@step:2", DELAY)
    story.steps("worker:0", (1, 2), MS)
    story.blow(DELAY, 7)
    story.blow("drop:worker:0@step:2", 8)
    texts = [(one.text, one.strike is not None) for one in asked_faults(story.end())]
    assert texts == [(DELAY, True), ("drop:worker:0@step:2", True), ("kill:ps:0@step:9", False)]
