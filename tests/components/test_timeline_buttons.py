"""Buttons of the Timeline page say what they mean whatever else has changed since."""

import re
from pathlib import Path

import pytest

from tests.analysis.sample_run import sample_run
from vizdist.analysis.stands_out import stands_out
from vizdist.components.graph_toolbar import legend
from vizdist.components.markup import markup
from vizdist.components.stands_out import stands_out_list
from vizdist.components.view import View
from vizdist.figures.findings import run_findings
from vizdist.pages import timeline
from vizdist.store.library import Library
from vizdist.store.trace import Trace

NAMES = ("data-stand-out", "data-step", "data-task")


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
