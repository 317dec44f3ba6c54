"""A run as one HTML file, opened from disk: it says what the dashboard says, and asks nobody."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import axe_faults, still, told
from tests.captured import Captured
from tracer.model.trace_folder import Flag
from vizdist.cli import main
from vizdist.store.trace import open_trace

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


def test_mailboxes_and_calls_are_there_and_a_key_is_lit_on_every_page(opened: Opened) -> None:
    page = opened("#rendezvous")
    row = page.locator(".mail-row").first
    expect(row).to_be_visible()
    expect(page.locator("#rendezvous-sequence svg")).to_be_visible()
    expect(page.locator("#rendezvous-links table").first).to_be_visible()
    row.click()
    expect(page).to_have_url(re.compile("sel=key:.*#rendezvous"))
    expect(row).to_have_attribute("aria-current", "true")
    expect(page.locator("#strip .selected")).to_have_text("w")
    assert axe_faults(page) == []
    page.locator("[data-do=lang]").click()
    expect(page.locator("#rendezvous-head")).to_contain_text("第")
    expect(page.locator("#rendezvous-sequence svg")).to_be_visible()


def test_theme_and_language_change_without_a_server(opened: Opened) -> None:
    page = opened("#timeline")
    page.locator("[data-do=lang]").click()
    expect(page.locator(".rail")).to_contain_text("时间线")
    page.locator("[data-do=theme]").click()
    expect(page.locator("html[data-theme=dark]")).to_be_attached()
    page.reload()
    expect(page.locator("html[data-theme=dark][lang=zh]")).to_be_attached()


def test_a_step_is_replayed_without_a_server(
    captured: Captured, tmp_path: Path, chromium: BrowserContext
) -> None:
    out = tmp_path / "loop.html"
    run = captured("cross-device-while", "--in-process", "--option", "iterations=4")
    assert main(["export", str(run), str(out), "--format", "html"]) == 0
    page = chromium.new_page()
    page.goto(f"{out.as_uri()}#replay")
    ready = "#replay-canvas[data-replay=ready][data-state=ready]"
    expect(page.locator(ready)).to_be_visible()
    page.keyboard.press("Home")
    expect(page.locator("#replay-count")).to_contain_text("0")
    page.keyboard.press("End")
    trace = open_trace(run)
    sent = trace.spans(step=trace.steps[0], kinds=("rendezvous.send",))
    dead = int(((sent.flags & Flag.DEAD) != 0).sum())
    expect(page.locator("#replay-facts")).to_contain_text(f"Dead values sent so far: {dead}")
    page.locator(".rail [data-go$='/rendezvous']").click()
    fold = page.locator(".mail-row[aria-expanded]").first
    inner = page.locator(".mail-row.inner").first
    expect(inner).to_be_hidden()
    fold.click()
    expect(fold).to_have_attribute("aria-expanded", "true")
    expect(inner).to_be_visible()
    page.close()
