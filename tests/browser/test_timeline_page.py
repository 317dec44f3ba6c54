"""The Timeline page: what is drawn is what the store holds, and it moves as hands expect."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Dashboard, axe_faults, overflow, reload, still, told
from tests.store.sample_trace import EPOCH, training_step, write_trace
from tracer.model.trace_folder import Flag
from vizdist.store.columns import SpanRecord

pytestmark = pytest.mark.browser
Tab = Callable[..., Page]

WINDOW = re.compile(r"t0=-?\d+&t1=\d+")  #: in the address
PAYLOAD = "<img src=x onerror=alert(1)>"
MARKS = [
    ("no length", 0, 0, 0),
    ("300 ns", 1_000, 300, 0),
    (PAYLOAD, 5_000, 3_000, 0),
    ("failed", 9_000, 1, Flag.ERROR),
    ("three hours", 20_000, 3 * 3600 * 10**9, 0),
]


@pytest.fixture(scope="module")
def marks(
    tmp_path_factory: pytest.TempPathFactory, serve: Callable[[Path], Dashboard]
) -> Dashboard:
    """A run without steps: spans of no length, of three hours, failed ones, a name as markup."""
    folder = tmp_path_factory.mktemp("marks") / "marks.trace"
    spans = [
        SpanRecord(
            "worker:0", "executor", EPOCH + at, EPOCH + at + length, name, "op.run",
            span=number, flags=flags,
        )
        for number, (name, at, length, flags) in enumerate(MARKS, 1)
    ]  # fmt: skip
    return serve(write_trace(folder, spans))


def opened(tab: Tab, served: Dashboard, query: str = "?step=3", **size: int) -> Page:
    page = tab(f"{served.url}t/{served.run}/timeline{query}", **size)
    ready(page)
    return page


def ready(page: Page) -> None:
    """It has come to rest: its rows are those that hold a span, and all of these are there."""
    expect(page.locator("#timeline-canvas[data-rest][data-state=ready]")).to_be_visible()
    told(page)


def where(page: Page, span: int) -> tuple[float, float]:
    return still(page, f"window.__vizdist.where('{span:016x}')")


def hit(page: Page, x: float, y: float) -> dict[str, Any] | None:
    found: dict[str, Any] | None = page.evaluate(f"window.__vizdist.hit({x}, {y})")
    return found


def focus(page: Page) -> None:
    page.locator("#timeline-canvas canvas").focus()


def test_the_picture_says_what_the_store_holds(tab: Tab, dashboard: Dashboard) -> None:
    page = opened(tab, dashboard)
    for one in training_step(3, at=3000):
        found = hit(page, *where(page, one.span))
        assert found is not None
        wanted = (one.name, one.task, one.start - EPOCH, one.end - one.start)
        assert (found["name"], found["task"], found["start"], found["duration"]) == wanted


def test_a_click_on_a_bar_is_the_choice_of_all_views(tab: Tab, dashboard: Dashboard) -> None:
    page = opened(tab, dashboard)
    page.mouse.click(*where(page, 302))
    expect(page).to_have_url(re.compile(r"sel=span:000000000000012e"))
    expect(page.locator("#strip")).to_contain_text("MatMul")
    expect(page.locator("#timeline-span")).to_contain_text("Queued")
    reload(page)
    ready(page)
    expect(page.locator("#timeline-span")).to_contain_text("mm")
    page.go_back()
    expect(page.locator("#timeline-span")).to_contain_text("No span is selected")


def test_a_node_chosen_elsewhere_is_lit_here(tab: Tab, dashboard: Dashboard) -> None:
    page = opened(tab, dashboard, "?step=3&sel=node:mm")
    expect(page.locator("#timeline-span")).to_contain_text("MatMul")
    told(page, "s => s.lit === 1")
    focus(page)
    page.keyboard.press("f")
    expect(page).to_have_url(WINDOW)
    told(page, "s => s.mode === 'window' && s.from < 3200 && s.to > 3400")


@pytest.mark.slow
def test_the_card_leads_from_a_recv_to_its_send(tab: Tab, dashboard: Dashboard) -> None:
    page = opened(tab, dashboard, f"?step=3&sel=span:{303:016x}")
    page.locator("#timeline-span button", has_text="Sent by").click()
    expect(page).to_have_url(re.compile(f"sel=span:{305:016x}"))


def test_the_parts_of_a_step_stand_under_it(tab: Tab, dashboard: Dashboard) -> None:
    page = opened(tab, dashboard)
    expect(page.locator("#timeline-split h2")).to_contain_text("Step 3 took 1.00 µs")
    expect(page.locator("#timeline-split .split-name")).to_contain_text(
        ["worker:0", "critical path"]
    )


@pytest.mark.slow
def test_nothing_of_the_split_is_cut_where_it_has_a_path_and_a_what_if(
    tab: Tab, dashboard: Dashboard
) -> None:
    page = opened(tab, dashboard)
    expect(page.locator("#timeline-split .what-if-path .button")).to_be_visible()
    expect(page.locator("#timeline-split .split-row")).to_have_count(2)
    cut = "all => all.filter(e => e.scrollHeight > e.clientHeight).map(e => e.tagName)"
    assert page.locator("#timeline-split, #timeline-split h2").evaluate_all(cut) == []


def test_the_next_step_moves_the_window(tab: Tab, dashboard: Dashboard) -> None:
    page = opened(tab, dashboard)
    told(page, "s => s.from < 3000 && s.to > 4000")
    page.keyboard.press("]")
    expect(page.locator("#timeline-split h2")).to_contain_text("Step 4")
    expect(page.locator("#timeline-canvas[data-step='4']")).to_be_attached()
    ready(page)
    page.wait_for_selector("#timeline-canvas[data-rest='step 4500']")


def test_keys_zoom_pan_and_come_back(tab: Tab, dashboard: Dashboard) -> None:
    page = opened(tab, dashboard)
    focus(page)
    for _ in range(12):
        page.keyboard.press("w")
    expect(page).to_have_url(WINDOW)
    near = told(page, "s => s.to - s.from < 210")
    expect(page.locator("#timeline-mode [aria-checked=true]")).to_contain_text("Window 200 ns")
    page.keyboard.press("d")
    told(page, f"s => s.from > {near['from']}")
    page.locator("#timeline-mode [data-value=step]").click()
    expect(page).not_to_have_url(re.compile("t0="))


@pytest.mark.slow
def test_the_wheel_zooms_about_the_pointer(tab: Tab, dashboard: Dashboard) -> None:
    page = opened(tab, dashboard)
    x, y = where(page, 302)
    page.mouse.move(x, y)
    page.mouse.wheel(0, -400)
    expect(page).to_have_url(WINDOW)
    ready(page)
    assert (hit(page, x, y) or {})["name"] == "mm"


@pytest.mark.slow
def test_a_window_in_the_address_is_what_is_shown(tab: Tab, dashboard: Dashboard) -> None:
    page = opened(tab, dashboard, "?step=3&t0=3300&t1=3800")
    told(page, "s => s.from === 3300 && s.to === 3800 && s.mode === 'window'")


def test_the_whole_run_has_every_step(tab: Tab, dashboard: Dashboard) -> None:
    page = opened(tab, dashboard)
    page.locator("#timeline-mode [data-value=run]").click()
    page.wait_for_selector("#timeline-canvas[data-rest^='run']")
    told(page, "s => s.from <= 0 && s.to >= 29_500")


@pytest.mark.slow
def test_the_frame_in_the_strip_is_dragged(tab: Tab, dashboard: Dashboard) -> None:
    page = opened(tab, dashboard)
    box = page.locator("#timeline-canvas").bounding_box()
    assert box is not None
    before = told(page)["from"]
    page.mouse.move(box["x"] + 400, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 520, box["y"] + 40, steps=4)
    page.mouse.up()
    expect(page).to_have_url(WINDOW)
    told(page, f"s => s.from > {before} + 2000")


@pytest.mark.slow
def test_a_click_in_the_strip_chooses_the_step(tab: Tab, dashboard: Dashboard) -> None:
    page = opened(tab, dashboard)
    box = page.locator("#timeline-canvas").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 140 + (box["width"] - 156) * 0.51, box["y"] + 40)
    expect(page).to_have_url(re.compile(r"step=11"))


def test_arrow_keys_carry_a_ring_and_enter_selects(tab: Tab, dashboard: Dashboard) -> None:
    page = opened(tab, dashboard, f"?step=3&sel=span:{302:016x}")
    told(page, "s => s.lit === 1")
    focus(page)
    page.keyboard.press("ArrowDown")
    told(page, f"s => s.focus === '{302:016x}'")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#timeline-canvas [aria-live]")).to_contain_text(
        "w · 200 ns · no value yet"
    )
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"sel=span:{303:016x}"))


@pytest.mark.slow
def test_the_same_as_a_table(tab: Tab, dashboard: Dashboard) -> None:
    page = opened(tab, dashboard)
    focus(page)
    page.keyboard.press("l")
    table = page.locator(".timeline-table table")
    expect(table.locator("caption")).to_contain_text("8 of 8 spans")
    table.get_by_role("button", name="update_w").click()
    expect(page).to_have_url(re.compile(f"sel=span:{308:016x}"))
    page.keyboard.press("Escape")
    expect(table).to_be_hidden()
    expect(page.locator("#timeline-canvas canvas")).to_be_focused()


def test_what_has_no_length_is_seen_and_chosen(tab: Tab, marks: Dashboard) -> None:
    page = opened(tab, marks, "?t0=-2000&t1=30000")
    for number in (1, 2, 4):
        found = hit(page, *where(page, number))
        assert found is not None
        assert found["name"] == MARKS[number - 1][0]
    page.mouse.click(*where(page, 1))
    expect(page).to_have_url(re.compile(f"sel=span:{1:016x}"))


def test_an_error_is_never_merged(tab: Tab, marks: Dashboard) -> None:
    page = opened(tab, marks, "")
    told(page, "s => s.mode === 'run'")
    found = hit(page, *where(page, 4))
    assert found is not None
    assert found["name"] == "failed"


def test_names_are_text(tab: Tab, marks: Dashboard) -> None:
    page = opened(tab, marks, f"?t0=-2000&t1=30000&sel=span:{3:016x}")
    page.mouse.move(*where(page, 3))
    expect(page.locator(".canvas-tip")).to_contain_text(PAYLOAD)
    expect(page.locator("#timeline-span h2")).to_contain_text(PAYLOAD)
    page.locator("#timeline-list").click()
    expect(page.locator(".timeline-table")).to_contain_text(PAYLOAD)
    expect(page.locator("img")).to_have_count(0)


@pytest.mark.slow
@pytest.mark.parametrize("query", ["theme=light", "theme=dark", "theme=light&lang=zh"])
@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_is_accessible_and_fits(
    tab: Tab, dashboard: Dashboard, width: int, query: str
) -> None:
    height = 900 if width > 700 else 844
    page = opened(tab, dashboard, f"?step=3&sel=node:w&{query}", width=width, height=height)
    expect(page.locator("#timeline-span dd").first).to_be_visible()
    assert axe_faults(page) == []
    assert overflow(page) == []


def test_a_phone_shows_one_task(tab: Tab, dashboard: Dashboard) -> None:
    page = opened(tab, dashboard, width=390, height=844)
    told(page, "s => s.task === 'worker:0'")
    focus(page)
    page.keyboard.press("PageDown")
    told(page, "s => s.task === 'ps:0'")


@pytest.fixture(scope="module")
def workers(
    tmp_path_factory: pytest.TempPathFactory, serve: Callable[[Path], Dashboard]
) -> Dashboard:
    """worker:1 ran its second step long after worker:0 ran its own."""
    late = [
        one._replace(
            task=one.task.replace("worker:0", "worker:1"), span=one.span + 9000,
            parent=one.parent and one.parent + 9000, link=one.link and one.link + 9000, trace_lo=77,
        )
        for one in training_step(2, at=50_000)
    ]  # fmt: skip
    folder = tmp_path_factory.mktemp("workers") / "two.trace"
    write_trace(folder, [*training_step(1), *training_step(2, at=1500), *late])
    return serve(folder)


def test_whoever_comes_with_a_selection_sees_it(tab: Tab, workers: Dashboard) -> None:
    page = opened(tab, workers, f"?step=2&sel=span:{9202:016x}")
    page.wait_for_selector("#timeline-canvas[data-rest='step 50000']")
    told(page, "s => s.from < 50_200 && s.to > 50_200")
    page = opened(tab, workers, "?step=2&sel=node:mm")
    page.wait_for_selector("#timeline-canvas[data-rest='step 1500']")
    expect(page.locator("#timeline-span h2")).to_contain_text("worker:0")


def test_l_shows_the_table_wherever_the_focus_is(tab: Tab, dashboard: Dashboard) -> None:
    page = opened(tab, dashboard)
    page.keyboard.press("l")
    expect(page.locator(".timeline-table table")).to_be_visible()


@pytest.mark.slow
def test_the_longest_spans_wait_to_be_selected(tab: Tab, dashboard: Dashboard) -> None:
    page = opened(tab, dashboard)
    page.locator("#timeline-span .longest button", has_text="mm").click()
    expect(page).to_have_url(re.compile(f"sel=span:{302:016x}"))


@pytest.mark.slow
def test_a_copied_link_restores_window_selection_step_theme_and_language(
    tab: Tab, dashboard: Dashboard
) -> None:
    page = tab(f"{dashboard.url}t/{dashboard.run}/timeline?step=4&sel=node:mm&theme=dark&lang=zh")
    told(page, "s => s.ready && s.lit")
    page.locator("#timeline-canvas canvas").press("w")
    expect(page).to_have_url(re.compile("t0="))
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.evaluate("localStorage.clear()")
    page.get_by_role("button", name="复制链接").click()
    expect(page.locator(".done-word")).to_be_visible()
    seen = "() => { const s = window.__vizdist.state(); return [s.from, s.to, s.step, s.lit]; }"
    before, address = page.evaluate(seen), page.evaluate("window.copied")
    other = tab(address)
    other.wait_for_function("() => window.__vizdist?.state().ready && window.__vizdist.state().lit")
    after = other.evaluate(seen)
    assert after[2:] == before[2:]
    assert after[:2] == [round(at) for at in before[:2]]
    root = other.evaluate("({...document.documentElement.dataset}).theme")
    assert (root, other.evaluate("document.documentElement.lang")) == ("dark", "zh")


@pytest.mark.slow
def test_a_link_to_the_whole_run_shows_the_whole_run(tab: Tab, dashboard: Dashboard) -> None:
    page = tab(f"{dashboard.url}t/{dashboard.run}/timeline")
    page.wait_for_function("() => window.__vizdist?.state().ready")
    page.get_by_role("radio", name="Whole run").click()
    expect(page).to_have_url(re.compile("window=run"))
    reload(page)
    told(page, "s => s.mode === 'run'")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["PNG", "SVG"])
def test_the_picture_is_saved(tab: Tab, dashboard: Dashboard, tmp_path: Path, kind: str) -> None:
    page = tab(f"{dashboard.url}t/{dashboard.run}/timeline?step=4&lang=en")
    page.wait_for_function("() => window.__vizdist?.state().ready")
    with page.expect_download() as download:
        page.get_by_role("button", name=f"Save the picture as {kind}").click()
    assert download.value.suggested_filename == f"digits-timeline.{kind.lower()}"
    download.value.save_as(tmp_path / "picture")
    content = (tmp_path / "picture").read_bytes()
    if kind == "SVG":
        assert b">MatMul<" in content or b">mm<" in content
    else:
        assert content.startswith(b"\x89PNG")
