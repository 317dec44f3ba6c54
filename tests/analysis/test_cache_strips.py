"""Cells of caches: a miss belongs to the step that it made ready, and counts are of the run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.mechanisms.told_run import ToldRun
from tracer.cli import main as tracer
from vizdist.analysis.cache_strips import MOST, CacheStrips, Strip, cache_strips
from vizdist.components.cache_strips import cache_strips_table
from vizdist.components.markup import markup
from vizdist.i18n import Lang
from vizdist.store.trace import Trace, open_trace


@pytest.fixture
def run(tmp_path: Path) -> ToldRun:
    return ToldRun(tmp_path)


def told(run: ToldRun, number: int = 1) -> dict[str, Strip]:
    one = run.one_step(number)
    return {strip.cache: strip for strip in cache_strips(one.trace, one.step).strips}


def ask(run: ToldRun, cache: str, *, hit: bool, task: str = "worker:0", session: str = "") -> None:
    run.span("cache.get", name=cache, task=task, cache__key="k", cache__hit=hit, **owner(session))


def tell(
    run: ToldRun, cache: str, hits: int, misses: int, task: str = "worker:0", session: str = ""
) -> None:
    own = owner(session)
    run.span("cache.total", name=cache, task=task, cache__hits=hits, cache__misses=misses, **own)


def owner(session: str) -> Any:
    return {"session__handle": session} if session else {}


def test_a_miss_before_a_step_made_it_ready(run: ToldRun) -> None:
    ask(run, "channel", hit=False)
    with run.step(1):
        pass
    ask(run, "channel", hit=True)
    with run.step(2):
        pass
    with run.step(3):
        pass
    ask(run, "channel", hit=True)  # of no step any more
    strip = told(run)["channel"]
    assert list(strip.cells) == ["miss", "hit", ""]
    assert (strip.hits, strip.misses) == (2, 1)


def test_hits_that_are_only_counted_are_told_where_no_miss_can_be_among_them(run: ToldRun) -> None:
    ask(run, "graph_handle", hit=False)
    ask(run, "kernel", hit=False)
    for number in (1, 2):
        with run.step(number):
            pass
    tell(run, "graph_handle", 2, 1)
    tell(run, "kernel", 2, 5)  # four misses were not recorded: any step may have had them
    found = told(run)
    assert list(found["graph_handle"].cells) == ["miss", "counted"]
    assert list(found["kernel"].cells) == ["miss", ""]


def test_what_is_only_counted_has_no_cells(run: ToldRun) -> None:
    with run.step(1):
        pass
    tell(run, "rendezvous", 1, 1)
    tell(run, "rendezvous", 7, 4)  # the last word counts
    tell(run, "rendezvous", 5, 2, task="ps:0")
    assert told(run)["rendezvous"] == Strip("rendezvous", (), 12, 6)


def test_a_task_that_never_told_its_counts_has_those_that_were_recorded(run: ToldRun) -> None:
    """It was killed before its session ended."""
    ask(run, "kernel", hit=False, task="ps:0")
    with run.step(1):
        pass
    tell(run, "kernel", 3, 0)
    strip = told(run)["kernel"]
    assert (strip.hits, strip.misses) == (3, 1)


def test_every_step_says_whether_its_graph_was_known(run: ToldRun) -> None:
    ask(run, "client_graph", hit=False)
    for number in (1, 2, 3):
        with run.step(number, cache__hit=number > 1):
            pass
    assert list(told(run)["client_graph"].cells) == ["miss", "hit", "hit"]


@pytest.mark.parametrize(
    ("lang", "counts"),
    [
        ("en", "84 missed, 324 hit, one table a step"),
        ("zh", "84 次未命中，324 次命中，每步一张表"),
    ],
)
def test_a_cache_that_misses_by_design_says_so_in_one_clause(lang: Lang, counts: str) -> None:
    found = CacheStrips([1], [Strip("rendezvous", (), 324, 84)])
    assert counts in "".join(map(markup, cache_strips_table(found, 1, lang)))


def test_as_many_steps_are_shown_as_fit_with_the_one_looked_at_among_them(run: ToldRun) -> None:
    ask(run, "channel", hit=False)
    for number in range(1, 41):
        with run.step(number):
            pass
    one = run.one_step(30)

    def shown(number: int) -> CacheStrips:
        return cache_strips(one.trace, one.trace.step(number))

    assert (shown(1).steps, shown(1).is_apart) == (list(range(1, MOST + 1)), False)
    assert 30 in shown(30).steps
    assert len(shown(30).steps) == MOST
    assert shown(40).steps[-1] == 40
    assert (shown(30).steps[:2], shown(30).is_apart) == ([1, 21], True)
    cold, *others = shown(30).strips[0].cells
    assert (cold, set(others)) == ("miss", {""})  # it was cold in the first step alone
    assert "caches-table apart" in "".join(map(markup, cache_strips_table(shown(30), 30, "en")))


def test_sessions_of_a_task_are_added_and_what_it_counts_on_is_not(run: ToldRun) -> None:
    """ps:0 has a cache of graphs for each session, and one rendezvous table for all of them."""
    with run.step(1):
        pass
    for session, counted in (("a", 10), ("b", 25)):
        tell(run, "graph_handle", 20, 1, task="ps:0", session=session)
        tell(run, "rendezvous", counted, counted, task="ps:0")
    found = told(run)
    assert (found["graph_handle"].hits, found["graph_handle"].misses) == (40, 2)
    assert (found["rendezvous"].hits, found["rendezvous"].misses) == (25, 25)


def test_a_task_that_was_started_anew_counts_from_nought_and_its_lives_are_added(
    run: ToldRun,
) -> None:
    with run.step(1):
        pass
    for hits, misses in ((10, 4), (15, 4), (3, 2), (7, 2)):  # killed after the second
        tell(run, "rendezvous", hits, misses, task="ps:0")
    strip = told(run)["rendezvous"]
    assert (strip.hits, strip.misses) == (22, 6)


def test_lookups_of_another_client_are_not_drawn_as_those_of_this_one(run: ToldRun) -> None:
    """Both ask ps:0 for graphs, one after the other; each strip holds what its own session did."""
    ask(run, "graph_handle", hit=False, task="ps:0", session="a")
    with run.step(1, session__handle="a"):
        pass
    ask(run, "graph_handle", hit=False, task="ps:0", session="b")
    ask(run, "channel", hit=False, task="worker:1")
    with run.step(1, task="worker:1", session__handle="b"):
        pass
    with run.step(2, session__handle="a"):
        ask(run, "recv_response", hit=True, task="ps:0")
    with run.step(2, task="worker:1", session__handle="b"):
        ask(run, "recv_response", hit=False, task="ps:0")
    one = run.one_step(1)
    drawn = {
        task: {
            strip.cache: list(strip.cells)
            for strip in cache_strips(one.trace, one.trace.step(1, task)).strips
        }
        for task in ("worker:0", "worker:1")
    }
    assert drawn == {
        "worker:0": {
            "channel": ["", ""],
            "graph_handle": ["miss", ""],
            "recv_response": ["", "hit"],
        },
        "worker:1": {
            "channel": ["miss", ""],
            "graph_handle": ["miss", ""],
            "recv_response": ["", "miss"],
        },
    }


@pytest.mark.parametrize(
    ("lang", "words"), [("en", "no lookup recorded"), ("zh", "没有记录到查询")]
)
def test_an_empty_cell_says_that_no_lookup_was_recorded(lang: Lang, words: str) -> None:
    found = CacheStrips([1, 2], [Strip("channel", ["miss", ""], 0, 1)])
    text = "".join(map(markup, cache_strips_table(found, 1, lang)))
    assert text.count(words) == 2, "in the cell and in the legend"


def recount(trace: Trace, cache: str) -> Sequence[int]:
    """Hits and misses of a cache as its tasks told them last, and each session of its own."""
    last = {}
    for place in sorted(trace.mask(kinds=["cache.total"]).nonzero()[0].tolist(),
                        key=lambda at: trace.all.start[at]):  # fmt: skip
        span = trace.span(int(trace.all.span[place]))
        last[span.task, span.name, span.attributes.get("vizdist.session.handle")] = [
            int(span.attributes[f"vizdist.cache.{what}"]) for what in ("hits", "misses")
        ]
    counts = [count for (_, name, _), count in last.items() if name == cache]
    return [sum(column) for column in zip(*counts, strict=True)]


def test_counts_of_a_recorded_run_are_those_its_tasks_told(tmp_path: Path) -> None:
    flags = ["--in-process", "--steps", "3", "--out", str(tmp_path / "t")]
    assert tracer(["run", "recv-dedup", *flags]) == 0
    trace = open_trace(tmp_path / "t")
    found = cache_strips(trace, trace.step(3))
    counted = {strip.cache: [strip.hits, strip.misses] for strip in found.strips}
    for cache in ("client_graph", "graph_handle", "kernel", "rendezvous"):
        assert counted[cache] == recount(trace, cache)
    [graphs] = [strip for strip in found.strips if strip.cache == "client_graph"]
    assert list(graphs.cells) == ["miss", "hit", "hit"]
