"""The frame: address, Back, theme, language, keys, small screens."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Dashboard, axe_faults, listening, overflow, reload, serving
from vizdist.store.library import Library

pytestmark = pytest.mark.browser
Tab = Callable[..., Page]


def summary(dashboard: Dashboard, query: str = "") -> str:
    return f"{dashboard.url}t/{dashboard.run}/summary{query}"


def test_the_step_is_in_the_address_and_back_undoes_it(tab: Tab, dashboard: Dashboard) -> None:
    page = tab(summary(dashboard, "?step=12"))
    expect(page.locator("#stepper")).to_contain_text("Step 12")
    page.keyboard.press("]")
    expect(page.locator("#stepper")).to_contain_text("Step 13")
    expect(page).to_have_url(re.compile(r"step=13"))
    page.go_back()
    expect(page.locator("#stepper")).to_contain_text("Step 12")


def test_a_selection_lives_in_the_address_and_escape_clears_it(
    tab: Tab, dashboard: Dashboard
) -> None:
    page = tab(summary(dashboard, "?step=3&sel=node:mm"))
    expect(page.locator("#strip")).to_contain_text("MatMul · worker:0")
    reload(page)
    expect(page.locator("#strip")).to_contain_text("mm")
    page.locator("main").click(position={"x": 4, "y": 4})
    page.keyboard.press("Escape")
    expect(page.locator("#strip")).to_contain_text("Step 3")
    expect(page).not_to_have_url(re.compile(r"sel="))
    page.go_back()
    expect(page.locator("#strip")).to_contain_text("mm")


@pytest.mark.slow
def test_a_link_keeps_what_the_viewer_looks_at(tab: Tab, dashboard: Dashboard) -> None:
    page = tab(summary(dashboard, "?step=3&sel=node:mm&lang=zh"))
    page.locator("#rail .rail-item", has_text="运行库").click()
    expect(page).to_have_url(re.compile(r"/\?lang=zh$"))
    page.go_back()
    expect(page).to_have_url(re.compile(r"sel=node:mm"))


def test_the_language_changes_in_place(tab: Tab, dashboard: Dashboard) -> None:
    page = tab(summary(dashboard, "?step=4"))
    page.get_by_role("button", name="切换到中文").click()
    expect(page.locator("#stepper")).to_contain_text("第 4 步")
    expect(page.locator("html")).to_have_attribute("lang", "zh")
    expect(page).to_have_title(re.compile("概要"))


@pytest.mark.slow
def test_the_theme_is_kept_for_the_next_visit(tab: Tab, dashboard: Dashboard) -> None:
    page = tab(summary(dashboard, "?theme=light"))
    switch = page.get_by_role("button", name="Theme: light, dark, projector")
    switch.click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    switch.click()
    expect(page).to_have_url(re.compile("theme=projector"))
    page.goto(dashboard.url)
    page.wait_for_selector("main > *")
    expect(page.locator("html")).to_have_attribute("data-theme", "projector")


def test_the_first_answer_is_the_whole_page(tab: Tab, dashboard: Dashboard) -> None:
    """Asked for once, while the scripts load; no callback fills the shell afterwards."""
    page = tab(dashboard.url)
    asked: list[tuple[str, str]] = []
    page.on("request", lambda request: asked.append((request.url, request.post_data or "")))
    page.goto(summary(dashboard, "?step=12&sel=node:mm&lang=zh"))
    listening(page)
    expect(page.locator("#stepper")).to_contain_text("第 12 步")
    expect(page.locator("#strip")).to_contain_text("MatMul")
    assert len([url for url, _ in asked if "_dash-layout" in url]) == 1
    calls = [body for url, body in asked if "_dash-update" in url]
    assert calls
    assert not [one for one in calls if re.search(r"\b(main|rail|header|strip)\.children", one)]


def test_an_unknown_run_says_what_to_do(tab: Tab, dashboard: Dashboard) -> None:
    page = tab(f"{dashboard.url}t/0123456789abcdef/summary", is_lost=True)
    expect(page.locator("main")).to_contain_text("vizdist serve NAME.trace")


def test_keys_are_listed(tab: Tab, dashboard: Dashboard) -> None:
    page = tab(summary(dashboard))
    page.locator("body").press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Previous, next step")


def test_tab_goes_from_skip_link_to_header_to_rail(tab: Tab, dashboard: Dashboard) -> None:
    page = tab(summary(dashboard))
    expect(page.locator("#stepper")).to_be_visible()
    expect(page.locator("#rail .rail-item").first).to_be_visible()
    places = []
    for _ in range(10):
        page.keyboard.press("Tab")
        places.append(page.evaluate("document.activeElement.closest('[id]').id"))
    order = list(dict.fromkeys(places))
    assert order[:1] == ["skip"]
    assert order.index("header") < order.index("rail")


@pytest.mark.parametrize("where", ["summary", "graph", "timeline"])
def test_searching_selects_what_was_found(tab: Tab, dashboard: Dashboard, where: str) -> None:
    page = tab(f"{dashboard.url}t/{dashboard.run}/{where}?step=3")
    expect(page.locator("#search")).to_be_visible()
    page.locator("body").press("/")
    page.keyboard.type("update w")
    expect(page.get_by_role("option").first).to_contain_text("update_w")
    page.keyboard.press("Enter")
    expect(page.locator("#strip")).to_contain_text("ResourceApplyGradientDescent · ps:0")
    expect(page).to_have_url(re.compile(r"sel=node:update_w"))
    expect(page.get_by_role("listbox")).to_be_hidden()


@pytest.mark.slow
def test_a_step_is_found_by_its_number(tab: Tab, dashboard: Dashboard) -> None:
    page = tab(summary(dashboard, "?sel=node:mm"))
    expect(page.locator("#search")).to_be_visible()
    page.locator("body").press("/")
    page.keyboard.type("step 17")
    page.get_by_role("option").first.click()
    expect(page.locator("#stepper")).to_contain_text("Step 17")
    expect(page).to_have_url(re.compile(r"sel=node:mm"))


@pytest.mark.slow
def test_enter_takes_nothing_that_other_words_found(tab: Tab, dashboard: Dashboard) -> None:
    page = tab(summary(dashboard, "?step=3"))
    expect(page.locator("#search")).to_be_visible()
    page.locator("body").press("/")
    page.keyboard.type("step 17")
    expect(page.get_by_role("option").first).to_contain_text("17")
    held: list[Route] = []

    def hold(asked: Route) -> None:
        held.append(asked)

    page.route("**/search?q=update*", hold)
    with page.expect_request("**/search?q=update*"):
        page.locator("#search").fill("update w")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#search")).to_be_focused()
    expect(page).to_have_url(re.compile(r"step=3$"))
    held[0].continue_()
    expect(page.get_by_role("option").first).to_contain_text("update_w")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"sel=node:update_w"))


@pytest.mark.slow
def test_words_that_the_run_does_not_hold_say_so(tab: Tab, dashboard: Dashboard) -> None:
    page = tab(summary(dashboard))
    expect(page.locator("#search")).to_be_visible()
    page.locator("body").press("/")
    page.keyboard.type("no such thing")
    expect(page.locator("#found")).to_contain_text("Nothing in this run")
    assert axe_faults(page) == []
    page.keyboard.press("Escape")
    expect(page.locator("#found")).to_be_hidden()


def test_tabs_are_independent_and_any_server_may_answer(
    tab: Tab, dashboard: Dashboard, training_run: Path
) -> None:
    first = tab(summary(dashboard, "?step=3&sel=node:mm&lang=en"))
    second = tab(summary(dashboard, "?step=5&lang=en"))
    expect(second.locator("#strip")).to_contain_text("Step 5")
    second.keyboard.press("]")
    expect(second.locator("#strip")).to_contain_text("Step 6")
    expect(first.locator("#strip")).to_contain_text("MatMul · worker:0")
    for url in serving(Library([training_run])):
        third = tab(first.url.replace(dashboard.url, url))
        expect(third.locator("#strip")).to_contain_text("MatMul · worker:0")
        expect(third.locator("#stepper")).to_contain_text("Step 3")
        third.close()


@pytest.mark.parametrize(
    "query",
    [
        "?theme=dark",
        "?theme=light&lang=zh",
        pytest.param("?theme=light", marks=pytest.mark.slow),
        pytest.param("?theme=projector", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("where", ["", "summary"])
def test_pages_are_accessible_and_fit(
    tab: Tab, dashboard: Dashboard, where: str, width: int, query: str
) -> None:
    path = f"t/{dashboard.run}/{where}" if where else ""
    page = tab(f"{dashboard.url}{path}{query}", width=width, height=900 if width > 700 else 844)
    page.wait_for_selector("#summary-columns .main-svg" if where else ".run")
    assert axe_faults(page) == []
    assert overflow(page) == []


def test_a_phone_has_room_for_four_pages_and_the_rest_is_behind_more(
    tab: Tab, dashboard: Dashboard
) -> None:
    page = tab(f"{dashboard.url}t/{dashboard.run}/summary?lang=en", width=390, height=844)
    bar = page.locator("#tabs")
    expect(bar.locator("> *")).to_have_count(5)
    more = bar.get_by_text("More")
    more.click()
    assert overflow(page) == []
    bar.get_by_role("link", name="Reference").click()
    expect(page).to_have_url(re.compile("/reference"))
    expect(bar.locator("details")).to_have_count(0)
