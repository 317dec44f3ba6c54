"""The Summary says what its spans say: another trace, and a sentence changes or is not said."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.analysis import sample_run as sample
from tests.analysis.test_what_if import LINKS, NODES, two_branches
from tests.analysis.timed_run import Timed, timed_run
from tests.components.reading import text
from tests.store.sample_trace import training_step, write_trace
from tracer.cli import main as tracer
from tracer.model.trace_folder import Flag
from vizdist.analysis.bytes_moved import bytes_moved
from vizdist.analysis.look_next import Finding, look_next
from vizdist.analysis.report import finding_texts, report_text, sentence_text
from vizdist.analysis.run_facts import outcomes
from vizdist.analysis.sentence import Sentence
from vizdist.analysis.steps import shown_step
from vizdist.analysis.summary import summarise
from vizdist.components.compare_words import fact_name
from vizdist.components.run_pictures import loss_line, loss_says
from vizdist.i18n import t
from vizdist.i18n.units import duration
from vizdist.store.columns import SpanRecord
from vizdist.store.trace import Trace, open_trace


def sentence(trace: Trace, key: str) -> Sentence | None:
    """The one whose key begins so."""
    found = [said for said in summarise(trace).sentences if said.key.startswith(key)]
    assert len(found) <= 1
    return found[0] if found else None


def said(trace: Trace, key: str) -> str:
    found = sentence(trace, key)
    return sentence_text(found, "en") if found else ""


def finding(trace: Trace, key: str) -> Finding | None:
    return next((one for one in look_next(trace) if one.key == key), None)


@pytest.fixture
def branches(tmp_path: Path) -> Callable[..., Trace]:
    """Two steps over both workers on a clock that moves only by what nodes and links take."""

    def run(name: str, links: float = 1, **nodes: int) -> Trace:
        taken = {ends: round(ns * links) for ends, ns in LINKS.items()}
        timed = Timed(NODES | nodes, taken)
        return timed_run(tmp_path / name, two_branches(), "join", timed)

    return run


def test_an_op_that_runs_five_times_longer_is_what_the_critical_path_goes_to(
    branches: Callable[..., Trace],
) -> None:
    before, after = branches("before"), branches("after", right=5 * NODES["right"])
    assert "c on its way to worker:1" in said(before, "path.")
    assert "right on worker:1" in said(after, "path.")
    told = sentence(after, "path.")
    assert told is not None
    assert {after.span(span).name for span in told.proof} == {"right"}


def test_the_op_to_look_at_is_the_one_without_which_a_step_is_shortest_to_the_nanosecond(
    branches: Callable[..., Trace],
) -> None:
    trace, without = branches("with", right=55), branches("without", right=0)
    found = finding(trace, "op")
    assert found is not None
    assert found.values["name"] == "right"
    assert found.saved == trace.step(2).duration - without.step(2).duration
    assert [trace.span(span).name for span in found.proof] == ["right"]


def test_what_the_path_goes_to_is_followed_by_what_a_step_would_take_without_it(
    branches: Callable[..., Trace],
) -> None:
    trace, without = branches("with", right=55), branches("without", right=0)
    told = sentence(trace, "what_if.")
    assert told is not None
    assert (told.page, told.values["name"]) == ("graph", "right")
    assert told.values["would"] == str(duration(without.step(2).duration))
    assert [trace.span(span).name for span in told.proof] == ["right"]


def test_an_op_that_others_hide_is_not_worth_a_look(branches: Callable[..., Trace]) -> None:
    """`aside` runs longest of all, yet nothing would come sooner without it."""
    trace = branches("x", links=20, aside=50)
    found = finding(trace, "op")
    assert found is None or found.values["name"] != "aside"


def test_what_is_ranked_first_saves_most(branches: Callable[..., Trace]) -> None:
    found = look_next(branches("x"))
    saved = [one.saved for one in found]
    assert saved == sorted(saved, reverse=True)
    assert all(ns > 0 for ns in saved)


def test_without_waits_nobody_is_said_to_stand_idle_for_a_tensor(
    branches: Callable[..., Trace],
) -> None:
    slow, fast = branches("slow", links=10), branches("fast", links=0)
    stall = finding(slow, "stall")
    assert stall is not None
    says, remedy = finding_texts(stall, "en")
    assert "stood idle" in says
    assert "on its way" in says or "to reach" in says
    assert remedy
    assert finding(slow, "small_transfer") is not None
    assert finding(fast, "small_transfer") is None
    again = finding(fast, "stall")
    assert again is None or "to reach" not in finding_texts(again, "en")[0]


def steps_of(tmp_path: Path, name: str, change: Callable[[SpanRecord], SpanRecord]) -> Trace:
    spans = [change(span) for n in range(5) for span in training_step(n + 1, at=n * 9000)]
    return open_trace(write_trace(tmp_path / name, spans))


def test_where_all_steps_take_as_long_none_is_said_to_stand_out(tmp_path: Path) -> None:
    def longer(span: SpanRecord) -> SpanRecord:
        is_it = span.step == 3 and span.name in ("mm", "step 3")
        return span._replace(end=span.end + 4000) if is_it else span

    uneven = steps_of(tmp_path, "uneven.trace", longer)
    text = said(uneven, "outlier.")
    assert text == "Step 3 took 5.00 µs, because worker:0 ran mm 4.00 µs longer."
    told = sentence(uneven, "outlier.")
    assert told is not None
    assert [uneven.span(span).name for span in told.proof] == ["mm"]
    assert said(steps_of(tmp_path, "even.trace", lambda span: span), "outlier.") == ""


def test_of_a_run_of_one_step_none_is_called_median_or_typical(tmp_path: Path) -> None:
    one = open_trace(write_trace(tmp_path / "one.trace", training_step(1)))
    assert said(one, "median").startswith("The step took 1.00 µs on worker:0")
    assert said(one, "path.").startswith("The critical path of the step crosses 2 tasks")
    assert said(one, "bytes").startswith("The step moved 256 B.")
    assert said(steps_of(tmp_path, "x.trace", lambda span: span), "median").startswith("The median")


def test_shares_that_make_more_than_a_whole_say_what_each_is_a_share_of(tmp_path: Path) -> None:
    """Beside the path an op runs most of the time; on it next to nothing runs."""

    def busy(span: SpanRecord) -> SpanRecord:
        is_it = span.name == "mm"
        return span._replace(start=span.start - 190, end=span.end + 390) if is_it else span

    trace = steps_of(tmp_path, "busy.trace", busy)
    headline = sentence_text(summarise(trace).headline[1], "en")
    assert headline == "A step takes 1.00 µs; ops run in 78.0 % of that time."
    told = said(trace, "path.")
    assert told.endswith("63.0 % of it is the runtime of ps:0 between ops on that path.")


def test_half_the_bytes_are_another_sentence_and_no_longer_the_formula(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sample.sample_run(tmp_path / "whole.trace")
    assert "moved 128 B" in said(whole, "bytes")
    assert sentence(whole, "closed_form") is not None
    monkeypatch.setattr(sample, "W_BYTES", sample.W_BYTES // 2)
    half = sample.sample_run(tmp_path / "half.trace")
    assert "moved 64 B" in said(half, "bytes")
    assert sentence(half, "closed_form") is None
    assert sentence(half, "not_closed_form") is not None


def test_a_pair_of_tasks_has_the_bytes_of_the_steps_that_use_it(tmp_path: Path) -> None:
    """Both workers run steps of their own: a step of worker:1 moves nothing to worker:0."""
    trace = sample.sample_run(tmp_path / "x.trace")
    moved = bytes_moved(trace)
    assert moved.num_steps == 6
    tasks = {(a, b) for a in ("ps:0", "worker:0", "worker:1") for b in ("ps:0",) if a != b}
    assert moved.per_step_of_tasks == {
        pair: sample.W_BYTES for a, b in tasks for pair in ((a, b), (b, a))
    }
    assert {int(line.split()[-1]) for line in matrix(trace)} == {sample.W_BYTES, 0}
    assert "mean over the steps that move something" in t("summary.bytes_note", "en")


def matrix(trace: Trace) -> list[str]:
    """Last column of the report's table: to worker:1."""
    lines = report_text(trace).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Bytes per step that moves"))
    return [line.removesuffix(" B") for line in lines[at + 2 : at + 5]]


def test_a_run_that_went_wrong_opens_on_the_step_in_which_it_did(tmp_path: Path) -> None:
    def run(name: str, torn: int, **told: object) -> int | None:
        spans = [
            span._replace(flags=Flag.UNFINISHED) if span.step == torn else span
            for n in range(5)
            for span in training_step(n + 1, at=n * 9000)
        ]
        return shown_step(open_trace(write_trace(tmp_path / name, spans, **told)), None)

    whole = run("whole.trace", 0, outcome="done")
    assert whole not in (None, 5)
    failed = {"outcome": "failed", "error": "worker:0 in step 5: no value"}
    assert run("failed.trace", 5, **failed) == 5
    assert run("lost.trace", 5, outcome="interrupted") == 5
    assert run("mended.trace", 2, outcome="done") == whole, "its client went on after that"
    assert run("running.trace", 5, outcome="running") == whole, "nothing is wrong with it yet"


def test_updates_from_fresh_values_are_not_called_stale(tmp_path: Path) -> None:
    stale = sample.sample_run(tmp_path / "x.trace")
    assert said(stale, "stale").startswith("Of 6 updates of 1 variable, 3 were made from older")
    fresh = steps_of(tmp_path, "fresh.trace", lambda span: span)
    assert said(fresh, "stale") == ""


def test_every_sentence_of_a_real_run_names_its_spans_or_what_it_was_read_from(
    tmp_path: Path,
) -> None:
    out = tmp_path / "run.trace"
    flags = ["--ps", "1", "--workers", "2", "--steps", "4", "--in-process", "--out", str(out)]
    assert tracer(["run", "digits-mlp", "--strategy", "parameter_server_v1", *flags]) == 0
    trace = open_trace(out)
    seen = summarise(trace)
    assert {one.key.partition(".")[0] for one in seen.sentences} >= {"path", "bytes", "closed_form"}
    for one in (*seen.headline, *seen.sentences):
        assert one.source or one.proof
        assert all(trace.span(span).id for span in one.proof if span)
    for found in seen.findings:
        assert found.proof
        assert all(trace.span(span).id for span in found.proof)


def test_every_page_tells_loss_and_metric_as_the_run_itself_printed_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two workers the mean of their losses; of wide-deep R², which is no accuracy."""
    out = tmp_path / "run.trace"
    flags = ["--workers", "2", "--steps", "3", "--in-process", "--out", str(out)]
    assert tracer(["run", "wide-deep", "--strategy", "parameter_server_v1", *flags]) == 0
    printed = {line[:12].strip(): line[12:].strip() for line in capsys.readouterr().out.split("\n")}
    loss, whose = printed["loss"].split(maxsplit=1)
    assert whose == "(mean of 2 workers)"
    assert "accuracy" not in printed

    trace = open_trace(out)
    seen = summarise(trace)
    headline = sentence_text(seen.headline[0], "en")
    assert headline.startswith("3 steps took the loss, the mean of 2 workers, from ")
    assert float(loss) == pytest.approx(seen.loss.mean[-1][1], rel=1e-3)
    assert headline.endswith(f" to {seen.loss.mean[-1][1]:.3f}.")
    assert f"the model's R² is {printed['R²']}:" in sentence_text(seen.sentences[-1], "en")
    facts = {fact_name(fact, "en"): fact.values for fact in outcomes([trace], [None])}
    assert facts["R²"] == (printed["R²"],)
    assert text(loss_line(seen.loss, "en")) == f"R² {printed['R²']}"
    assert "the mean of 2 workers" in loss_says(seen.loss, "en")
