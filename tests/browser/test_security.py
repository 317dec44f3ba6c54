"""Names from a trace are text; pages work offline and behind a prefix."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import reload, serving
from tests.store.sample_trace import training_step, write_trace
from vizdist.store.index import path_id
from vizdist.store.library import Library

pytestmark = pytest.mark.browser
Tab = Callable[..., Page]

SCRIPT = '<img src=x onerror="window.owned=1"><b>**x**</b>{0}'


@pytest.fixture
def hostile_run(tmp_path: Path) -> Path:
    steps = [
        span._replace(name=SCRIPT) for n in range(4) for span in training_step(n + 1, at=n * 1500)
    ]
    return write_trace(
        tmp_path / "x.trace",
        steps,
        workload=SCRIPT,
        strategy=SCRIPT,
        error=SCRIPT,
        outcome="failed",
    )


def test_markup_in_names_is_shown_as_text(tab: Tab, hostile_run: Path) -> None:
    for url in serving(Library([hostile_run])):
        page = tab(url)
        expect(page.locator(".run")).to_contain_text("<img src=x")
        page.goto(f"{url}t/{path_id(hostile_run)}/summary?sel=span:{102:016x}")
        page.wait_for_selector("#summary-columns .main-svg")
        expect(page.locator("#strip")).to_contain_text("<img src=x")
        assert page.evaluate("window.owned") is None
        expect(page.locator("main img, header img, #strip img")).to_have_count(0)


def test_everything_works_below_a_prefix(tab: Tab, training_run: Path) -> None:
    for url in serving(Library([training_run]), prefix="/user/me/proxy/8050/"):
        page = tab(url)
        page.locator(".run").click()
        page.wait_for_selector("#summary-columns .main-svg")
        assert page.url.startswith(f"{url}t/")
        reload(page)
        page.wait_for_selector("#summary-columns .main-svg")
        page.keyboard.press("]")
        expect(page.locator("#stepper")).to_contain_text("Step 2")
