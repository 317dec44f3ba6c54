"""A run that went wrong opens on its cause; every row leads to where it can be seen."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Dashboard, axe_faults, overflow
from tests.captured import Captured

pytestmark = pytest.mark.browser
Tab = Callable[..., Page]
Serve = Callable[[Path], Dashboard]


@pytest.fixture(scope="module")
def bad(captured: Captured, serve: Serve) -> Dashboard:
    return serve(captured("bad-op", "--in-process", exits=1))


@pytest.fixture(scope="module")
def stuck(captured: Captured, serve: Serve) -> Dashboard:
    """A deadlock that its step limit ended."""
    return serve(captured("deadlock", "--in-process", "--step-timeout", "1", exits=1))


@pytest.fixture
def page(tab: Tab, bad: Dashboard) -> Page:
    return tab(f"{bad.url}t/{bad.run}/summary")


def test_it_opens_on_the_root_with_its_task_step_and_line(page: Page) -> None:
    expect(page.locator("h1")).to_contain_text("worker:1 failed in step 3")
    facts = page.locator(".wrong-facts")
    for words in ("checked (CheckNumerics)", "worker:1", "bad_op.py:"):
        expect(facts).to_contain_text(words)
    box = page.locator(".wrong").bounding_box()
    assert box is not None
    assert box["y"] < 250, "it stands at the top"


@pytest.mark.slow
def test_the_wave_begins_at_the_root_and_goes_on_in_order_of_time(page: Page) -> None:
    lanes = page.locator(".wave-row")
    expect(lanes.first).to_contain_text("worker:1")
    expect(lanes.first.locator(".echo.root")).to_have_count(1)
    expect(page.locator(".echo.root")).to_have_count(1)
    root = page.locator(".echo.root").bounding_box()
    marks = [mark.bounding_box() for mark in page.locator(".echo:not(.root)").all()]
    assert root is not None
    assert marks
    assert all(mark is not None and mark["x"] > root["x"] for mark in marks)
    counts = page.locator(".echo:not(.root)").all_inner_texts()
    assert page.locator(".wave-says").inner_text().startswith(f"{sum(map(int, counts))} more")


def test_the_root_is_found_in_graph_and_timeline(page: Page) -> None:
    ways = page.locator(".wrong-facts")
    ways.get_by_role("link", name="Graph").click()
    expect(page).to_have_url(re.compile(r"/graph\?step=3&sel=node:checked"))
    expect(page.locator("#strip")).to_contain_text("CheckNumerics")
    page.go_back()
    ways.get_by_role("link", name="Timeline").click()
    expect(page).to_have_url(re.compile(r"/timeline\?step=3&sel=span:[0-9a-f]{16}"))
    expect(page.locator("#strip")).to_contain_text("checked")


@pytest.mark.slow
def test_a_key_that_did_not_meet_leads_to_its_mailbox(page: Page) -> None:
    row = page.locator(".unmet tbody tr").first
    expect(row).to_contain_text("checked failed on worker:1")
    row.get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"/rendezvous\?step=3&sel=key:"))
    expect(page.locator("#strip")).to_contain_text("checked")


@pytest.mark.slow
def test_a_deadlock_names_every_key_and_who_waits(tab: Tab, stuck: Dashboard) -> None:
    page = tab(f"{stuck.url}t/{stuck.run}/summary")
    expect(page.locator("h1")).to_contain_text("did not end within 1 s")
    expect(page.locator(".unmet code").nth(1)).to_be_visible()
    keys = page.locator(".unmet code").all_inner_texts()
    assert all(len(key.split(";")) == 5 for key in keys)
    expect(page.locator(".unmet")).to_contain_text("was stopped before it had a value")


def test_a_row_of_the_library_says_the_op_and_its_line(tab: Tab, bad: Dashboard) -> None:
    row = tab(bad.url).locator(f".run:has(a[href*='{bad.run}'])")
    expect(row.locator(".faults")).to_contain_text("worker:1 failed in step 3")
    expect(row.locator(".faults small")).to_contain_text("checked (CheckNumerics)")


@pytest.mark.slow
def test_it_can_be_read_on_a_phone_in_chinese_and_by_everybody(tab: Tab, bad: Dashboard) -> None:
    page = tab(f"{bad.url}t/{bad.run}/summary?lang=zh", width=390, height=844)
    expect(page.locator(".wrong h2")).to_have_text("出了什么问题")
    assert not overflow(page)
    assert not axe_faults(page)
