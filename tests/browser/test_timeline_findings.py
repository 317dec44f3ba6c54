"""What the analyses found, on the Timeline page: critical path, stalls, what stands out."""

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.analysis.sample_run import SLOW_NS, sample_run
from tests.browser.conftest import Dashboard, reload, told
from tests.browser.test_timeline_page import opened, ready, where
from vizdist.analysis.critical_path import critical_path
from vizdist.analysis.stalls import stalls
from vizdist.analysis.stalls_told import told as told_of
from vizdist.store.trace import open_trace

pytestmark = pytest.mark.browser
Tab = Callable[..., Page]


@pytest.fixture(scope="module")
def sample_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample") / "x.trace"
    sample_run(folder)
    return folder


@pytest.fixture(scope="module")
def sample(sample_folder: Path, serve: Callable[[Path], Dashboard]) -> Dashboard:
    """One ps, two workers; worker:1 took far longer for `mm` in its third step."""
    return serve(sample_folder)


def found(page: Page) -> None:
    """The analyses have answered, and what they found is drawn."""
    told(page, "s => s.standsOut > 0 && s.flags === s.standsOut && s.path > 0")


def test_what_stands_out_is_listed_flagged_and_one_key_away(tab: Tab, sample: Dashboard) -> None:
    page = opened(tab, sample, "?step=1")
    found(page)
    rows = page.locator("[data-stand-out]")
    count = told(page)["standsOut"]
    assert count > 2
    expect(rows).to_have_count(count)
    expect(rows.first).to_contain_text("Step 3 took")
    expect(rows.first).to_contain_text("worker:1 ran mm")
    page.keyboard.press("n")
    expect(page).to_have_url(re.compile("step=3"))
    expect(rows.first).to_have_attribute("aria-current", "true")
    told(page, f"s => s.mode === 'step' && s.to - s.from > {SLOW_NS}")
    page.keyboard.press("n")
    expect(rows.nth(1)).to_have_attribute("aria-current", "true")
    page.wait_for_selector("#timeline-canvas[data-rest^='window']")
    page.keyboard.press("p")
    expect(rows.first).to_have_attribute("aria-current", "true")


@pytest.mark.slow
def test_a_click_on_a_row_shows_the_stall_itself(tab: Tab, sample: Dashboard) -> None:
    page = opened(tab, sample, "?step=1")
    found(page)
    row = page.locator("[data-stand-out]", has_text="stood idle").first
    sentence = row.get_attribute("title")
    row.click()
    page.wait_for_selector("#timeline-canvas[data-rest^='window']")
    expect(page.locator("#timeline-canvas [aria-live]")).to_have_text(sentence or "none")
    told(page, "s => s.stalls > 0")


@pytest.mark.slow
def test_critical_path_and_stalls_are_shown_or_not_as_the_address_says(
    tab: Tab, sample: Dashboard
) -> None:
    page = opened(tab, sample, "?step=2")
    found(page)
    told(page, "s => s.stalls > 0")
    page.locator("[data-shows=path]").click()
    expect(page).to_have_url(re.compile("hide=path"))
    told(page, "s => s.path === 0")
    reload(page)
    ready(page)
    told(page, "s => s.stalls > 0 && s.path === 0")
    expect(page.locator("[data-shows=path]")).to_have_attribute("aria-pressed", "false")


@pytest.mark.slow
def test_a_key_of_the_legend_is_heard_by_its_own_page_alone(tab: Tab, sample: Dashboard) -> None:
    page = tab(f"{sample.url}t/{sample.run}/graph?step=2")
    expect(page.locator("#graph-canvas[data-state=ready]")).to_be_visible(timeout=20_000)
    page.locator("#rail .rail-item[href*='/timeline']").click()
    ready(page)
    found(page)
    page.locator("[data-shows=path]").click()
    expect(page.locator("[data-shows=path]")).to_have_attribute("aria-pressed", "false")
    expect(page.locator("[data-shows=stalls]")).to_have_attribute("aria-pressed", "true")


def test_what_is_drawn_is_what_the_analyses_say(
    tab: Tab, sample: Dashboard, sample_folder: Path
) -> None:
    page = opened(tab, sample, "?step=2")
    found(page)
    drawn = page.evaluate("window.__vizdist.findings()")
    trace = open_trace(sample_folder)
    step = trace.step(2)
    path = critical_path(trace, step)
    assert path is not None
    lines = list(zip(*(drawn["path"][name] for name in ("row", "start", "end")), strict=True))
    assert lines == [
        (int(trace.all.row[one.place]), one.start - trace.start, one.end - trace.start)
        for one in path.pieces
    ]
    assert lines[0][1] == step.start - trace.start
    assert lines[-1][2] == step.end - trace.start
    seen = [(one["row"], one["end"] - one["start"], one["key"]) for one in drawn["stalls"]]
    assert seen == [(s.row, s.duration, told_of(trace, s).key) for s in stalls(trace, step)]


@pytest.mark.slow
def test_a_pointer_on_a_stall_reads_why(tab: Tab, sample: Dashboard, sample_folder: Path) -> None:
    page = opened(tab, sample, "?step=2")
    found(page)
    spans = open_trace(sample_folder).all
    is_mm = spans.has_word("name", "mm") & (spans.step == 2)
    place = next(at for at in np.flatnonzero(is_mm) if spans.task[at] == "worker:0")
    x, y = where(page, int(spans.span[place]))
    page.mouse.move(x - 30, y)
    expect(page.locator(".canvas-tip")).to_contain_text("worker:0 stood idle")
    page.keyboard.press("l")
    said = page.locator(".timeline-stalls li", has_text="worker:0 stood idle")
    expect(said.first).to_be_visible()


@pytest.mark.slow
def test_a_click_on_a_stall_selects_its_cause_and_what_ran_next(
    tab: Tab, sample: Dashboard, sample_folder: Path
) -> None:
    page = opened(tab, sample, "?step=2")
    found(page)
    trace = open_trace(sample_folder)
    spans = trace.all
    is_mm = spans.has_word("name", "mm") & (spans.step == 2)
    place = next(at for at in np.flatnonzero(is_mm) if spans.task[at] == "worker:0")
    x, y = where(page, int(spans.span[place]))
    page.mouse.click(x - 30, y)
    page.wait_for_url(re.compile("sel=stall:"))
    ids = parse_qs(urlsplit(page.url).query)["sel"][0].removeprefix("stall:").split(",")
    assert int(spans.span[place]) in {int(one, 16) for one in ids}, "mm ran next"
    expect(page.locator("#timeline-span")).to_contain_text(trace.span(ids[0]).name)
    page.locator("#rail .rail-item[href*='/graph']").click()
    ends = told(page, "s => s.view === 'graph' && s.ready && s.found?.all")["found"]["all"]
    assert [end.get("node") for end in ends] == [trace.span(one).name for one in ids]
    expect(page.locator("#graph-facts")).to_contain_text("worker:0 stood idle")
    page.locator("#rail .rail-item[href*='/replay']").click()
    told(page, "s => s.view === 'replay' && s.ready && s.found?.then")
    assert page.evaluate("window.__vizdist.replay().ringed") == [end["tile"] for end in ends]
