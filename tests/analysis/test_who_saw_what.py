"""Who saw which example, read back from spans that the real pipelines recorded."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.data_run import data_run
from tests.strategies.inputs_golden import elements, files, rows
from tracer.model.example_ids import CAP, decode, encode
from tracer.strategies.inputs.dataset import Rows
from vizdist.analysis import who_saw_what as module
from vizdist.analysis.data_told import headline, sentences
from vizdist.analysis.example_grid import MOST_EXAMPLES, example_grid
from vizdist.analysis.mean_of_means import mean_of_means
from vizdist.analysis.who_saw_what import Data, has_data, num_thrown, who_saw_what


@pytest.fixture
def told(tmp_path: Path) -> Callable[..., Data]:
    def run(*args: Any, **options: Any) -> Data:
        place = tmp_path / f"{len(list(tmp_path.iterdir()))}.trace"
        return who_saw_what(data_run(place, *args, **options), None)

    return run


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([], ""),
        ([7], "7"),
        ([0, 1, 2, 3, 64], "0-3,64"),
        ([5, 3, 9], "5,3,9"),
        ([1_000_003, 1_000_001, 7_000_009], "b64:Q0IPAEFCDwDJz2oA"),
    ],
)
def test_ids_are_told_shortly_and_read_back(ids: list[int], text: str) -> None:
    assert encode(ids) == text
    assert decode(text) == ids


def test_more_ids_than_a_span_tells_leave_a_hash_that_tells_them_apart() -> None:
    many = list(range(CAP + 1))
    assert encode(many).startswith("sha256:")
    assert encode(many) != encode(many[::-1])
    assert decode(encode(many)) is None
    assert decode(encode(many[:CAP])) == many[:CAP]


@pytest.mark.parametrize(
    "text",
    ["0-5000000", "0-4095,7", "5-3", "-1", "1-", "x", ",", "3000000000", "b64:AAA", "b64:AAAA",
     "b64://///w==", f"b64:{'AAAAAAAAAAAAAAAA' * 1366}"],
)  # fmt: skip
def test_what_the_recorder_never_writes_is_read_as_not_told(text: str) -> None:
    assert decode(text) is None


def test_more_examples_than_a_span_tells_are_counted_and_no_figure_is_made_up(told: Any) -> None:
    data = told(rows(elements(12_000), 12_000))
    assert [(one.rows, one.discarded, one.num_discarded) for one in data.taken] == [
        (6000, None, 6000)
    ] * 2
    assert data.num_seen is None
    said = {each.key: each.values for each in sentences(data, 1)}
    assert said["thrown"] == {"thrown": "12,000", "read": "24,000"}
    assert not {"trained", "trained_each", "trained_once"} & said.keys()
    one = told(rows(elements(12_000), 12_000), workers=1)
    assert headline(one).values["seen"] == "–"
    untold = [replace(taken, num_discarded=None) for taken in data.taken]
    assert num_thrown(untold) is None


def test_of_a_long_run_the_steps_read_are_named_and_nothing_is_said_of_the_rest(
    told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 4)
    dataset = Rows(elements(24), 8, shuffle=1)
    data = told(dataset, workers=1, steps=20)
    assert (len(data.by_step), data.steps, data.is_window) == (2, 20, True)
    said = {each.key: each.values for each in sentences(data, 1)}
    assert said["window"] == {"read": "2", "steps": "20", "first": "1", "last": "2"}
    assert said.keys() == {"window", "batches_read", "input_time"}
    assert headline(data).values["steps"] == "2 / 20"
    assert not example_grid(data, 1).unseen


def test_each_worker_of_data_gets_its_slice_and_throws_the_others_away(told: Any) -> None:
    data = told()
    first, second = data.by_step[1]
    assert (first.task, first.asked, first.effective, first.workers) == (
        "worker:0",
        "AUTO",
        "DATA",
        2,
    )
    assert [part.ids for part in (*first.parts, *second.parts)] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert (first.discarded, second.discarded) == ((4, 5, 6, 7), (0, 1, 2, 3))
    assert (first.rows, first.global_batch, data.steps) == (4, 8, 3)


def test_the_grid_has_a_step_for_every_example_and_what_was_read_for_nothing(told: Any) -> None:
    grid = example_grid(told(), 2)
    assert grid.examples == tuple(range(24))
    assert grid.rows == (("worker:0", 0), ("worker:1", 0))
    of_first = {e: cell for (row, e), cell in grid.cells.items() if row[0] == "worker:0"}
    assert {e: cell.step for e, cell in of_first.items()} == {
        8 * slot + at: slot + 1 for slot in range(3) for at in range(4)
    }
    assert [e for e, cell in of_first.items() if cell.is_now] == [8, 9, 10, 11]
    assert grid.discarded[("worker:0", 0), 4] == 1
    assert not grid.unseen
    assert grid.is_whole


def test_off_trains_every_example_twice_in_one_step(told: Any) -> None:
    data = told(rows(elements(8), 8), autoshard="OFF")
    grid = example_grid(data, 1)
    assert all(cell.is_twice for cell in grid.cells.values())
    keys = {said.key: said.values for said in sentences(data, 1)}
    assert keys["twice"] == {"example": 0, "step": "1", "rows": "worker:0, worker:1", "count": 8}
    assert headline(data).key == "head.off"


def test_examples_that_no_batch_holds_are_named(told: Any) -> None:
    data = told(rows(elements(20), 8, drop_remainder=True, shuffle=2))
    trained = {example for part in data.parts for example in part.ids or ()}
    assert len(trained) == 16
    [gap] = [said for said in sentences(data, 1) if said.key == "gaps"]
    assert example_grid(data, 1).unseen == tuple(
        example for example in range(min(trained), max(trained)) if example not in trained
    )
    assert gap.values["count"] == len(example_grid(data, 1).unseen)


def test_of_a_large_data_set_the_grid_shows_the_examples_of_the_step(told: Any) -> None:
    data = told(rows(elements(400), 200), workers=1, replicas=2)
    grid = example_grid(data, 2)
    assert grid.examples == tuple(range(200, 200 + MOST_EXAMPLES))
    assert (grid.left_out, grid.is_whole) == (200 - MOST_EXAMPLES, False)


def test_a_replica_without_examples_and_a_worker_at_its_end_are_two_things(told: Any) -> None:
    cut = told(rows(elements(9), 4), workers=1, replicas=2)
    assert [part.rows for part in cut.by_step[3][0].parts] == [1, 0]
    assert [said.key for said in sentences(cut, 1)][-1] == "empty"


def test_a_worker_at_the_end_of_its_files_is_named_with_the_steps(told: Any) -> None:
    data = told(rows(files(6, 2), 4), autoshard="FILE")
    [ended] = [said for said in sentences(data, 1) if said.key == "ended"]
    assert ended.values == {"steps": "2, 3", "task": "worker:1", "replica": 0, "count": 2}
    assert len(ended.proof) == 2
    assert headline(data).key == "head.file"


def test_a_refused_policy_is_told_in_the_words_of_the_error(told: Any) -> None:
    data = told(autoshard="FILE")
    assert not data.taken
    assert [one.task for one in data.refused] == ["worker:0", "worker:1"]
    assert "Found an unshardable source dataset" in data.refused[0].says
    assert headline(data).key == "head.refused"


def test_mean_of_means_weighs_a_short_replica_too_much(tmp_path: Path) -> None:
    dataset = rows(elements(7), 7)
    trace = data_run(
        tmp_path / "m.trace", dataset, workers=1, replicas=4, losses=["1.2,0.8,1.0,3.0"]
    )
    means = mean_of_means(trace, who_saw_what(trace, None), 1)
    assert means
    assert (means.kind, [mean.examples for mean in means.means]) == ("replicas", [2, 2, 2, 1])
    assert means.of_means == pytest.approx(1.5)
    assert means.of_examples == pytest.approx((2.4 + 1.6 + 2.0 + 3.0) / 7)


def test_a_loss_that_is_no_number_has_no_row_beside_the_others(tmp_path: Path) -> None:
    dataset = rows(elements(8), 8)
    trace = data_run(tmp_path / "m.trace", dataset, workers=1, replicas=4, losses=["1,oops,nan,3"])
    means = mean_of_means(trace, who_saw_what(trace, None), 1)
    assert means
    assert [(mean.number, mean.loss) for mean in means.means] == [(0, 1.0), (3, 3.0)]


def test_of_one_replica_the_means_are_those_of_its_steps(tmp_path: Path) -> None:
    trace = data_run(tmp_path / "m.trace", rows(elements(10), 4), workers=1, losses=["4", "2", "9"])
    means = mean_of_means(trace, who_saw_what(trace, None), 1)
    assert means
    assert (means.kind, [mean.examples for mean in means.means]) == ("steps", [4, 4, 2])
    assert means.of_means == 5.0
    assert means.of_examples == pytest.approx(4.2)
    assert not means.is_even


def test_where_workers_step_together_the_loss_of_a_step_is_that_of_the_global_batch(
    tmp_path: Path,
) -> None:
    trace = data_run(tmp_path / "m.trace", rows(elements(12), 8), losses=["4", "1"])
    means = mean_of_means(trace, who_saw_what(trace, None), 1)
    assert means
    assert (means.kind, [mean.examples for mean in means.means]) == ("steps", [8, 4])
    assert means.of_examples == 3.0


def test_a_trace_without_data_has_none(tmp_path: Path) -> None:
    assert not has_data(data_run(tmp_path / "none.trace", steps=0))
