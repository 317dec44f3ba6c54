"""A run as one HTML file, opened from disk: it says what the dashboard says, and asks nobody."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import axe_faults, still, told
from vizdist.cli import main

pytestmark = pytest.mark.browser
Opened = Callable[..., Page]


@pytest.fixture(scope="module")
def file(training_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("offline") / "digits.html"
    assert main(["export", str(training_run), str(out), "--format", "html"]) == 0
    return out


@pytest.fixture
def opened(chromium: BrowserContext, file: Path) -> Iterator[Opened]:
    """Opens the file as a double click does; at the end no script failed and nothing was asked."""
    faults: list[str] = []

    def open_file(query: str = "") -> Page:
        page = chromium.new_page()
        page.set_viewport_size({"width": 1440, "height": 900})
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "request",
            lambda r: None if r.url.startswith(("data:", file.as_uri())) else faults.append(r.url),
        )
        page.goto(f"{file.as_uri()}{query}")
        expect(page.locator(".rail")).to_be_visible()
        return page

    yield open_file
    for page in chromium.pages:
        page.evaluate("localStorage.clear()")
        page.close()
    assert not faults


def test_the_pages_are_there_without_a_server(opened: Opened) -> None:
    page = opened()
    expect(page.locator("h1").first).to_contain_text("20 steps")
    page.locator(".rail [data-go$='/timeline']").click()
    expect(page.locator("#timeline-canvas[data-state=ready]")).to_be_visible()
    told(page, "s => s.boxes > 0")
    assert axe_faults(page) == []


def test_a_chosen_bar_is_in_the_strip_and_in_the_address(opened: Opened) -> None:
    page = opened("?step=3#timeline")
    expect(page.locator("#timeline-canvas[data-rest][data-state=ready]")).to_be_visible()
    page.mouse.click(*still(page, "window.__vizdist.where('000000000000012e')"))
    expect(page).to_have_url(re.compile("sel=span:000000000000012e#timeline"))
    expect(page.locator("#strip")).to_contain_text("MatMul")
    page.reload()
    expect(page.locator("#timeline-span")).to_contain_text("mm")
    page.go_back()
    expect(page.locator("#strip")).to_contain_text("Nothing selected")


def test_what_stands_out_is_one_click_away_without_a_server(opened: Opened) -> None:
    page = opened("?step=3#timeline")
    told(page, "s => s.path > 0")
    row = page.locator("[data-stand-out]").first
    expect(row).to_contain_text("stood idle")
    row.click()
    page.wait_for_selector("#timeline-canvas[data-rest^='window']")
    expect(row).to_have_attribute("aria-current", "true")
    expect(page.locator("[data-mark][aria-pressed=true]")).to_have_count(0)  # keys of the Graph


def test_a_sentence_leads_to_its_proof(opened: Opened) -> None:
    page = opened()
    page.locator(".sentence a[data-go*='/timeline']").first.click()
    expect(page).to_have_url(re.compile("#timeline"))
    expect(page.locator("#timeline-canvas")).to_be_visible()
    expect(page.locator("[data-page=summary]")).to_be_hidden()


def test_theme_and_language_change_without_a_server(opened: Opened) -> None:
    page = opened("#timeline")
    page.locator("[data-do=lang]").click()
    expect(page.locator(".rail")).to_contain_text("时间线")
    page.locator("[data-do=theme]").click()
    expect(page.locator("html[data-theme=dark]")).to_be_attached()
    page.reload()
    expect(page.locator("html[data-theme=dark][lang=zh]")).to_be_attached()
