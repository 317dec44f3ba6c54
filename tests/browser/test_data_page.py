"""The Data page: every cell is a recount of the spans, in both languages, also on a phone."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.analysis.data_run import data_run
from tests.browser.conftest import Dashboard, axe_faults, overflow
from tests.strategies.inputs_golden import elements, files, rows
from vizdist.analysis.who_saw_what import who_saw_what
from vizdist.store.trace import Trace

pytestmark = pytest.mark.browser
Tab = Callable[..., Page]
Run = tuple[Trace, Dashboard]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def auto(folder: Path, serve: Callable[[Path], Dashboard]) -> Run:
    """Two workers of two replicas; the last global batch has five of eight examples."""
    dataset = rows(elements(21), 8)
    losses = ["2,4", "1,3", "2,"]
    trace = data_run(folder / "auto.trace", dataset, replicas=2, losses=losses)
    return trace, serve(folder / "auto.trace")


@pytest.fixture
def open_page(tab: Tab, auto: Run) -> Callable[..., Page]:
    def opened(query: str = "&step=2", lang: str = "en", **size: int) -> Page:
        _, served = auto
        page = tab(f"{served.url}t/{served.run}/data?lang={lang}{query}", **size)
        expect(page.locator("#data-head span")).to_be_visible()
        return page

    return opened


def ends_with_window(page: Page) -> bool:
    """Nothing is to be scrolled to but within cards, and the lowest ones touch the margin."""
    return bool(
        page.evaluate(
            """() => {
              const main = document.querySelector("main");
              const end = main.getBoundingClientRect().bottom;
              const last = [...document.querySelectorAll("#data-page > div > :last-child")];
              return main.scrollHeight <= main.clientHeight && last.every((card) =>
                Math.abs(end - 16 - card.getBoundingClientRect().bottom) < 2);
            }"""
        )
    )


def cells(page: Page) -> dict[tuple[int, str], int]:
    """(example, row) → step, as drawn."""
    found = page.evaluate(
        """() => [...document.querySelectorAll(".examples")].flatMap((table) => {
          const [head, ...rows] = [...table.rows];
          return rows.flatMap((row) => [...row.cells].flatMap((cell, at) =>
            /level/.test(cell.className)
              ? [[Number(head.cells[at].textContent), row.cells[0].textContent,
                  Number(cell.textContent)]] : []));
        })"""
    )
    return {(example, row): step for example, row, step in found}


def test_the_page_says_what_became_of_the_policy_and_every_cell_is_a_recount(
    open_page: Callable[..., Page], auto: Run
) -> None:
    page = open_page()
    expect(page.locator("#data-head")).to_contain_text("AUTO became DATA: each of 2 workers")
    trace, _ = auto
    assert cells(page) == {
        (example, f"{part.task} · {part.replica}"): part.step
        for part in who_saw_what(trace, 2).parts
        for example in part.ids or ()
    }
    expect(page.locator("td.now")).to_have_count(8)
    expect(page.locator(".tiles").first).to_contain_text("worker:0")
    assert ends_with_window(page)
    cut = page.locator("#data-cut")
    assert cut.evaluate("(e) => e.scrollHeight <= e.clientHeight"), "all of the cut is seen"
    assert not overflow(page)
    assert not axe_faults(page)


@pytest.mark.slow
def test_a_step_chosen_in_the_chart_or_by_a_key_moves_the_whole_page(
    open_page: Callable[..., Page],
) -> None:
    page = open_page()
    page.keyboard.press("]")
    expect(page.locator("td.now")).to_have_count(5)
    expect(page.locator(".one-cut.now h3")).to_have_text("5 examples in step 3")
    expect(page.locator(".one-cut.now td")).to_have_text(["2", "1", "2", "0"])
    expect(page.locator(".one-cut.now .nothing")).to_have_count(1)
    page.locator(".one-cut:not(.now) a").click()
    page.wait_for_function("new URLSearchParams(location.search).get('step') === '1'")
    expect(page.locator(".one-cut.now h3")).to_have_text("8 examples in step 1")


@pytest.mark.slow
def test_a_sentence_leads_to_the_spans_that_prove_it(open_page: Callable[..., Page]) -> None:
    page = open_page()
    said = page.locator("#data-said .sentence", has_text="empty batch")
    expect(said).to_contain_text("Replica 1 of worker:1 got an empty batch in step 3")
    span = str(said.get_attribute("data-spans")).split()[0]
    said.locator("a").click()
    page.wait_for_function("location.pathname.endsWith('/timeline')")
    page.wait_for_function(f"location.search.includes('{span}')")


@pytest.mark.slow
def test_a_batch_of_ninety_over_twelve_replicas_fills_the_page_and_follows_the_step(
    tab: Tab, serve: Callable[[Path], Dashboard], folder: Path
) -> None:
    data_run(folder / "many.trace", rows(elements(90 * 3), 90), workers=4, replicas=3)
    served = serve(folder / "many.trace")
    page = tab(f"{served.url}t/{served.run}/data?lang=en&step=2")
    expect(page.locator("td.now")).to_have_count(90)
    page.keyboard.press("]")
    expect(page.locator(".one-cut.now h3")).to_have_text("90 examples in step 3")
    expect(page.locator("td.now")).to_have_count(90)
    assert len(cells(page)) == 90


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark", "projector"])
@pytest.mark.parametrize(("lang", "width"), [("en", 1440), ("zh", 1440), ("en", 390), ("zh", 390)])
def test_nothing_pokes_out_and_axe_finds_nothing(
    open_page: Callable[..., Page], theme: str, lang: str, width: int
) -> None:
    page = open_page(f"&step=3&theme={theme}", lang, width=width, height=844)
    expect(page.locator("#data-sizes .bars").first).to_be_attached()
    assert not overflow(page)
    assert not axe_faults(page)


@pytest.mark.slow
def test_the_key_x_goes_there_and_a_run_without_data_says_what_is_missing(
    tab: Tab, serve: Callable[[Path], Dashboard], folder: Path, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    page.keyboard.press("t")
    page.wait_for_function("location.pathname.endsWith('/timeline')")
    page.keyboard.press("x")
    page.wait_for_function("location.pathname.endsWith('/data')")
    data_run(folder / "none.trace", steps=0)
    served = serve(folder / "none.trace")
    bare = tab(f"{served.url}t/{served.run}/data?lang=en")
    expect(bare.locator(".empty")).to_contain_text("does not say which examples were seen")


@pytest.mark.slow
def test_a_refused_policy_stands_in_a_frame_with_its_rule(
    tab: Tab, serve: Callable[[Path], Dashboard], folder: Path
) -> None:
    data_run(folder / "refused.trace", rows(files(8), 4), autoshard="FILE")
    served = serve(folder / "refused.trace")
    page = tab(f"{served.url}t/{served.run}/data?lang=en")
    expect(page.locator(".refused")).to_contain_text("the dataset only has 1 file(s)")
    expect(page.locator("#data-head")).to_contain_text("refused at the first batch of worker:0")
    assert not axe_faults(page)
