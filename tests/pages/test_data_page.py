"""The Data page is laid out once, also where its first batch is still to come."""

from dataclasses import replace
from pathlib import Path

from tests.analysis.data_run import data_run
from tests.components.reading import found, text
from tests.strategies.inputs_golden import elements, files, rows
from vizdist.analysis.data_told import UNKNOWN
from vizdist.analysis.who_saw_what import who_saw_what
from vizdist.components.data_cards import policies
from vizdist.components.view import View
from vizdist.pages import data
from vizdist.store.index import path_id
from vizdist.store.library import Library


def test_a_run_that_has_taken_no_batch_yet_has_the_chart_that_batches_will_fill(
    tmp_path: Path,
) -> None:
    trace = data_run(tmp_path / "early.trace", rows(files(8), 4), autoshard="FILE")
    assert not who_saw_what(trace, None).taken
    view = View("data", path_id(tmp_path / "early.trace"), "en")
    [chart] = found(data.layout(Library([tmp_path]), view), "chart")
    assert chart.children.id == "data-sizes"


def test_how_much_was_thrown_away_is_no_zero_where_the_trace_does_not_tell_it(
    tmp_path: Path,
) -> None:
    data = who_saw_what(data_run(tmp_path / "run.trace", rows(elements(8), 8)), None)
    view = View("data", "0" * 16, "en")
    assert "DATA844" in text(policies(data, view))
    untold = tuple(replace(one, num_discarded=None) for one in data.taken)
    assert f"DATA{UNKNOWN}4{UNKNOWN}" in text(policies(replace(data, taken=untold), view))
