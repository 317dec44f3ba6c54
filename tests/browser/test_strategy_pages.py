"""Strategy, Collectives and Variables on a real mirrored run: what is drawn is what spans say."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Dashboard, axe_faults, overflow
from tests.captured import MLP
from vizdist.analysis.collectives import of_step
from vizdist.analysis.replicas import builds, works
from vizdist.analysis.variables import variables
from vizdist.store.trace import Trace, open_trace

pytestmark = pytest.mark.browser
Tab = Callable[..., Page]
Run = tuple[Trace, Dashboard]

RING = (
    "digits-mlp", "--strategy", "mirrored", "--devices", "cpu:3", "--steps", "4",
    "--option", "cross_device_ops=ring", "--in-process",
)  # fmt: skip
PAGES = ("strategy", "collectives", "variables")


@pytest.fixture(scope="module")
def run(captured: Callable[..., Path], serve: Callable[[Path], Dashboard]) -> Run:
    folder = captured(*RING)
    return open_trace(folder), serve(folder)


@pytest.fixture
def open_page(tab: Tab, run: Run) -> Callable[..., Page]:
    def opened(name: str, query: str = "&step=2&lang=en", **size: int) -> Page:
        page = tab(f"{run[1].url}t/{run[1].run}/{name}?{query.lstrip('&')}", **size)
        expect(page.locator(f"#{name}-head")).not_to_be_empty(timeout=20_000)
        expect(page.locator(f"#{name}-page svg").first).to_be_visible()
        return page

    return opened


def test_each_rank_has_a_bar_that_selects_its_span_and_hops_go_round(
    open_page: Callable[..., Page], run: Run
) -> None:
    [one] = of_step(run[0], 2)
    page = open_page("collectives")
    bars = page.locator("#collectives-arrival [role=button]")
    expect(bars).to_have_count(3)
    assert {bar.get_attribute("data-sel") for bar in bars.all()} == {
        f"span:{rank.span}" for rank in one.ranks
    }
    bars.first.click()
    expect(page.locator("#strip .selected")).to_contain_text(one.of)
    hops = page.locator("#collectives-ring .hop-text")
    expect(hops).to_have_count(3)
    expect(page.locator("#collectives-at")).to_have_text("1 / 4")
    for _ in range(3):
        page.locator("[data-hop=forward]").click()
    expect(page.locator("#collectives-at")).to_have_text("4 / 4")
    expect(page.locator("#collectives-ring .cell-text")).to_have_text(["3"] * 9)


def test_turns_of_the_build_and_devices_of_the_step_have_their_lanes(
    open_page: Callable[..., Page], run: Run
) -> None:
    [build] = builds(run[0])
    page = open_page("strategy")
    turns = page.locator("#strategy-build [role=button]")
    expect(turns).to_have_count(len(build.turns))
    expect(page.locator("#strategy-run .rank-name")).to_have_text(["CPU:0", "CPU:1", "CPU:2"])
    rows = page.locator("#strategy-roles tbody tr")
    expect(rows).to_have_count(len(works(run[0], [run[0].step(2)])))
    turns.first.click()
    expect(page.locator("#strip .selected")).to_contain_text("replica.build")


def test_equal_copies_have_equal_prints_and_a_click_shows_the_versions_of_another(
    open_page: Callable[..., Page], run: Run
) -> None:
    found = variables(run[0], 2)
    page = open_page("variables")
    prints = page.locator("#variables-copies td:not(.read) [data-print]")
    expect(prints).to_have_count(3 * len(found))
    told = [mark.get_attribute("data-print") for mark in prints.all()]
    assert told == [copy.print for one in found for copy in one.copies]
    expect(page.locator("#variables-copies tr.equal")).to_have_count(len(found))
    page.locator("#variables-copies .variable", has_text="fc2/bias").click()
    expect(page.locator("#variables-stairs-says")).to_contain_text("fc2/bias")


def test_tiles_of_a_parameter_server_are_as_large_as_its_variables(
    captured: Callable[..., Path], serve: Callable[[Path], Dashboard], tab: Tab
) -> None:
    folder = captured(*MLP)
    served = serve(folder)
    found = variables(open_trace(folder), 3)
    page = tab(f"{served.url}t/{served.run}/variables?step=3&lang=en")
    tiles = page.locator(".treemap-tile")
    expect(tiles).to_have_count(len(found))
    areas = tiles.evaluate_all("all => all.map((one) => one.offsetWidth * one.offsetHeight)")
    assert areas[0] / sum(areas) == pytest.approx(
        found[0].bytes / sum(one.bytes for one in found), abs=0.03
    )
    page.locator(".treemap-tile", has_text="fc2/weight").click()
    expect(page.locator("#variables-stairs-says")).to_contain_text("fc2/weight")
    expect(page.locator(".missed-row")).to_have_count(1)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("look", ["lang=en&theme=dark", "lang=zh&theme=light"])
@pytest.mark.parametrize("width", [1440, 390])
def test_the_pages_are_accessible_and_fit(
    open_page: Callable[..., Page], name: str, look: str, width: int
) -> None:
    page = open_page(name, f"step=2&{look}", width=width)
    assert axe_faults(page) == []
    assert overflow(page) == []
