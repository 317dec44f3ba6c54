"""The Library shows every run that is there, and nothing that is not."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Dashboard, axe_faults, overflow, serving
from vizdist.store.library import Library

pytestmark = pytest.mark.browser
Tab = Callable[..., Page]


def test_a_row_tells_a_run_and_opens_it(tab: Tab, dashboard: Dashboard) -> None:
    page = tab(dashboard.url)
    row = page.locator(".run")
    expect(row).to_contain_text("digits")
    expect(row).to_contain_text("parameter_server_v1")
    expect(row).to_contain_text("1.00 µs")
    expect(row).to_contain_text("256 B")
    row.click()
    expect(page).to_have_url(re.compile(f"/t/{dashboard.run}/summary"))
    expect(page.locator(".run-name")).to_have_text("digits")


def test_finding_hides_what_does_not_match(tab: Tab, dashboard: Dashboard) -> None:
    page = tab(dashboard.url)
    expect(page.locator(".run")).to_be_visible()
    page.locator("body").press("/")
    page.keyboard.type("mirrored")
    expect(page.locator(".run")).to_be_hidden()
    page.locator("#search").fill("server digits")
    expect(page.locator(".run")).to_be_visible()


@pytest.mark.parametrize("width", [1440, 390])
def test_an_empty_library_says_how_to_begin(tab: Tab, width: int) -> None:
    for url in serving(Library([])):
        page = tab(url, width=width)
        expect(page.locator("h1")).to_have_text("No runs yet")
        expect(page.locator("main")).to_contain_text("vizdist demo")
        assert axe_faults(page) == []
        assert overflow(page) == []
        page.close()


def test_a_folder_that_cannot_be_opened_is_a_row_that_says_so(tab: Tab, tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    for url in serving(Library([tmp_path])):
        page = tab(url)
        expect(page.locator(".run")).to_contain_text("broken.json is of no format known here")
        page.close()


def test_words_that_no_run_has_say_so(tab: Tab, dashboard: Dashboard) -> None:
    page = tab(dashboard.url)
    page.locator("#search").fill("no such run")
    said = "getComputedStyle(document.querySelector('.runs tbody'), '::after').content"
    page.wait_for_function(f"{said}.includes('No run has all of these words')")


def test_on_a_phone_the_pictures_of_a_row_say_what_they_are(tab: Tab, dashboard: Dashboard) -> None:
    page = tab(dashboard.url, width=390, height=844)
    expect(page.locator(".run .cell-time .spark")).to_be_visible()
    head = "cell => getComputedStyle(cell, '::before').content"
    assert page.locator(".run .cell-time").evaluate(head) == '"Step time, a dot a step"'
