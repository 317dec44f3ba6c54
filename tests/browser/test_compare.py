"""Compare: from the Library to two runs side by side, drawn as their spans say."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import axe_faults, overflow, serving
from tests.store.sample_trace import EPOCH, training_step, write_trace
from vizdist.store.columns import SpanRecord
from vizdist.store.index import path_id
from vizdist.store.library import Library

pytestmark = pytest.mark.browser
Tab = Callable[..., Page]

STEPS, APART, LATE = 5, 10_000, 3_000
FAST_NS = 1_000  #: a step of fast; slow takes LATE more


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """fast and slow differ in how long an op takes and in their seed; plain has no steps."""
    folder = tmp_path_factory.mktemp("compared")
    asked = {"workload": "digits-mlp", "strategy": "parameter_server_v1", "steps": STEPS}
    spans = [span for n in range(STEPS) for span in training_step(n + 1, at=n * APART)]
    write_trace(folder / "fast.trace", spans, **asked)
    write_trace(folder / "slow.trace", map(_late, spans), seed=7, **asked)
    plain = [span._replace(step=0) for span in training_step(1)]
    write_trace(folder / "plain.trace", plain, run_id="")
    return folder


def _late(span: SpanRecord) -> SpanRecord:
    """What ends or begins after the step's first 400 ns does so later."""
    turns = EPOCH + (span.step - 1) * APART + 400
    moved = {
        name: at + LATE
        for name in ("start", "end", "ready")
        if (at := getattr(span, name)) >= turns
    }
    return span._replace(**moved)


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    yield from serving(Library([folder]))


def runs_of(folder: Path, *names: str) -> str:
    return ",".join(path_id(folder / f"{name}.trace") for name in names)


def runs_in(page: Page) -> str:
    return parse_qs(urlsplit(page.url).query)["runs"][0]


def compared(url: str, folder: Path, *names: str, query: str = "&lang=en") -> str:
    return f"{url}compare?runs={runs_of(folder, *names)}{query}"


def test_a_row_of_the_library_leads_to_two_runs_side_by_side(
    tab: Tab, url: str, folder: Path
) -> None:
    page = tab(f"{url}?lang=en")
    page.get_by_role("link", name="Compare fast with another run").click()
    expect(page.get_by_role("heading", name="Choose what to compare fast with")).to_be_visible()
    page.get_by_role("link", name="slow · parameter_server_v1").click()
    expect(page.locator("h1")).to_contain_text("B takes 4.00 µs a step, 4.00 times as long as A")
    expect(page.locator("h1")).to_contain_text("They differ in seed (0 against 7).")
    assert runs_in(page) == runs_of(folder, "fast", "slow")
    page.reload()
    expect(page.locator("h1")).to_contain_text("4.00 times as long as A")
    page.go_back()
    expect(page.get_by_role("heading", name="Choose what to compare fast with")).to_be_visible()


@pytest.mark.parametrize("width", [1440, 390])
def test_both_steps_are_drawn_on_one_clock(tab: Tab, url: str, folder: Path, width: int) -> None:
    page = tab(compared(url, folder, "fast", "slow"), width=width)
    expect(page.locator(".clock-run")).to_have_count(2)
    page.wait_for_selector("#compare-loss .main-svg, .loss p")  # after which nothing moves
    ends = page.locator(".clock-end span").evaluate_all(
        "spans => spans.map(span => Number.parseFloat(span.style.left))"
    )
    assert ends[1] / ends[0] == pytest.approx((FAST_NS + LATE) / FAST_NS, rel=0.001)
    runs = [f".clock-run:nth-child({place} of .clock-run)" for place in (1, 2)]
    fills = [f"{run} .fill-compute" for run in runs]
    axis, track, fast, slow = page.evaluate(
        """(parts) => parts.map((part) => {
          const { x, width } = document.querySelector(part).getBoundingClientRect();
          return [x, width];
        })""",
        [".clock-axis", ".clock-track", *fills],
    )
    assert track == pytest.approx(axis, abs=1)
    assert slow[1] / fast[1] == pytest.approx((200 + LATE) / 200, rel=0.1)
    assert slow[0] == pytest.approx(fast[0], abs=1)


def test_the_numbers_of_a_card_are_those_of_the_steps(tab: Tab, url: str, folder: Path) -> None:
    page = tab(compared(url, folder, "fast", "slow"))
    row = page.locator(".split tr", has_text="compute")
    expect(row.locator("td").nth(0)).to_have_text("0")
    expect(row.locator("td").nth(1)).to_have_text("3")
    expect(row.locator("td").nth(2)).to_have_text("+3")
    expect(page.locator(".bytes")).to_contain_text("256 B")
    expect(page.locator(".card.facts")).to_contain_text("Alike: workload digits-mlp")
    expect(page.locator(".graphs")).to_contain_text("No graph of A, B was recorded.")


@pytest.mark.slow
def test_keys_go_along_the_steps_that_all_runs_hold(tab: Tab, url: str, folder: Path) -> None:
    page = tab(compared(url, folder, "fast", "slow"))
    expect(page.locator("#stepper")).to_contain_text("Median step")
    page.locator("body").press("]")
    expect(page.locator("#stepper")).to_contain_text("Step 1")
    expect(page.locator(".clock-head h2")).to_contain_text("step 1 of each run")
    expect(page).to_have_url(re.compile("step=1"))
    page.go_back()
    expect(page.locator("#stepper")).to_contain_text("Median step")


@pytest.mark.slow
def test_a_field_puts_a_third_run_beside_the_two(tab: Tab, url: str, folder: Path) -> None:
    page = tab(compared(url, folder, "fast", "slow"))
    page.get_by_role("textbox", name="Run C").press("ArrowDown")
    page.get_by_role("option", name="plain").click()
    expect(page.locator(".clock-run")).to_have_count(3)
    expect(page.locator("h1")).to_contain_text("C holds no step")
    assert runs_in(page) == runs_of(folder, "fast", "slow", "plain")


@pytest.mark.slow
def test_the_same_run_twice_has_no_difference(tab: Tab, url: str, folder: Path) -> None:
    page = tab(compared(url, folder, "slow", "slow"))
    expect(page.locator("h1")).to_contain_text("No difference: A and B are alike")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ("0123456789abcdef", "No run with the id 0123456789abcdef is open here"),
        ("a,b,c,d,e", "5 runs are too many to compare"),
        ("", "Choose a run to begin with"),
    ],
)
def test_an_address_that_compares_nothing_says_what_to_do(
    tab: Tab, url: str, runs: str, said: str
) -> None:
    page = tab(f"{url}compare?runs={runs}&lang=en")
    expect(page.get_by_role("heading", name=said)).to_be_visible()


def test_on_a_phone_every_swatch_of_three_runs_stands_within_its_card(
    tab: Tab, url: str, folder: Path
) -> None:
    page = tab(compared(url, folder, "fast", "slow", "fast"), width=390, height=844)
    swatches = page.locator(".card .beside .swatch")
    expect(swatches.first).to_be_visible()
    inset = """all => Math.min(...all.map(
        e => e.getBoundingClientRect().left - e.closest('.card').getBoundingClientRect().left))"""
    assert swatches.evaluate_all(inset) > 8  # px; the card's own padding is more


@pytest.mark.slow
@pytest.mark.parametrize("query", ["&theme=light", "&theme=dark&lang=zh", "&theme=projector"])
@pytest.mark.parametrize("width", [1440, 390])
def test_compare_is_accessible_and_fits(
    tab: Tab, url: str, folder: Path, width: int, query: str
) -> None:
    address = compared(url, folder, "fast", "slow", query=query)
    page = tab(address, width=width, height=900 if width > 700 else 844)
    page.wait_for_selector("#compare-loss .main-svg, .loss p")
    expect(page.locator(".card.facts")).to_be_visible()
    assert axe_faults(page) == []
    assert overflow(page) == []
