"""The Summary: sentences with numbers that agree with the pictures below them."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Dashboard, still

pytestmark = pytest.mark.browser
Tab = Callable[..., Page]


@pytest.fixture
def page(tab: Tab, dashboard: Dashboard) -> Page:
    shown = tab(f"{dashboard.url}t/{dashboard.run}/summary?step=3")
    shown.wait_for_selector("#summary-columns .main-svg")
    return shown


def test_it_opens_with_a_sentence_that_has_a_number_in_it(page: Page) -> None:
    expect(page.locator("h1")).to_contain_text("20 steps were recorded.")


def test_the_parts_of_the_bar_add_up_to_a_hundred(page: Page) -> None:
    expect(page.locator("#summary-step .part").first).to_be_visible()
    titles = page.locator("#summary-step .part").evaluate_all("parts => parts.map(p => p.title)")
    shares = [float(re.search(r"([\d.]+) %", title)[1]) for title in titles]  # type: ignore[index]
    assert round(sum(shares), 1) == 100.0


def test_a_click_on_a_column_goes_to_its_step(page: Page) -> None:
    # a chart is drawn before Dash hears its clicks
    heard = "document.querySelector('#summary-columns .js-plotly-plot')._ev._events.plotly_click"
    page.wait_for_function(f"() => {heard}")
    box = "document.querySelector('#summary-columns .nsewdrag').getBoundingClientRect()"
    x, y = still(page, f"(({{x, y, width, height}}) => [x + width * {10.5 / 20.2},"
                       f" y + height * 0.8])({box})")  # fmt: skip
    page.mouse.click(x, y)
    expect(page.locator("#stepper")).to_contain_text("Step 11")
    expect(page).to_have_url(re.compile(r"step=11"))


def test_a_sentence_leads_to_its_proof(page: Page) -> None:
    page.locator(".sentence", has_text="The median step").get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"/timeline\?.*sel=span:[0-9a-f]{16}"))


@pytest.mark.slow
def test_every_sentence_names_its_proof_and_leads_to_it_from_anywhere_on_it(page: Page) -> None:
    said = page.locator("h1 > div, .sentence:not(.remark)")
    expect(said.nth(3)).to_be_visible()
    for one in said.all():
        assert one.get_attribute("data-spans") or one.get_attribute("data-source")
    path = page.locator(".sentence", has_text="critical path")
    first = str(path.get_attribute("data-spans")).split()[0]
    words = path.locator("> span").last.bounding_box()
    assert words is not None
    page.mouse.click(words["x"] + 20, words["y"] + words["height"] / 2)
    expect(page).to_have_url(re.compile(rf"/timeline\?step=\d+&sel=span:{first}"))
    expect(page.locator("#strip .selected")).not_to_be_empty()


def test_what_to_look_at_next_names_the_spans_that_prove_it(page: Page) -> None:
    hints = page.locator(".hints > *")
    expect(hints.first).to_be_visible()
    for hint in hints.all():
        spans = str(hint.get_attribute("data-spans")).split()
        assert f"sel=span:{spans[0]}" in str(hint.get_attribute("href"))


def test_charts_follow_the_theme(page: Page) -> None:
    def colour() -> str:
        return str(
            page.locator("#summary-columns .xtick text").first.evaluate(
                "text => getComputedStyle(text).fill"
            )
        )

    before = colour()
    page.get_by_role("button", name="Theme: light, dark, projector").click()
    page.wait_for_function(
        "before => getComputedStyle(document.querySelector('#summary-columns .xtick text')).fill"
        " !== before",
        arg=before,
    )


@pytest.mark.slow
def test_no_chart_has_a_mode_bar(page: Page) -> None:
    assert page.locator(".modebar-btn").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark", "projector"])
def test_a_run_that_ended_well_is_summed_up_on_one_screen(
    tab: Tab, dashboard: Dashboard, theme: str
) -> None:
    page = tab(f"{dashboard.url}t/{dashboard.run}/summary?theme={theme}")
    page.wait_for_selector("#summary-columns .main-svg")
    page.wait_for_function(
        "() => { const main = document.querySelector('main');"
        " return main.scrollHeight <= main.clientHeight; }"
    )
