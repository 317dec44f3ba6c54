"""What analyses say of a run whose every time, byte and version is known."""

import json
from itertools import chain
from pathlib import Path

import pytest

from tests.analysis.sample_run import PS, SLOW_NS, W_BYTES, sample_run, worker_device
from tests.store.sample_trace import training_step, write_trace
from tracer.model.step import trace_of_step
from tracer.model.trace_folder import Flag, Manifest, TaskRecord
from tracer.record.clock import FakeClock
from tracer.record.manifest import write_manifest
from tracer.record.recorder import Recorder
from tracer.record.sink import Sink
from vizdist.analysis.bytes_moved import bytes_moved
from vizdist.analysis.faults import faults
from vizdist.analysis.graph_counts import graph_counts
from vizdist.analysis.keys import tensor_title
from vizdist.analysis.look_next import look_next
from vizdist.analysis.loss_curve import LossCurve, loss_curve
from vizdist.analysis.op_totals import op_totals
from vizdist.analysis.report import finding_texts, report_json, report_text, sentence_text
from vizdist.analysis.slow_step import why_slow
from vizdist.analysis.staleness import staleness
from vizdist.analysis.step_split import split_of_client
from vizdist.analysis.step_times import step_times
from vizdist.analysis.summary import summarise
from vizdist.i18n import LANGUAGES
from vizdist.store.problems import TraceError
from vizdist.store.trace import Trace, open_trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return sample_run(tmp_path_factory.mktemp("run") / "known.trace")


def test_steps_are_timed_and_the_slow_one_found(trace: Trace) -> None:
    times = step_times(trace)
    assert len(times.steps) == 6
    assert times.median == 1400
    assert times.outlier is not None
    assert (times.outlier.number, times.outlier.task) == (3, "worker:1")


def test_a_typical_step_is_split(trace: Trace) -> None:
    parts = split_of_client(trace, trace.step(1, "worker:0")).parts
    assert {name: ns for name, ns in parts.items() if ns} == {
        "compute": 700,
        "transfer": 100,
        "wait": 100,
        "other": 500,
    }


def test_the_slow_step_is_explained_by_the_op_that_ran_longer(trace: Trace) -> None:
    times = step_times(trace)
    assert times.outlier is not None
    usual = times.usual_for(times.outlier)
    assert usual is not None
    assert usual.task == "worker:1"
    cause = why_slow(trace, times.outlier, usual)
    assert cause is not None
    assert (cause.measure, cause.task, cause.name, cause.late) == ("run", "worker:1", "mm", SLOW_NS)
    assert trace.span(cause.span).name == "mm"


def test_runs_of_one_node_at_the_same_time_make_a_step_late_once(tmp_path: Path) -> None:
    """Two of `mm` run 8 us longer side by side; the step takes 8 us longer, not 16."""
    steps = [training_step(number, at=number * 20_000) for number in range(1, 5)]
    for at, span in enumerate(steps[2]):
        if span.name in ("mm", "step 3"):
            steps[2][at] = span._replace(end=span.end + 8_000)
    [mm] = [span for span in steps[2] if span.name == "mm"]
    steps[2].append(mm._replace(start=mm.start + 10, depth=1, span=mm.span + 10_000))
    trace = open_trace(write_trace(tmp_path / "x.trace", chain.from_iterable(steps)))
    usual, slow = trace.step(2), trace.step(3)
    cause = why_slow(trace, slow, usual)
    assert cause is not None
    assert (cause.measure, cause.name, cause.late) == ("run", "mm", 8_000)
    assert slow.duration - usual.duration == 8_000


def test_bytes_are_those_of_the_variables_and_their_gradients(trace: Trace) -> None:
    moved = bytes_moved(trace)
    assert moved.by_device == {
        pair: 3 * W_BYTES
        for index in (0, 1)
        for pair in ((PS, worker_device(index)), (worker_device(index), PS))
    }
    assert moved.by_task["ps:0", "worker:1"] == 3 * W_BYTES
    assert (moved.per_step, moved.variable_bytes) == (2 * W_BYTES, W_BYTES)
    assert moved.matches_closed_form
    assert bytes_moved(trace, trace.step(2)).total == 2 * W_BYTES


def test_an_edge_is_called_by_what_it_carries() -> None:
    assert tensor_title("edge_12_mm1_grad/MatMul") == "mm1_grad/MatMul"
    assert tensor_title("x:0") == "x:0"
    assert tensor_title("edge_x") == "edge_x"
    assert tensor_title("collective_1_100_all_gather_0") == "1.100 all_gather 0"


def test_the_loss_is_read_step_by_step_and_worker_by_worker(trace: Trace) -> None:
    curve = loss_curve(trace)
    assert curve.lines == {
        "worker:0": ((1, 2.5), (2, 2.0), (3, 1.5)),
        "worker:1": ((1, 3.5), (2, 3.0), (3, 2.5)),
    }
    assert trace.span(curve.spans["worker:1", 2]).kind == "session.run"
    assert curve.metric is None


def test_the_loss_of_a_run_is_the_mean_of_the_newest_of_every_worker() -> None:
    """Its last is that of their last ones, also where one took fewer steps."""
    lines = {"worker:0": ((1, 4.0), (2, 2.0), (3, 1.0)), "worker:1": ((1, 2.0), (2, 3.0))}
    assert LossCurve(lines, {}, None).mean == ((1, 3.0), (2, 2.5), (3, 2.0))
    assert LossCurve({}, {}, None).mean == ()


def test_updates_that_missed_versions_are_counted(trace: Trace) -> None:
    found = staleness(trace)
    assert (found.missed, found.num_variables) == ({0: 3, 1: 3}, 1)
    assert trace.span(found.worst).name == "update_w"


def test_ops_are_totalled_by_node_and_task(trace: Trace) -> None:
    first, second, *_ = op_totals(trace)
    assert (first.name, first.task, first.total) == ("mm", "worker:1", 3 * 700 + SLOW_NS)
    assert (second.name, second.task, second.count) == ("mm", "worker:0", 3)
    assert trace.span(first.slowest).step == 3


def test_the_graph_is_counted_at_every_stage(trace: Trace) -> None:
    graph = trace.graph(trace.step(1, "worker:1"))
    assert graph is not None
    assert graph.id == "g1"
    counts = graph_counts(graph)
    assert counts.nodes == {"full": 7, "pruned": 7, "placed": 7, "device": 7}
    assert (counts.devices, counts.pairs, counts.control_pairs) == (2, 3, 1)


def test_findings_are_ranked_and_proved(trace: Trace) -> None:
    findings = look_next(trace)
    assert [finding.key for finding in findings][:2] == ["slow_run", "other"]
    saved = {finding.key: finding.saved for finding in findings}
    assert saved.keys() >= {"other", "op", "update", "stale", "stall"}
    assert saved["stall"] == saved["op"] == 100, "mm runs 700 ns, others leave 100 of them to save"
    for finding in findings:
        assert all(trace.span(span).id for span in finding.proof)


def test_a_clean_run_has_no_faults(trace: Trace) -> None:
    assert faults(trace).none


def test_a_killed_task_comes_first(tmp_path: Path) -> None:
    killed = TaskRecord("worker:1", 9, outcome="killed", error="by SIGKILL at step 3")
    tasks = [TaskRecord("ps:0", 8, outcome="done"), killed]
    trace = sample_run(tmp_path / "killed.trace", tasks=tasks, outcome="failed")
    cause = faults(trace).cause
    assert cause is not None
    assert cause.key == "task"
    assert report_text(trace).splitlines()[1].startswith("worker:1 failed: by SIGKILL at step 3. ")


def test_a_trace_without_steps_says_so(tmp_path: Path) -> None:
    spans = [span._replace(step=0) for span in training_step(1)]
    trace = open_trace(write_trace(tmp_path / "x.trace", spans))
    seen = summarise(trace)
    assert [sentence.key for sentence in seen.headline] == ["headline.no_steps"]
    assert seen.typical is None
    assert "no training step" in report_text(trace)


def test_an_empty_trace_says_so(tmp_path: Path) -> None:
    write_manifest(tmp_path, Manifest("run-1"))
    assert "0 spans and no training step" in report_text(open_trace(tmp_path))


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_sentence_has_its_words(trace: Trace, lang: str) -> None:
    seen = summarise(trace)
    assert len(seen.sentences) >= 5
    for sentence in (*seen.headline, *seen.sentences):
        assert "{" not in sentence_text(sentence, "zh" if lang == "zh" else "en")
    for finding in seen.findings:
        assert all(finding_texts(finding, "zh" if lang == "zh" else "en"))


def test_the_report_says_what_the_page_says(trace: Trace) -> None:
    text = report_text(trace, 2)
    assert "3 steps took the loss, the mean of 2 workers, from 3.000 to 2.000." in text
    assert "Every step moved the variables once and their gradients once: 2 × 64 B." in text
    assert "Where the 1.40 µs of step 2 went, on worker:1" in text
    assert "launcher, pid 1: done" in text
    assert "collector, pid 2: done" in text
    with pytest.raises(TraceError, match="step 7 is not in this trace"):
        report_text(trace, 7)


def test_the_json_report_adds_up(trace: Trace) -> None:
    told = json.loads(report_json(trace, 3))
    for split in told["split"]:
        assert sum(split["parts_ns"].values()) == split["ns"]
    assert {split["task"] for split in told["split"]} == {"ps:0", "worker:0", "worker:1"}
    assert told["bytes"]["is_closed_form"]
    assert told["spans"]["recorded"] == told["spans"]["written"] == told["spans"]["read"]


def _failed_run(folder: Path, error: str, outcome: str = "killed") -> Trace:
    """worker:1 stopped in its third step; of its last span nothing but the start is known."""
    spans = [span for n in range(3) for span in training_step(n + 1, at=n * 1500)]
    last = spans[-1]._replace(flags=Flag.UNFINISHED)
    last_words = "was killed by SIGKILL" if outcome == "killed" else ""
    record = TaskRecord("worker:1", 9, outcome=outcome, error=last_words)
    told = {"tasks": [record], "outcome": "failed", "error": error}
    return open_trace(write_trace(folder, [*spans[:-1], last], **told))


def test_a_failed_run_says_first_which_task_died_how_and_when(tmp_path: Path) -> None:
    trace = _failed_run(tmp_path / "a.trace", "worker:1 in step 3: was killed by SIGKILL")
    [first, second] = summarise(trace).headline
    assert sentence_text(first, "en") == "worker:1 was killed by SIGKILL in step 3."
    assert sentence_text(first, "zh") == "worker:1 在第 3 步被 SIGKILL 终止。"
    assert first.step == 3
    assert trace.span(first.proof[0]).flags == ("unfinished",)
    assert second.key == "headline.steps"


def test_what_it_left_unfinished_is_what_to_look_at_next(tmp_path: Path) -> None:
    trace = _failed_run(tmp_path / "a.trace", "worker:1 in step 3: was killed by SIGKILL")
    says, remedy = finding_texts(look_next(trace)[0], "en")
    assert says == "1 span never ended, on ps:0."
    assert remedy == "update_w on ps:0 is where it stood."


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            "worker:0: shapes 2x3 and 1x2\nTraceback",
            "worker:0 failed in step 3: shapes 2x3 and 1x2.",
        ),
        ("no free port", "The run failed: no free port."),
        (
            "worker:1 in step 3: was stopped by SIGSTOP, and does not go on",
            "worker:1 was stopped by SIGSTOP in step 3, and did not go on.",
        ),
    ],
)
def test_an_error_is_told_by_its_first_line(tmp_path: Path, error: str, said: str) -> None:
    trace = _failed_run(tmp_path / "a.trace", error, outcome="done")
    assert sentence_text(summarise(trace).headline[0], "en") == said


def test_where_a_trace_has_no_steps_its_longest_spans_are_named(tmp_path: Path) -> None:
    spans = [span._replace(step=0) for span in training_step(1)]
    trace = open_trace(write_trace(tmp_path / "x.trace", spans))
    findings = [f for f in look_next(trace) if f.key == "longest"]
    assert [f.values["name"] for f in findings] == ["mm", "update_w", "w/read"]


def test_where_ops_were_not_recorded_nothing_is_said_of_them(tmp_path: Path) -> None:
    """What is left of a step recorded with --detail rpc is not the runtime's idleness."""
    folder, scratch = tmp_path / "rpc.trace", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    write_manifest(folder, Manifest("run-1", workload="digits-mlp"))
    clock = FakeClock(1_700_000_000_000_000_000)
    worker = Recorder(scratch, "worker:0", clock=clock)
    for number in (1, 2, 3):
        start = clock.now_ns() + number * 1_000_000
        root = worker.site("session.run", name="session.run")
        worker.writer().record(root, trace_of_step("run-1", "worker:0", number), start, start + 900)
    sink = Sink(folder, scratch)
    sink.turn(clock.now_ns(), at_end=True)
    sink.tell()
    sink.close()
    trace = open_trace(folder)
    said = report_text(trace)
    assert "Its ops were not recorded" in said
    assert "between ops" not in said
    assert "computing" not in said
    assert not [finding for finding in look_next(trace) if finding.key == "other"]
