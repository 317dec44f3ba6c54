"""The Reference page: anchors, finding, and the way to it from other pages."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Dashboard, axe_faults, overflow

pytestmark = pytest.mark.browser
Tab = Callable[..., Page]


def test_an_anchor_leads_to_its_entry(tab: Tab, dashboard: Dashboard) -> None:
    page = tab(f"{dashboard.url}reference?lang=en#kind-rendezvous.recv")
    entry = page.locator("[id='kind-rendezvous.recv']")
    expect(entry).to_have_attribute("data-named", "")
    expect(entry).to_be_in_viewport()
    page.get_by_role("link", name="Commands").click()
    expect(page.locator("#commands")).to_be_in_viewport()
    expect(page).to_have_url(re.compile("#commands$"))


def test_finding_leaves_the_entries_that_hold_the_words(tab: Tab, dashboard: Dashboard) -> None:
    page = tab(f"{dashboard.url}reference?lang=en")
    expect(page.locator("#word-key")).to_be_visible()
    page.locator("body").press("/")
    page.keyboard.type("dead tensor")
    expect(page.locator("#word-dead_tensor")).to_be_visible()
    expect(page.locator("#word-job")).to_be_hidden()
    expect(page.locator("#commands")).to_be_hidden()


def test_a_selected_span_leads_to_its_kind(tab: Tab, dashboard: Dashboard) -> None:
    page = tab(f"{dashboard.url}t/{dashboard.run}/timeline?lang=en&step=3&sel=node:mm")
    page.locator("#timeline-span").get_by_role("link", name="op.run").click()
    expect(page).to_have_url(re.compile(r"/reference\?lang=en#kind-op.run$"))
    expect(page.locator("[id='kind-op.run']")).to_have_attribute("data-named", "")
    page.go_back()
    expect(page.locator("#strip")).to_contain_text("MatMul · worker:0")


@pytest.mark.slow
@pytest.mark.parametrize("query", ["?theme=light", "?theme=dark&lang=zh", "?theme=projector"])
@pytest.mark.parametrize("width", [1440, 390])
def test_the_reference_is_accessible_and_fits(
    tab: Tab, dashboard: Dashboard, width: int, query: str
) -> None:
    page = tab(f"{dashboard.url}reference{query}", width=width, height=900 if width > 700 else 844)
    expect(page.locator("#word-job")).to_be_visible()
    assert axe_faults(page) == []
    assert overflow(page) == []
