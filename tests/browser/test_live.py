"""A run that goes on: Library, Timeline and Summary move with it, until the viewer takes over."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import axe_faults, serving, told
from tests.store.growing_trace import GrowingRun
from vizdist.store.index import path_id
from vizdist.store.library import Library

pytestmark = pytest.mark.browser
Tab = Callable[..., Page]


@pytest.fixture
def run(tmp_path: Path) -> GrowingRun:
    """Two steps so far."""
    run = GrowingRun(tmp_path / "young.trace")
    grow(run, 2)
    return run


@pytest.fixture
def url(run: GrowingRun) -> Iterator[str]:
    yield from serving(Library([run.folder.parent]))


def grow(run: GrowingRun, steps: int) -> None:
    for _ in range(steps):
        run.step()
    run.turn()


def address(url: str, run: GrowingRun, page: str, query: str = "") -> str:
    return f"{url}t/{path_id(run.folder)}/{page}{query}"


def test_the_library_shows_a_run_while_it_runs(url: str, tab: Tab, run: GrowingRun) -> None:
    page = tab(url)
    row = page.locator(".run")
    expect(row).to_contain_text("running")
    expect(row).to_contain_text("step 2 of 40 · 8 spans")
    assert axe_faults(page) == []
    grow(run, 3)
    expect(row).to_contain_text("step 5 of 40 · 20 spans")
    run.end()
    expect(row).to_contain_text("none, all spans written")
    expect(row).not_to_contain_text("running")


@pytest.mark.slow
def test_the_library_stays_filtered_while_a_run_goes_on(tab: Tab, run: GrowingRun) -> None:
    grow(GrowingRun(run.folder.parent / "other.trace"), 1)
    for url in serving(Library([run.folder.parent])):
        page = tab(url)
        field, row = page.locator("#search"), page.locator(".run:visible")
        field.fill("young")
        expect(row).to_have_count(1)
        grow(run, 3)
        expect(row).to_contain_text("step 5 of 40")
        expect(row).to_have_count(1)
        expect(page.locator("#library-runs")).not_to_have_attribute("data-seen", "0")
        expect(field).to_have_value("young")
        expect(field).to_be_focused()
        page.close()


@pytest.mark.slow
def test_a_run_that_fails_turns_in_the_library(url: str, tab: Tab, run: GrowingRun) -> None:
    page = tab(url)
    expect(page.locator(".run")).to_contain_text("running")
    run.end("failed", "worker:0 in step 2: was killed by SIGKILL")
    expect(page.locator(".run")).to_contain_text("worker:0 was killed by SIGKILL in step 2")


@pytest.mark.slow
def test_a_run_that_begins_appears_by_itself(tab: Tab, tmp_path: Path) -> None:
    for url in serving(Library([tmp_path])):
        page = tab(url)
        expect(page.locator("h1")).to_have_text("No runs yet")
        grow(GrowingRun(tmp_path / "new.trace"), 1)
        expect(page.locator(".run")).to_contain_text("step 1 of 40")
        expect(page.locator("#search")).to_be_visible()
        page.close()


def test_the_timeline_keeps_the_newest_step_until_the_viewer_pans(
    url: str, tab: Tab, run: GrowingRun
) -> None:
    page = tab(address(url, run, "timeline"))
    follow = page.get_by_role("button", name="Follow")
    expect(follow).to_have_attribute("aria-pressed", "true")
    grow(run, 4)
    expect(page.locator("#stepper")).to_contain_text("Step 6")
    told(page, "s => s.step === 6")
    page.locator("#timeline-canvas canvas").press("d")
    expect(follow).to_have_attribute("aria-pressed", "false")
    grow(run, 1)
    expect(page.locator("#stepper")).to_contain_text("/ 7")
    expect(page.locator("#stepper")).to_contain_text("Step 6")
    follow.click()
    expect(page.locator("#stepper")).to_contain_text("Step 7")
    run.end()
    expect(follow).to_be_hidden()
    expect(page).to_have_url(re.compile("step=7"))


def test_the_graph_comes_while_one_follows_a_run_that_has_none_yet(
    url: str, tab: Tab, run: GrowingRun
) -> None:
    page = tab(address(url, run, "timeline"))
    graph = page.locator(".rail [data-go$='/graph']")
    expect(graph).to_have_attribute("aria-disabled", "true")
    page.keyboard.press("g")  # pale, but a page like any other
    expect(page.locator("main")).to_contain_text("This run holds no graph")
    expect(page.get_by_role("button", name="Follow")).to_have_count(0)
    grow(run, 1)
    expect(page.locator("#stepper")).to_contain_text("/ 3")
    page.locator(".rail [data-go$='/timeline']").click()
    expect(page.get_by_role("button", name="Follow")).to_have_attribute("aria-pressed", "true")
    grow(run, 2)
    told(page, "s => s.step === 5")
    run.register("g1")
    grow(run, 1)
    expect(graph).not_to_have_attribute("aria-disabled", "true")
    run.end()


def test_who_types_while_a_run_goes_on_keeps_the_words(url: str, tab: Tab, run: GrowingRun) -> None:
    page = tab(address(url, run, "summary"))
    expect(page.locator("#stepper")).to_contain_text("Step 2")
    page.locator("body").press("/")
    page.keyboard.type("m")
    grow(run, 1)
    expect(page.locator("#stepper")).to_contain_text("/ 3")
    expect(page.locator(".counts")).to_contain_text("12 spans")
    page.keyboard.type("m")
    expect(page.locator("#search")).to_have_value("mm")
    run.end()
    expect(page.locator(".running")).to_have_count(0)
    expect(page.locator("#search")).to_be_focused()
    expect(page.get_by_role("option").first).to_contain_text("mm")


@pytest.mark.slow
def test_the_whole_run_grows_in_view(url: str, tab: Tab, run: GrowingRun) -> None:
    page = tab(address(url, run, "timeline"))
    expect(page.get_by_role("button", name="Follow")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("radio", name="Whole run").click()
    page.wait_for_selector("#timeline-canvas[data-rest^='run']")
    before = told(page, "s => s.mode === 'run'")["to"]
    grow(run, 10)
    told(page, f"s => s.to > 2 * {before}")


@pytest.mark.slow
def test_who_looks_at_a_step_is_not_led_away(url: str, tab: Tab, run: GrowingRun) -> None:
    page = tab(address(url, run, "summary", "?step=1"))
    expect(page.get_by_role("button", name="Follow")).to_have_attribute("aria-pressed", "false")
    grow(run, 2)
    expect(page.locator("h1")).to_contain_text("4 of 40 steps")
    expect(page.locator("#stepper")).to_contain_text("Step 1")


def test_the_summary_tells_of_a_run_as_it_goes(url: str, tab: Tab, run: GrowingRun) -> None:
    page = tab(address(url, run, "summary"))
    expect(page.locator("h1")).to_contain_text("2 of 40 steps")
    grow(run, 1)
    expect(page.locator("h1")).to_contain_text("3 of 40 steps")
    expect(page.locator("#summary-step")).to_contain_text("step 3")
    run.end("failed", "worker:0 in step 3: was killed by SIGKILL")
    expect(page.locator("h1")).to_contain_text("killed by SIGKILL")


@pytest.mark.slow
@pytest.mark.parametrize("where", ["summary", "timeline"])
def test_a_page_of_a_run_without_spans_fills_itself(tab: Tab, tmp_path: Path, where: str) -> None:
    run = GrowingRun(tmp_path / "empty.trace")
    run.turn()
    for url in serving(Library([run.folder])):
        page = tab(address(url, run, where))
        expect(page.locator("header")).to_contain_text("running")
        grow(run, 2)
        shown = "#summary-columns .main-svg" if where == "summary" else "#timeline-canvas canvas"
        expect(page.locator(shown).first).to_be_visible()
        page.close()
