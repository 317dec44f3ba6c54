"""What is found of runs that went wrong: the cause, its wave, who waited for whom, who was left."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.store.sample_trace import EPOCH, PS, WORKER, training_step, write_trace
from tracer.cli import main as tracer
from tracer.model.step import trace_of_step
from tracer.model.trace_folder import LOGS, Flag, Manifest, TaskRecord, manifest_path
from tracer.record.clock import FakeClock
from tracer.record.manifest import write_manifest
from tracer.record.recorder import Recorder
from tracer.record.sink import Sink
from vizdist.analysis.mechanisms.leftovers import Alone, Fate
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.report import report_json, report_text
from vizdist.analysis.wait_circle import Waits, waits_of
from vizdist.analysis.what_went_wrong import WhatWentWrong, what_went_wrong
from vizdist.analysis.wrong_report import (
    emptied_text,
    facts_of,
    fate_text,
    outcome_text,
    waits_text,
)
from vizdist.components.markup import markup
from vizdist.components.view import View
from vizdist.components.what_went_wrong import wrong_card
from vizdist.i18n import LANGUAGES, Lang
from vizdist.store.columns import SpanRecord
from vizdist.store.trace import Trace, open_trace


def wrong(trace: Trace) -> WhatWentWrong:
    found = what_went_wrong(trace)
    assert found is not None
    return found


def ran(tmp_path: Path, *arguments: str) -> Trace:
    assert tracer(["run", *arguments, "--in-process", "--out", str(tmp_path / "run.trace")]) == 1
    return open_trace(tmp_path / "run.trace")


@pytest.fixture(scope="module")
def bad_op(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return ran(tmp_path_factory.mktemp("bad"), "bad-op")


@pytest.fixture(scope="module")
def deadlock(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return ran(tmp_path_factory.mktemp("stuck"), "deadlock", "--step-timeout", "1")


def test_one_bad_op_is_the_root_with_its_task_step_and_line(bad_op: Trace) -> None:
    found = wrong(bad_op)
    assert (found.task, found.step) == ("worker:1", 3)
    assert found.root is not None
    assert (found.root.node, found.root.op) == ("checked", "CheckNumerics")
    assert bad_op.span(found.root.span).flags == ("error",)
    file, line = found.root.source.split(":")
    assert file.endswith("bad_op.py")
    assert "CheckNumerics" in "".join(
        Path("tracer/workloads/bad_op.py").read_text().splitlines()[int(line) - 1 : int(line) + 2]
    )


def test_its_wave_is_in_order_of_time_and_every_other_task_hears_of_it(bad_op: Trace) -> None:
    found = wrong(bad_op)
    times = [echo.after_ns for echo in found.echoes]
    assert times == sorted(times)
    assert times[0] >= 0
    assert {echo.task for echo in found.echoes} >= {"worker:0", "worker:1", "ps:0"}
    for echo in found.echoes:
        span = bad_op.span(echo.span)
        assert "error" in span.flags
        assert span.end - found.origin == echo.after_ns


def test_keys_without_their_other_end_say_what_became_of_the_node_that_makes_them(
    bad_op: Trace,
) -> None:
    told = {(one.task, one.maker): (one.other, one.fate) for one in wrong(bad_op).unmet}
    assert told["ps:0", "checked"] == told["worker:0", "checked"] == ("worker:1", "failed")
    assert told["ps:0", "seen"] == ("worker:0", "never_ran")


def test_a_deadlock_names_the_circle_and_closes_it(deadlock: Trace) -> None:
    """Through both queues: what should fill the one waits for what is taken from the other."""
    found = wrong(deadlock)
    circle = {(one.task, one.maker, one.other) for one in found.waits.circle}
    assert circle == {
        ("worker:0", "take_right", "worker:1"),
        ("worker:1", "take_left", "worker:0"),
    }
    *_, last = found.waits.circle
    assert last.other == found.waits.circle[0].task
    told = waits_text(found, "en")
    assert "worker:0 for take_right from worker:1" in told
    assert told.endswith("The last waits for the first, so none can go on.")
    assert told in report_text(deadlock)
    assert "等待成环" in waits_text(found, "zh")
    assert told in re.sub("<[^>]*>", "", markup(wrong_card(found, View("summary", "x", "en"))))


def test_where_no_circle_is_known_it_is_said_who_waits_for_whom(deadlock: Trace) -> None:
    one = OneStep(deadlock, deadlock.step(1))
    [alone] = [each for each in wrong(deadlock).unmet if each.task == "worker:1"]
    waits = waits_of(one, [alone])
    assert waits == Waits((), (alone,))
    told = waits_text(replace(wrong(deadlock), waits=waits), "en")
    assert told == (
        "The record holds no circle. Who waits for whom: worker:1 for take_left from worker:0."
    )


def test_a_run_with_a_root_cause_is_not_said_to_wait(bad_op: Trace) -> None:
    assert wrong(bad_op).waits == Waits((), ())
    assert waits_text(wrong(bad_op), "en") == ""


def test_spans_tell_what_an_abort_found_in_mailboxes_and_that_their_cleanup_left_none(
    deadlock: Trace,
) -> None:
    found = wrong(deadlock)
    told = {one.task: one for one in found.emptied}
    assert set(told) == {"worker:0", "worker:1"}
    assert all(deadlock.span(one.span).kind == "rendezvous.cleanup" for one in found.emptied)
    assert sum(one.waiting for one in found.emptied) >= 2, "each waits for the other"
    assert [one.left for one in found.emptied] == [0, 0]
    assert "of 2 tasks; the cleanup left none." in emptied_text(found, "en")
    left = replace(found.emptied[0], left=3)
    still = emptied_text(replace(found, emptied=[left]), "en")
    assert still.endswith(f"still there: {left.task} (3).")


def test_a_deadlock_has_no_root_and_names_the_values_that_nobody_had(deadlock: Trace) -> None:
    found = wrong(deadlock)
    assert found.root is None
    assert found.cause.values["error"] == "step 1 did not end within 1 s"
    waits = {(one.task, one.other, one.maker) for one in found.unmet}
    assert waits >= {("worker:0", "worker:1", "take_right"), ("worker:1", "worker:0", "take_left")}
    for one in found.unmet:
        assert one.fate == "stopped"
        assert one.waited_ns > 0.5e9
        assert len(one.key.split(";")) == 5  # device, incarnation, device, edge, frame:iteration
    assert "was stopped before it had a value" in fate_text(found.unmet[0], "en")


def test_a_value_that_was_made_and_not_sent_is_told_from_one_that_was_never_made(
    tmp_path: Path,
) -> None:
    """R08: one side asks for what the other never hands over; then the opposite."""

    def unmet(name: str, without: str, **changes: dict[str, Any]) -> WhatWentWrong:
        spans = [
            span._replace(**changes.get(span.kind.replace(".", "_"), {}))
            for span in training_step(1)
            if span.kind != without
        ]
        told = {"outcome": "failed", "error": "worker:0 in step 1: step 1 did not end within 1 s"}
        return wrong(open_trace(write_trace(tmp_path / name, spans, **told)))

    gave_up: dict[str, Any] = {"flags": Flag.ERROR, "link": 0}
    key = f"{PS};0000000000000001;{WORKER};edge_1_w/read;0:0"
    asked = unmet("a.trace", "rendezvous.send", rendezvous_recv=gave_up | {"key": key})
    [alone] = asked.unmet
    assert (alone.side, alone.task, alone.other) == ("recv", "worker:0", "ps:0")
    assert (alone.maker, alone.fate) == ("w/read", "ran")
    assert (alone.since_ns, alone.waited_ns, alone.key) == (400, 200, key)
    [sent] = unmet("b.trace", "rendezvous.recv").unmet
    assert (sent.side, sent.task, sent.other, sent.fate) == (
        "send",
        "ps:0",
        "worker:0",
        "not_asked",
    )
    assert "worker:0 never asked for it" in report_text(open_trace(tmp_path / "b.trace"))


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_fate_has_its_own_words(lang: Lang) -> None:
    told = {
        fate_text(Alone("recv", "ps:0", "_recv", "k", 0, 0, "1", "worker:1", "mm", fate), lang)
        for fate in get_args(Fate)
    }
    assert len(told) == len(get_args(Fate))
    assert all("mm" in words or "worker:1" in words for words in told)


def _killed(folder: Path, **more: object) -> Trace:
    """worker:1 died at 2,990 ns, in an op of the third step that never ended."""
    steps = [span for n in range(2) for span in training_step(n + 1, at=n * 1500)]
    own: dict[str, Any] = {"step": 3, "trace_hi": 7, "trace_lo": 3, "flags": Flag.UNFINISHED}
    died = EPOCH + 2990
    root = SpanRecord(
        "worker:1", "client", EPOCH + 2900, died, "step 3", "session.run", span=901, **own
    )
    op = SpanRecord(
        "worker:1", "executor", EPOCH + 2950, died, "mm", "op.run", span=902, parent=901, **own
    )
    call = SpanRecord(
        "ps:0", "rpc", EPOCH + 2960, EPOCH + 3190, "RunGraph", "rpc.client", span=903,
        step=3, trace_hi=7, trace_lo=3, flags=Flag.ERROR,
    )  # fmt: skip
    farewell = call._replace(name="CloseSession", end=EPOCH + 3490, step=0, trace_lo=9, span=904)
    before = call._replace(name="RecvTensor", end=EPOCH + 2980, span=905)
    tasks = [
        TaskRecord("launcher", 1, outcome="done", last_seen_ns=EPOCH + 9000),
        TaskRecord("ps:0", 2, "10.0.0.1:1", outcome="done", last_seen_ns=EPOCH + 4000),
        TaskRecord(
            "worker:1", 3, "10.0.0.2:2", outcome="killed", error="was killed by SIGKILL",
            last_seen_ns=died,
        ),
    ]  # fmt: skip
    told = {"tasks": tasks, "outcome": "failed"} | more
    told |= {"error": "worker:1 in step 3: was killed by SIGKILL"}
    return open_trace(write_trace(folder, [*steps, root, op, call, farewell, before], **told))


def test_of_a_killed_task_the_deepest_open_span_and_its_last_sign_are_told(tmp_path: Path) -> None:
    found = wrong(_killed(tmp_path / "x.trace"))
    assert (found.task, found.address, found.root) == ("worker:1", "10.0.0.2:2", None)
    assert [(one.name, one.since_ns, one.open_ns) for one in found.unfinished] == [
        ("mm", -40, 40),
        ("step 3", -90, 90),
    ]
    assert [(one.task, one.outcome, one.after_ns) for one in found.seen] == [
        ("worker:1", "killed", 0),
        ("ps:0", "done", 1010),
    ]
    assert [(echo.task, echo.name, echo.after_ns) for echo in found.echoes] == [
        ("ps:0", "RunGraph", 200),
        ("ps:0", "CloseSession", 500),
    ]
    told = [outcome_text(one, lang) for one in found.seen for lang in LANGUAGES]
    assert told == ["was killed by SIGKILL", "被 SIGKILL 终止", "left cleanly", "正常退出"]
    assert facts_of(found)["stood"] == "mm"


@pytest.mark.parametrize(("tasks", "more"), [(8, ""), (9, "and 1 more; vizdist report has all")])
def test_a_wave_over_more_tasks_than_have_room_says_how_many_more(
    tmp_path: Path, tasks: int, more: str
) -> None:
    found = wrong(_killed(tmp_path / "x.trace"))
    others = [replace(found.echoes[0], task=f"worker:{9 + at}") for at in range(tasks - 1)]
    card = wrong_card(replace(found, echoes=tuple(others)), View("summary", "x", "en"))
    text = markup(card)
    assert text.count('class="wave-row"') == 8
    assert f"<p>{more}</p>" in text if more else "more;" not in text


def test_what_failed_before_it_went_wrong_did_not_fail_because_of_it(tmp_path: Path) -> None:
    trace = _killed(tmp_path / "x.trace")
    failed = trace.all.text("name")[(trace.all.flags & Flag.ERROR) != 0]
    assert {*failed} == {"RunGraph", "CloseSession", "RecvTensor"}
    assert "RecvTensor" not in {echo.name for echo in wrong(trace).echoes}


def test_the_last_lines_of_the_guilty_tasks_log_are_told_as_text(tmp_path: Path) -> None:
    folder = tmp_path / "x.trace"
    _killed(folder)
    (folder / LOGS).mkdir()
    lines = [f"line {number}" for number in range(5000)]
    (folder / LOGS / "worker-1.log").write_text("\n".join([*lines, "\x1b[31mred <b>"]))
    found = wrong(open_trace(folder))
    assert len(found.log) == 20
    assert found.log[-2:] == ("line 4999", "\x1b[31mred <b>")
    assert "    \\x1b[31mred <b>" in report_text(open_trace(folder)).splitlines()


def test_the_report_tells_it_in_words_and_in_json(tmp_path: Path, deadlock: Trace) -> None:
    text = report_text(deadlock)
    assert "\nWhat went wrong\n  Task: worker:0\n" in text
    assert "Keys that did not meet" in text
    assert "没有会合的键" in report_text(deadlock, None, "zh")
    told = json.loads(report_json(deadlock))["what_went_wrong"]
    assert {one["maker"] for one in told["unmet"]} == {"take_left", "take_right"}
    ended_well = open_trace(write_trace(tmp_path / "w.trace", training_step(1)))
    assert what_went_wrong(ended_well) is None
    assert "What went wrong" not in report_text(ended_well)


def test_a_run_that_goes_on_has_gone_wrong_only_once_nobody_is_left_to_end_it(
    tmp_path: Path,
) -> None:
    folder = write_trace(tmp_path / "x.trace", training_step(1), outcome="running")
    going = report_text(open_trace(folder))
    assert "What went wrong" not in going
    assert json.loads(report_json(open_trace(folder)))["what_went_wrong"] is None
    os.utime(manifest_path(folder), (0, 0))
    lost = report_text(open_trace(folder))
    assert "What went wrong" in lost
    assert "times count from the end of the trace" in lost
    assert "times count from the end" not in report_text(_killed(tmp_path / "killed.trace"))


def test_a_run_that_was_interrupted_says_how_each_task_ended(tmp_path: Path) -> None:
    """R02: left cleanly, killed or lost."""
    tasks = [
        TaskRecord(name, 1, outcome=outcome, last_seen_ns=EPOCH + 1)
        for name, outcome in (("ps:0", "done"), ("worker:0", "killed"), ("worker:1", "lost"))
    ]
    trace = open_trace(
        write_trace(tmp_path / "x.trace", training_step(1), outcome="interrupted", tasks=tasks)
    )
    text = report_text(trace)
    for words in ("left cleanly", "was killed", "was lost"):
        assert words in text


def test_a_task_that_never_came_up_is_told_with_its_address_and_last_answer(
    tmp_path: Path,
) -> None:
    """R01: one wait a missing task."""
    folder, scratch = tmp_path / "x.trace", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    error = "worker:2: waited 3 s for 1 of 3 tasks: worker:2 at 10.0.0.2:2222: refused"
    write_manifest(folder, Manifest("run-1", outcome="failed", error=error))
    clock = FakeClock(EPOCH)
    master = Recorder(scratch, "worker:0", clock=clock)
    for peer, problem in (("worker:1", ""), ("worker:2", "refused")):
        with master.span("session.wait", trace_of_step("run-1", "run", 0), name=peer) as span:
            span.set("vizdist.peer", peer)
            span.set("server.address", f"10.0.0.{peer[-1]}:2222")
            if problem:
                span.fail(ConnectionError(problem))
            clock.advance(3_000_000_000)
    sink = Sink(folder, scratch)
    sink.turn(clock.now_ns(), at_end=True)
    sink.tell()
    sink.close()
    trace = open_trace(folder)
    [absent] = wrong(trace).absent
    assert (absent.task, absent.address, absent.waited_ns) == ("worker:2", "10.0.0.2:2222", 3e9)
    assert "refused" in absent.error
    text = report_text(trace)
    assert "Tasks that never came up" in text
    assert "10.0.0.2:2222" in text


@pytest.mark.cluster
@pytest.mark.slow
def test_a_worker_that_is_killed_is_found_with_what_it_left_open(tmp_path: Path) -> None:
    out = tmp_path / "killed.trace"
    cluster = ["--strategy", "parameter_server_v1", "--ps", "1", "--workers", "2", "--steps", "12"]
    flags = ["--fault", "kill:worker:1@step:4", "--out", str(out)]
    assert tracer(["run", "digits-mlp", *cluster, *flags]) == 1
    found = wrong(open_trace(out))
    assert (found.task, found.step, found.root) == ("worker:1", 4, None)
    assert found.address
    assert found.unfinished
    assert found.unfinished[0].task == "worker:1"
    [killed] = [one for one in found.seen if one.outcome == "killed"]
    assert killed.task == "worker:1"
    assert "SIGKILL" in killed.error
    assert found.seen[0].task == "worker:1", "it was heard of least recently"
