"""A trace file from the viewer's disk becomes a run of the Library, or the page says why not."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import axe_faults, listening, overflow, serving
from tests.routes.test_upload import LINE
from vizdist.store.library import Library

pytestmark = pytest.mark.browser
Tab = Callable[..., Page]


@pytest.fixture
def url() -> Iterator[str]:
    yield from serving(Library([]))


def opened(page: Page) -> Page:
    """The page once it listens."""
    expect(page.locator(".opener[data-ready]")).to_be_visible()
    return page


def choose(page: Page, file: Path) -> None:
    opened(page)
    with page.expect_file_chooser() as chooser:
        page.locator("[data-choose]").click()
    chooser.value.set_files(file)


def test_a_chosen_file_is_opened(url: str, tab: Tab, tmp_path: Path) -> None:
    file = tmp_path / "mine.otlp.jsonl"
    file.write_bytes(LINE)
    page = tab(url)
    choose(page, file)
    expect(page).to_have_url(re.compile(r"/t/[0-9a-f]{16}/summary"))
    expect(page.locator("main")).to_contain_text("matmul")


def test_a_dropped_file_is_opened(url: str, tab: Tab) -> None:
    page = opened(tab(url))
    page.evaluate(
        """(text) => {
          const dataTransfer = new DataTransfer();
          dataTransfer.items.add(new File([text], "mine.jsonl"));
          for (const type of ["dragover", "drop"])
            document.body.dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true,
              cancelable: true }));
        }""",
        LINE.decode(),
    )
    expect(page).to_have_url(re.compile("/summary"))


def test_what_is_no_trace_stays_here_with_a_reason(
    url: str, chromium: BrowserContext, tmp_path: Path
) -> None:
    file = tmp_path / "notes.json"
    file.write_text(json.dumps({"shopping": ["<b>milk</b>"]}))
    page = chromium.new_page()  # not a tab, which forbids a console that notes a refusal
    page.goto(url)
    choose(page, file)
    expect(page.locator("#upload-says")).to_contain_text("of no format known here")
    expect(page).to_have_url(url)
    listening(page).locator("[data-do=lang]").click()
    expect(page.locator("h1")).to_contain_text("还没有运行")
    choose(page, file)
    expect(page.locator("#upload-says")).to_contain_text("notes.json 不是这里已知的格式")
    page.close()


def test_a_proxy_that_refuses_a_file_is_named(
    url: str, chromium: BrowserContext, tmp_path: Path
) -> None:
    file = tmp_path / "mine.otlp.jsonl"
    file.write_bytes(LINE)
    page = chromium.new_page()  # not a tab, which forbids a console that notes a refusal
    page.route(
        "**/api/upload?*",
        lambda sent: sent.fulfill(status=413, content_type="text/html", body="<h1>Too large</h1>"),
    )
    page.goto(url)
    choose(page, file)
    expect(page.locator("#upload-says.failed")).to_contain_text("HTTP 413")
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("query", ["?theme=light", "?theme=dark&lang=zh"])
def test_the_place_to_drop_is_accessible_and_fits(
    url: str, tab: Tab, width: int, query: str
) -> None:
    page = tab(f"{url}{query}", width=width)
    expect(page.locator(".opener")).to_be_visible()
    assert axe_faults(page) == []
    assert overflow(page) == []
