"""A fault that was asked for is seen with the screen alone: Library, Summary, Timeline."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.analysis.test_asked_faults import DELAY, KILL, killed_ps, straggler
from tests.browser.conftest import overflow, serving, still, told
from vizdist.analysis.asked_faults import asked_faults
from vizdist.store.library import Library

pytestmark = pytest.mark.browser
Tab = Callable[..., Page]


def test_from_the_library_to_the_moment_at_which_it_struck(tab: Tab, tmp_path: Path) -> None:
    trace = killed_ps(tmp_path / "killed.trace")
    [fault] = asked_faults(trace)
    assert fault.strike is not None
    struck = f"{fault.strike.span:016x}"
    for url in serving(Library([trace.path])):
        page = tab(f"{url}?lang=en")
        expect(page.locator(".cell-faults")).to_have_text(f"{KILL} struck in step 6")
        page.locator(".run").click()
        said = page.locator(".sentence", has_text=KILL)
        expect(said).to_contain_text("ps:0 was killed by SIGKILL.")
        said.get_by_role("link").click()
        expect(page).to_have_url(re.compile(rf"/timeline\?.*step=6&sel=span:{struck}"))
        told(page, "s => s.ready && s.lit === 1")
        expect(page.locator(".timeline-legend")).to_contain_text("fault asked for")
        x, y = still(page, f"window.__vizdist.where('{struck}')")
        hit = page.evaluate(f"window.__vizdist.hit({x}, {y})")
        assert (hit["task"], hit["lane"], hit["name"]) == ("ps:0", "faults", "kill")
        page.close()


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_on_a_phone_the_straggler_and_its_fault_are_told_whole(
    tab: Tab, tmp_path: Path, lang: str
) -> None:
    trace = straggler(tmp_path / "late.trace")
    for url in serving(Library([trace.path])):
        page = tab(f"{url}?lang={lang}", width=390, height=844)
        expect(page.locator(".cell-faults")).to_contain_text(DELAY)
        assert overflow(page) == []
        page.locator(".run").click()
        expect(page.locator("h1")).to_contain_text("worker:1")
        expect(page.locator(".sentence", has_text=DELAY)).to_be_visible()
        assert overflow(page) == []
        page.close()


def test_of_a_run_without_faults_the_timeline_has_no_sign_of_any(tab: Tab, tmp_path: Path) -> None:
    trace = straggler(tmp_path / "plain.trace", is_struck=False)
    for url in serving(Library([trace.path])):
        page = tab(f"{url}?lang=en")
        expect(page.locator(".cell-faults")).to_have_text(f"{DELAY} was asked for and never struck")
        page.locator(".run").click()
        expect(page.locator(".sentence").first).to_be_visible()
        expect(page.locator(".sentence", has_text="asked for")).to_have_count(0)
        page.locator("#rail").get_by_role("link", name="Timeline").click()
        expect(page.locator(".timeline-legend")).to_contain_text("critical path")
        expect(page.locator(".is-struck")).to_have_count(0)
        page.close()
