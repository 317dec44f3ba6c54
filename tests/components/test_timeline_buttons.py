"""Buttons of the Timeline page say what they mean whatever else has changed since."""

import re
from pathlib import Path

import pytest

from tests.analysis.sample_run import sample_run
from tests.captured import WORKERS, Captured
from tests.components.reading import found
from vizdist.analysis.stands_out import stands_out
from vizdist.components.graph_toolbar import legend
from vizdist.components.markup import markup
from vizdist.components.stands_out import stands_out_list
from vizdist.components.view import View
from vizdist.figures.findings import run_findings
from vizdist.pages import timeline
from vizdist.store.index import path_id
from vizdist.store.library import Library
from vizdist.store.trace import Trace

NAMES = ("data-stand-out", "data-step", "data-task")
RARE = ("collective", "failed")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return sample_run(tmp_path_factory.mktemp("sample") / "x.trace")


def test_a_row_names_what_it_tells_of_and_not_its_place_in_the_list(sample: Trace) -> None:
    found = stands_out(sample)
    ids = [one.id for one in found]
    assert len(set(ids)) == len(ids) > 1
    assert [one["id"] for one in run_findings(sample, found)] == ids
    for shown in (found, found[1:], found[::-1]):
        text = markup(stands_out_list(shown, "en"))
        told = [re.findall(f'{name}="([^"]*)"', text) for name in NAMES]
        assert [*zip(*told, strict=True)] == [
            (one.id, str(one.step.number), one.step.task) for one in shown
        ]


def test_pressed_keys_of_graph_and_timeline_are_told_apart(tmp_path: Path) -> None:
    """Both pages stand in one document offline, and both scripts listen wherever one has been."""
    trace = sample_run(tmp_path / "x.trace")
    view = View("timeline", trace.id, "en")
    pages = timeline.layout(Library([trace.path]), view), legend("en")
    on_timeline, on_graph = (
        {
            name
            for button in re.findall("<button[^>]*aria-pressed[^>]*>", markup(page))
            for name in re.findall(r"\s(data-(?!title)[a-z-]+)=", button)
        }
        for page in pages
    )
    assert (on_graph, "data-shows" in on_timeline) == ({"data-mark"}, True)
    assert not on_graph & on_timeline


def test_the_legend_names_what_failed_and_what_met_only_where_a_run_has_it(
    captured: Captured, sample: Trace
) -> None:
    runs = (captured(*WORKERS), captured("bad-op", "--in-process", exits=1), sample.path)
    pages = [timeline.layout(Library([run]), View("timeline", path_id(run), "en")) for run in runs]
    named = [[bool(found(page, f"is-{name}")) for name in RARE] for page in pages]
    assert named == [[True, False], [False, True], [False, False]]
