"""The panel that starts a run: its parts follow what is chosen, and what it starts is real."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.analysis.test_expected_time import library as library_of_one_run
from tests.browser.conftest import axe_faults, overflow, serving
from vizdist.store.library import Library

pytestmark = pytest.mark.browser
Tab = Callable[..., Page]


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    yield from serving(Library([tmp_path]))


@pytest.fixture
def library(url: str, tab: Tab) -> Tab:
    """Opens the Library; its server ends after the tab, which listens to it."""
    return lambda query="", **size: tab(f"{url}{query}", **size)


def fields(page: Page) -> list[str]:
    return page.locator("#start-run > .fields > label > span").all_inner_texts()


def test_the_fields_and_the_command_line_follow_what_is_chosen(library: Tab) -> None:
    page = library()
    line = page.locator(".command-line")
    expect(line).to_have_text(
        "tracer run digits-mlp --strategy parameter_server_v1 --workers 2 --ps 1 --devices cpu:1 "
        "--steps 50"
    )
    page.get_by_label("Strategy", exact=True).select_option("mirrored")
    assert fields(page) == ["Workload", "Strategy", "Devices of each", "Steps", "Seed"]
    page.get_by_label("Steps").fill("7")
    page.get_by_text("Options", exact=True).click()
    page.get_by_label("cross_device_ops").select_option("tree")
    expect(line).to_have_text(
        "tracer run digits-mlp --strategy mirrored --devices cpu:2 --steps 7 "
        "--option cross_device_ops=tree"
    )
    page.get_by_label("Workload", exact=True).select_option("diamond")
    expect(line).to_have_text("tracer run diamond --steps 7")
    assert not axe_faults(page)


def test_the_tasks_are_sketched_and_a_fault_is_of_one_of_them(library: Tab) -> None:
    page = library()
    tasks = page.locator(".sketch .task")
    expect(tasks).to_have_text(["ps:0 CPU:0", "worker:0 CPU:0", "worker:1 CPU:0"])
    page.get_by_label("Workers", exact=True).fill("3")
    page.get_by_label("Fault", exact=True).select_option("delay")
    page.get_by_label("Which task").select_option("worker:2")
    page.get_by_label("Late by, in ms").fill("20")
    expect(page.locator(".command-line")).to_contain_text("--fault delay=20:worker:2@step:5")
    expect(page.locator(".sketch .struck")).to_have_text("worker:2 CPU:0")
    assert not axe_faults(page)
    page.get_by_label("Workers", exact=True).fill("2")
    expect(page.locator(".command-line")).to_contain_text("--fault delay=20:worker:1@step:5")
    page.get_by_label("Strategy", exact=True).select_option("mirrored")
    expect(tasks).to_have_text(["worker:0 CPU:0…1"])
    expect(page.locator(".command-line")).not_to_contain_text("--fault")
    page.get_by_label("Workload", exact=True).select_option("diamond")
    expect(page.locator(".sketch")).to_have_text("The graph names its own tasks and devices.")


def test_how_long_it_will_take_is_told_by_a_run_before(library: Tab, tmp_path: Path) -> None:
    made = library_of_one_run(tmp_path)
    assert made.entries()
    page = library()
    page.get_by_label("Workers", exact=True).fill("1")
    told = page.locator(".expected")
    expect(told).to_contain_text("the last run like it, before, took 10.0 s for 3 steps")
    page.get_by_label("Workers", exact=True).fill("2")
    expect(told).to_have_text("")


@pytest.mark.slow
@pytest.mark.parametrize(("lang", "width"), [("en", 1440), ("zh", 1440), ("en", 390), ("zh", 390)])
def test_the_panel_fits_beside_the_runs_and_below_them(library: Tab, lang: str, width: int) -> None:
    page = library(f"?lang={lang}&theme=dark", width=width)
    page.locator("#start-run summary").click()
    page.locator("#start-run > .fields select").nth(2).select_option("delay")
    expect(page.locator(".start-form .option").first).to_be_visible()
    assert not overflow(page)
    assert not axe_faults(page)


def started(page: Page, steps: int) -> Locator:
    """Asks for a run on one device; what the panel says of it."""
    page.get_by_label("Strategy", exact=True).select_option("one_device")
    page.get_by_label("Steps").fill(str(steps))
    page.get_by_role("button", name="Start").click()
    return page.locator(".start-says")


@pytest.mark.slow
@pytest.mark.cluster
def test_a_run_started_here_shows_up_runs_and_ends(library: Tab) -> None:
    page = library()
    says = started(page, steps=300)
    expect(says).to_contain_text(re.compile("come up|It runs"))
    row = page.locator(".run")
    expect(row).to_contain_text("one_device", timeout=120_000)
    expect(says).to_have_attribute("data-phase", "done", timeout=120_000)
    expect(row).to_contain_text("none, all spans written", timeout=60_000)
    says.get_by_role("link").click()
    page.wait_for_function("location.pathname.endsWith('/summary')")


@pytest.mark.slow
@pytest.mark.cluster
def test_a_run_that_is_stopped_says_so(library: Tab) -> None:
    page = library()
    says = started(page, steps=10_000)
    expect(says).to_have_attribute("data-phase", "running", timeout=120_000)
    says.get_by_role("button", name="Stop it").click()
    expect(says).to_contain_text("It failed: interrupted", timeout=60_000)
