"""Runs side by side: known ones, and two that the real runtime recorded."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.store.sample_trace import EPOCH, PS, WORKER, training_step, write_trace
from tracer.cli import main as tracer
from tracer.model.trace_folder import Flag
from vizdist.analysis.bytes_moved import bytes_moved
from vizdist.analysis.compare import Comparison, compare, largest_gap
from vizdist.analysis.compare_told import told
from vizdist.analysis.medians import LEAST
from vizdist.analysis.op_totals import op_totals
from vizdist.analysis.typical_step import typical_step
from vizdist.components.compare_cards import split_card
from vizdist.components.compare_words import sentence
from vizdist.components.markup import markup
from vizdist.components.one_clock import clock_card
from vizdist.i18n import LANGUAGES, Lang
from vizdist.store.columns import SpanRecord
from vizdist.store.trace import Trace, open_trace

LATE = 5_000


def words(found: Comparison, lang: Lang = "en") -> list[str]:
    parts = [sentence(said, lang) for said in told(found)]
    texts = ["".join(str(getattr(p, "children", p)) for p in one) for one in parts]
    return [text.replace("\u00a0", " ") for text in texts]


def known(
    folder: Path, *, late: int = 0, steps: int = LEAST, jitter: int = 0, **manifest: object
) -> Trace:
    """Steps of 1 µs, whose op mm takes `late` ns more, and `jitter` more from step to step."""
    numbers = range(1, steps + 1)
    spans = [span for number in numbers for span in _step(number, late + jitter * number)]
    asked = {"workload": "digits-mlp", "steps": steps} | manifest
    return open_trace(write_trace(folder, spans, **asked))


def _step(number: int, late: int) -> Iterator[SpanRecord]:
    """read 100-200, mm 200-600, update 600-800, each as soon as the one before has ended."""
    start = EPOCH + number * 20_000
    step: dict[str, Any] = {"step": number, "trace_hi": 7, "trace_lo": number}
    end = start + 1000 + late
    root = number * 100
    yield SpanRecord(
        "worker:0", "client", start, end, "step", "session.run", span=root, **step
    )  # fmt: skip
    ops = (("w/read", "ReadVariableOp", 100), ("mm", "MatMul", 400 + late), ("w/up", "Assign", 200))
    at = start + 100
    for place, (name, op, took) in enumerate(ops, 1):
        yield SpanRecord(
            "worker:0", "executor", at, at + took, name, "op.run", op=op, ready=at,
            span=root + place, parent=root, **step,
        )  # fmt: skip
        at += took


def test_the_same_run_twice_has_no_difference(tmp_path: Path) -> None:
    trace = known(tmp_path / "a.trace")
    found = compare([trace, trace])
    assert found.is_alike
    assert words(found) == [
        "No difference: A and B are alike in time, bytes, graph, loss and set-up."
    ]
    assert words(found, "zh") == ["没有差别：A 与 B 的时间、字节数、计算图、损失和设置都相同。"]


def test_an_op_made_slower_is_named(tmp_path: Path) -> None:
    found = compare([known(tmp_path / "a.trace"), known(tmp_path / "b.trace", late=LATE)])
    first, *_ = words(found)
    assert first == "B takes 6.00 µs a step, 6.00 times as long as A: mm runs 5.00 µs longer."
    assert "mm" in words(found, "zh")[0]
    swapped = compare([found.runs[1].trace, found.runs[0].trace])
    assert words(swapped)[0].startswith("A takes 6.00 µs a step, 6.00 times as long as B")


def test_of_few_steps_nothing_is_concluded(tmp_path: Path) -> None:
    few = {"steps": LEAST - 1}
    found = compare([known(tmp_path / "a.trace"), known(tmp_path / "b.trace", late=LATE, **few)])
    assert words(found)[0] == (
        "Fewer than 5 steps of B ended, too few to tell which run is slower: a step alone is often "
        "slow by chance."
    )
    assert words(found, "zh")[0].startswith("B 完成的步不足 5 步")
    [halves] = [fact.values for fact in found.facts if fact.key == "quartiles"]
    assert halves == ("1.00 µs – 1.00 µs", ""), "of few there is no middle half"
    of_one = compare([run.trace for run in found.runs], 2)
    assert words(of_one)[0] == (
        "Step 2 takes 6.00 µs in B, 6.00 times as long as in A: mm runs 5.00 µs longer."
    )


def test_what_steps_vary_by_themselves_is_no_difference(tmp_path: Path) -> None:
    noisy = known(tmp_path / "a.trace", jitter=400)
    [slower, same] = (
        compare([noisy, known(tmp_path / f"{late}.trace", jitter=400, late=late)])
        for late in (LATE, 500)
    )
    assert words(slower)[0].startswith("B takes 7.20 µs a step, 3.27 times as long as A")
    assert words(same)[0] == (
        "Which of A and B is slower cannot be told: their steps take 2.20 µs, 2.70 µs, and vary by "
        "as much by themselves."
    )


def test_the_task_that_became_slow_has_a_row_and_the_one_that_did_not_has_none(
    tmp_path: Path,
) -> None:
    spans = [
        span for number in range(1, LEAST + 1) for task in ("worker:0", "worker:1")
        for span in _of(task, number, LATE if task == "worker:1" else 0)
    ]  # fmt: skip
    plain = [
        span for number in range(1, LEAST + 1) for task in ("worker:0", "worker:1")
        for span in _of(task, number, 0)
    ]  # fmt: skip
    paths = (write_trace(tmp_path / f"{n}.trace", own) for n, own in enumerate((plain, spans)))
    found = compare([*map(open_trace, paths)])
    assert [one.task for one in found.tasks if one.differs] == ["worker:1"]
    assert words(found)[0].startswith("B takes 6.00 µs a step, 6.00 times as long as A")
    text = markup(split_card(found, "en"))
    assert text.count("worker:1</th>") == 1
    assert "worker:0</th>" not in text
    alike = markup(split_card(compare([found.runs[0].trace] * 2), "en"))
    assert "No task&#x27;s steps differ by more than they vary by themselves." in alike


def _of(task: str, number: int, late: int) -> Iterator[SpanRecord]:
    """The step of one of several workers, which each have requests of their own."""
    apart = 50_000 * int(task[-1])
    for span in _step(number, late):
        yield span._replace(
            task=task, trace_lo=number + apart, span=span.span + apart,
            parent=span.parent and span.parent + apart,
        )  # fmt: skip


def test_what_an_op_has_of_the_critical_path_grows_by_its_delay(tmp_path: Path) -> None:
    found = compare([known(tmp_path / "a.trace"), known(tmp_path / "b.trace", late=LATE)])
    before, now = ({key.name: ns for key, ns in run.path.items()} for run in found.runs)
    assert now["mm"] - before["mm"] == LATE
    for run in found.runs:
        assert sum(run.path.values()) == run.took


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ({"seed": 7}, "They differ in seed (0 against 7)."),
        ({"host": "tower"}, "They differ in host (– against tower)."),
        ({"workload": "digits-cnn"}, "They differ in workload (digits-mlp against digits-cnn)."),
        ({"options": {"batch": "32"}}, "They differ in batch."),
        ({"command": ["tracer", "run", "x", "--json", "--transport", "local"]},
         "They differ in --transport."),
        ({"versions": {"torch": "2.8.0"}}, "They differ in torch."),
    ],
)  # fmt: skip
def test_what_was_set_up_otherwise_is_said_in_the_sentence(
    tmp_path: Path, manifest: dict[str, Any], said: str
) -> None:
    found = compare([known(tmp_path / "a.trace"), known(tmp_path / "b.trace", **manifest)])
    assert words(found)[-1] == said
    assert not found.is_alike


def test_where_much_differs_every_name_is_still_said(tmp_path: Path) -> None:
    other: dict[str, Any] = {
        "seed": 7,
        "host": "tower",
        "options": {"batch": "1", "lr": "2"},
        "strategy": "x",
    }
    found = compare([known(tmp_path / "a.trace"), known(tmp_path / "b.trace", steps=2, **other)])
    assert words(found)[-1] == "They differ in strategy, host, steps, seed, batch, lr."


def test_a_step_that_is_asked_for_is_shown_and_another_where_it_is_not(tmp_path: Path) -> None:
    traces = [known(tmp_path / "a.trace"), known(tmp_path / "b.trace", steps=2)]
    found = compare(traces, 2)
    assert [run.step and run.step.number for run in found.runs] == [2, 2]
    assert found.numbers == (1, 2)
    [first, second] = compare(traces, 3).runs
    assert first.step is not None
    assert second.step is not None
    assert (first.step.number, second.step.number) == (3, 1)


def broken(folder: Path, *, ends: int = 3) -> Trace:
    """The step after the last whole one was cut off after 40 µs, of which no time can be told."""
    spans = [span for number in range(1, ends) for span in _step(number, 0)]
    cut = [span._replace(flags=Flag.UNFINISHED) for span in _step(ends, 40_000)]
    told = {"workload": "digits-mlp", "outcome": "failed", "error": "worker:0 in step 3: no value"}
    return open_trace(write_trace(folder, [*spans, *cut], **told))


def test_a_step_that_did_not_end_has_no_time_and_no_ratio(tmp_path: Path) -> None:
    found = compare([known(tmp_path / "a.trace"), broken(tmp_path / "b.trace")], 3)
    assert words(found)[0] == ("Step 3 of B did not end, so it has no step time to compare.")
    assert not any("times as long" in said or "as long in each" in said for said in words(found))
    assert words(found, "zh")[0] == "B 的第 3 步没有结束，因此没有可对比的步时长。"
    assert (found.runs[1].took, found.runs[1].split, found.runs[1].path) == (0, None, {})
    assert found.runs[1].lanes, "what is known of it is drawn all the same"
    text = markup(clock_card(found, "en"))
    assert "did not end" in text
    assert "41.0 µs</span>" not in text
    whole = compare([found.runs[0].trace, found.runs[1].trace], 2)
    assert words(whole)[0] == "Step 2 takes as long in each of A and B: 1.00 µs, 1.00 µs."


def test_both_pages_group_a_critical_path_by_one_rule(tmp_path: Path) -> None:
    trace = known(tmp_path / "a.trace")
    [run, _] = compare([trace, trace], 2).runs
    typical = typical_step(trace)
    assert typical is not None
    told: Counter[tuple[str, str]] = Counter()
    for stretch in typical.stretches:
        told[stretch.name, stretch.part] += stretch.total
    assert dict(told) == run.path


def test_a_trace_without_steps_stands_beside_one_with(tmp_path: Path) -> None:
    plain = [span._replace(step=0) for span in training_step(1)]
    foreign = open_trace(write_trace(tmp_path / "x.trace", plain, run_id=""))
    found = compare([known(tmp_path / "a.trace"), foreign])
    assert words(found) == [
        "B holds no step, so there is no step time to compare.",
        "How B was set up is not told.",
    ]
    ours = found.runs[0].trace
    assert words(compare([ours, foreign, ours]))[-2:] == [
        "How B was set up is not told.",
        "A and C were set up alike.",
    ]
    assert found.graphs is None
    assert found.runs[1].lanes == ()
    assert words(compare([foreign, foreign])) == [
        "No difference: A and B are alike in time, bytes, graph, loss and set-up."
    ]


def test_losses_are_farthest_apart_where_they_are() -> None:
    assert largest_gap([[(1, 2.0), (2, 1.5)], [(1, 2.0), (2, 1.0), (3, 9.0)]]) == (2, 0.5)
    assert largest_gap([[(1, 2.0)], [(2, 2.0)]]) is None
    assert largest_gap([]) is None


def test_a_pair_of_devices_has_the_bytes_of_a_step_that_uses_it(tmp_path: Path) -> None:
    """Two workers, each with steps of its own: none of them moves half of what it moves."""
    other = WORKER.replace("task:0", "task:1")
    first = [span for number in (1, 2) for span in training_step(number, at=number * 1500)]
    second = [
        span._replace(
            task=span.task.replace("worker:0", "worker:1"), key=span.key.replace(WORKER, other),
            trace_lo=9, span=span.span + 5000,
            parent=span.parent and span.parent + 5000, link=span.link and span.link + 5000,
        )
        for span in training_step(1, at=9000)
    ]  # fmt: skip
    trace = open_trace(write_trace(tmp_path / "x.trace", [*first, *second]))
    assert len(trace.steps) == 3
    [run] = compare([trace]).runs
    assert run.pairs == {(PS, WORKER): 256, (PS, other): 256}
    assert run.moved.per_step == 256


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, Trace]:
    """digits-mlp on one device, and with its variables on a ps."""
    folder = tmp_path_factory.mktemp("runs")
    flags = ["--steps", "3", "--in-process"]
    ps = ["parameter_server_v1", "--ps", "1", "--workers", "1"]
    for name, how in (("one", ["one_device"]), ("ps", ps)):
        out = ["--out", str(folder / f"{name}.trace")]
        assert tracer(["run", "digits-mlp", "--strategy", *how, *flags, *out]) == 0
    return open_trace(folder / "one.trace"), open_trace(folder / "ps.trace")


def test_a_graph_whose_variables_moved_to_a_ps_is_the_same_graph_elsewhere(
    recorded: tuple[Trace, Trace],
) -> None:
    found = compare(recorded)
    assert found.graphs is not None
    assert not found.graphs.nodes
    assert not found.graphs.edges
    moved = {
        key.name: where for key, where in found.graphs.moved.items() if key.op == "VarHandleOp"
    }
    assert set(moved) == {"fc1/weight", "fc1/bias", "fc2/weight", "fc2/bias"}
    assert set(moved.values()) == {("CPU:0", "ps:0 CPU:0")}
    assert len(found.graphs.pairs) == 8
    assert all(where == (None, "") for where in found.graphs.pairs.values())


def test_each_recorded_run_keeps_its_own_numbers(recorded: tuple[Trace, Trace]) -> None:
    found = compare(recorded, 2)
    for run, trace in zip(found.runs, recorded, strict=True):
        assert run.step == trace.step(2)
        assert run.split is not None
        assert run.split.total == run.took == sum(run.path.values())
        assert sum(run.pairs.values()) == round(bytes_moved(trace).per_step)
        for lane in run.lanes:
            assert (lane.edges[0], lane.edges[-1]) == (run.step.start, run.step.end)
        on_path = {key.name: ns for key, ns in run.path.items() if key.part == "compute"}
        took = {one.name: one.total for one in op_totals(trace, run.step)}
        assert on_path
        assert all(ns <= took[name] for name, ns in on_path.items())


@pytest.mark.parametrize("lang", LANGUAGES)
def test_strategies_of_the_same_seed_are_told_apart_in_words(
    recorded: tuple[Trace, Trace], lang: Lang
) -> None:
    said = words(compare(recorded), lang)
    assert len(said) == 3
    assert "18.8 KiB" in said[1]
    differ = {
        "en": "They differ in strategy, tasks, sync, backup_workers",
        "zh": "不同之处：策略、任务、sync、backup_workers",
    }
    assert said[2].startswith(differ[lang])
