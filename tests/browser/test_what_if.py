"""What would save time stands beside what is selected, in the words of the report."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.analysis.sample_run import sample_run
from tests.browser.conftest import Dashboard
from vizdist.analysis.report import report_text
from vizdist.store.trace import Trace

pytestmark = pytest.mark.browser
Tab = Callable[..., Page]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return sample_run(tmp_path_factory.mktemp("sample") / "sample.trace")


@pytest.fixture(scope="module")
def served(trace: Trace, serve: Callable[[Path], Dashboard]) -> Dashboard:
    return serve(trace.path)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["timeline", "graph"])
def test_an_op_says_what_it_costs_the_step(
    tab: Tab, served: Dashboard, trace: Trace, page: str
) -> None:
    shown = tab(f"{served.url}t/{served.run}/{page}?step=1&sel=node:mm")
    tried = shown.locator(".what-if p", has_text="mm were free")
    expect(tried).to_be_visible()
    assert tried.inner_text().strip() in report_text(trace, 1)
