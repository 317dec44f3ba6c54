"""The Rendezvous page: what is drawn is a recount of the spans, and one selection lights it all."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Dashboard, axe_faults, overflow, serving
from tests.captured import Captured
from tests.store.growing_trace import EPOCH, STEP_NS, GrowingRun
from tests.store.sample_trace import training_step, write_trace
from tracer.model.step import RendezvousKey, trace_of_step
from tracer.model.trace_folder import Flag
from vizdist.figures.call_lines import time_text
from vizdist.i18n.units import size
from vizdist.store.details import hex_id
from vizdist.store.index import path_id
from vizdist.store.library import Library
from vizdist.store.spans import Spans
from vizdist.store.trace import Trace, open_trace

pytestmark = pytest.mark.browser
Tab = Callable[..., Page]
STEP = 2


@pytest.fixture(scope="module")
def folder(captured: Captured) -> Path:
    """A loop between two tasks, each a process: six iterations, the last dead where it crosses."""
    return captured("cross-device-while", "--option", "iterations=5", "--steps", str(STEP))


@pytest.fixture(scope="module")
def trace(folder: Path) -> Trace:
    return open_trace(folder)


@pytest.fixture(scope="module")
def served(folder: Path, serve: Callable[[Path], Dashboard]) -> Dashboard:
    return serve(folder)


@pytest.fixture
def open_page(tab: Tab, served: Dashboard) -> Callable[..., Page]:
    def opened(query: str = "", **size_of: int) -> Page:
        address = f"{served.url}t/{served.run}/rendezvous?lang=en&step={STEP}{query}"
        page = tab(address, **size_of)
        expect(page.locator("#rendezvous-sequence svg")).to_be_visible()
        return page

    return opened


def kind(trace: Trace, name: str) -> Spans:
    spans = trace.spans(step=STEP)
    return spans.take(spans.is_kind(name))


def crossing(trace: Trace) -> Spans:
    recvs = kind(trace, "rendezvous.recv")
    return recvs.take((recvs.flags & Flag.CLIENT_EDGE) == 0)


def waits(trace: Trace) -> dict[str, int]:
    """By key: from the instant at which a request is where the value is made, to the value."""
    found = {}
    calls, sends = kind(trace, "rpc.client"), kind(trace, "rendezvous.send")
    served = kind(trace, "rpc.server")
    by_key = {str(key): at for at, key in enumerate(calls.text("key")) if key}
    by_parent = {int(parent): at for at, parent in enumerate(served.parent)}
    handed = {int(span): int(start) for span, start in zip(sends.span, sends.start, strict=True)}
    recvs = crossing(trace)
    for at, key in enumerate(recvs.text("key").tolist()):
        there = by_parent[int(calls.span[by_key[key]])]
        begun = int(served.start[there])
        value = max(begun + int(served.wait[there]), handed[int(recvs.link[at])])
        found[key] = max(0, value - begun)
    return found


def told_times(trace: Trace) -> dict[str, int]:
    """By key: how long the value lay there before its request, if not less than the wait."""
    calls, sends = kind(trace, "rpc.client"), kind(trace, "rendezvous.send")
    served = kind(trace, "rpc.server")
    asked = dict(zip(calls.text("key").tolist(), calls.span.tolist(), strict=True))
    begun = dict(zip(served.parent.tolist(), served.start.tolist(), strict=True))
    handed = dict(zip(sends.span.tolist(), sends.end.tolist(), strict=True))
    found = waits(trace)
    recvs = crossing(trace)
    for key, link in zip(recvs.text("key").tolist(), recvs.link.tolist(), strict=True):
        early = begun[asked[key]] - handed[link]
        found[key] = max(early, found[key])
    return found


def open_all(page: Page) -> None:
    """Every fold of a loop; each makes the list anew."""
    folds = page.locator(".mail-row[aria-expanded]")
    for at in range(folds.count()):
        folds.nth(at).click()
        expect(folds.nth(at)).to_have_attribute("aria-expanded", "true")


def keys_of(rows: Locator) -> list[str]:
    keys: list[str] = rows.evaluate_all("rows => rows.map((row) => row.dataset.key)")
    return keys


def test_there_is_a_row_for_every_key_and_it_says_how_long_was_waited(
    open_page: Callable[..., Page], trace: Trace
) -> None:
    page = open_page()
    expect(page.locator(".mail-row")).to_have_count(5)  # four edges in the loop, one behind it
    open_all(page)
    rows = page.locator(".mail-row[data-key]")
    expected = told_times(trace)
    expect(rows).to_have_count(len(expected))
    assert sorted(keys_of(rows)) == sorted(expected)
    dead = (crossing(trace).flags & Flag.DEAD) != 0
    signals = ((crossing(trace).flags & Flag.CONTROL) != 0) & ~dead
    note = f"{len(expected)} keys, {dead.sum()} dead, {signals.sum()} control signals"
    expect(page.locator("#rendezvous-mail-note")).to_have_text(note)
    for at, key in enumerate(keys_of(rows)):
        told = rows.nth(at).locator(".mail-time").inner_text()
        assert told == time_text(expected[key])
    assert dead.sum() > 0
    expect(page.locator(".mail-row.dead")).to_have_count(int(dead.sum()))


@pytest.mark.slow
def test_links_sum_up_their_rows(open_page: Callable[..., Page], trace: Trace) -> None:
    page = open_page()
    recvs = crossing(trace)
    num_bytes: Counter[str] = Counter()
    wait: Counter[str] = Counter()
    waited = waits(trace)
    for key, count in zip(recvs.text("key").tolist(), recvs.bytes.tolist(), strict=True):
        parsed = RendezvousKey.parse(key)
        ends = [device.split("/") for device in (parsed.src_device, parsed.dst_device)]
        link = "→".join(f"{end[1][4:]}:{end[3][5:]}" for end in ends)
        num_bytes[link] += count
        wait[link] += waited[key]
    expect(page.locator(".matrix.bytes button")).to_have_count(len(num_bytes))
    shown = "cells => cells.map((cell) => [cell.dataset.link, cell.textContent])"
    cells = dict(page.locator(".matrix.bytes button").evaluate_all(shown))
    assert cells == {link: str(size(count)) for link, count in num_bytes.items()}
    page.get_by_role("radio", name="Wait").click()
    expect(page.locator(".matrix.bytes")).to_be_hidden()
    cells = dict(page.locator(".matrix.wait button").evaluate_all(shown))
    assert cells == {link: time_text(ns) for link, ns in wait.items()}


def test_a_row_selects_its_key_and_the_call_that_brought_it(
    open_page: Callable[..., Page],
) -> None:
    page = open_page()
    row = page.locator(".mail-row[data-key]").first
    row.click()
    expect(row).to_have_attribute("aria-current", "true")
    expect(page).to_have_url(re.compile(r"sel=key:"))
    expect(page.locator("#strip .selected")).to_have_text("out")
    lit = page.locator("#rendezvous-sequence [role=button][aria-current=true]")
    expect(lit).to_have_count(1)
    expect(lit).to_have_attribute(
        "aria-label", re.compile("recv_tensor out, called by worker:0 on ps:0")
    )
    page.keyboard.press("Escape")
    expect(row).to_have_attribute("aria-current", "false")


@pytest.mark.slow
def test_a_span_that_comes_in_the_address_opens_its_loop_and_lights_its_row(
    open_page: Callable[..., Page], trace: Trace
) -> None:
    sends = kind(trace, "rendezvous.send")
    inside = sends.take((sends.frame_id != 0) & (sends.iteration == 3))
    page = open_page(f"&sel=span:{hex_id(int(inside.span[0]))}")
    lit = page.locator(".mail-row.inner[aria-current=true]")
    expect(lit).to_have_count(1)
    expect(lit).to_be_in_viewport()
    assert keys_of(lit) == [str(inside.text("key")[0])]


@pytest.mark.slow
def test_a_cell_selects_its_link(open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.locator('.matrix.bytes [data-link="ps:0→worker:0"]').click()
    expect(page.locator("#strip .selected")).to_have_text("ps:0 → worker:0")
    links = "rows => rows.map((row) => [row.dataset.link, row.getAttribute('aria-current')])"
    expect(page.locator(".mail-row[aria-current=true]").first).to_be_visible()
    for link, is_lit in page.locator(".mail-row").evaluate_all(links):
        assert (is_lit == "true") == (link == "ps:0→worker:0")


def test_every_call_of_the_step_is_in_the_sequence(
    open_page: Callable[..., Page], trace: Trace
) -> None:
    page = open_page()
    bundles = page.locator("#rendezvous-sequence [role=button][data-bundle]")
    for at in range(bundles.count()):
        bundles.nth(at).focus()
        page.keyboard.press("Enter")
        expect(bundles.nth(at)).to_have_attribute("aria-expanded", "true")
    named = page.locator("#rendezvous-sequence [role=button][data-sel]").evaluate_all(
        "calls => calls.map((call) => call.getAttribute('aria-label').split(/[ ,]/)[0])"
    )
    spans = kind(trace, "rpc.client")
    methods = Counter(
        re.sub(r"(?<=[a-z])(?=[A-Z])", "_", one).lower() for one in spans.text("name")
    )
    assert Counter(named) == methods
    expect(page.locator("#rendezvous-calls-note")).to_have_text(f"{len(spans)} calls in the step")


@pytest.mark.slow
def test_calls_of_the_whole_run_are_counted_by_method_and_pair(
    open_page: Callable[..., Page], trace: Trace
) -> None:
    page = open_page()
    page.get_by_role("radio", name="Whole run").click()
    rows = page.locator("#rendezvous-run tbody tr")
    expect(rows.first).to_be_visible()
    counts = {
        (cells[0], cells[1]): int(cells[2])
        for cells in rows.evaluate_all(
            "rows => rows.map((row) => [row.querySelector('b').textContent,"
            " row.querySelector('small').textContent, row.children[1].textContent])"
        )
    }
    spans = trace.spans(kinds=["rpc.client"])
    assert sum(counts.values()) == len(spans)
    recvs = spans.take(spans.has_word("name", "RecvTensor"))
    own = Counter(recvs.task.tolist())
    for client, server in (("worker:0", "ps:0"), ("ps:0", "worker:0")):
        who = f"{client} calls {server}; the tensor comes back: {server} → {client}"
        assert counts["recv_tensor", who] == own[client]


@pytest.mark.slow
def test_the_first_step_made_its_graph_and_the_next_one_found_it(
    open_page: Callable[..., Page],
) -> None:
    row = open_page().locator(".caches-table tr", has_text="client graph")
    expect(row.locator(".cell")).to_have_count(STEP)
    expect(row.locator(".cell").nth(0)).to_have_class("cell miss")
    expect(row.locator(".cell").nth(1)).to_have_class("cell hit")


def test_a_click_is_heard_though_the_card_is_filled_anew_within_it(
    open_page: Callable[..., Page],
) -> None:
    page = open_page()
    row = page.locator(".mail-row").first
    row.evaluate("row => { row.isOld = true; }")
    place = row.bounding_box()
    assert place is not None
    page.mouse.move(place["x"] + 20, place["y"] + 10)
    page.mouse.down()
    page.evaluate("dash_clientside.set_props('live', { data: { seen: 99, over: true } })")
    page.wait_for_function("() => document.querySelector('.mail-row')?.isOld === undefined")
    expect(row).to_be_visible()
    page.mouse.up()
    expect(row).to_have_attribute("aria-current", "true")


@pytest.mark.slow
def test_keys_alone_suffice(open_page: Callable[..., Page]) -> None:
    page = open_page()
    rows = page.locator(".mail-row")
    rows.nth(0).focus()
    page.keyboard.press("ArrowDown")
    expect(rows.nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"sel=key:"))
    page.get_by_role("radio", name="Sequence").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#rendezvous-step")).to_be_visible()
    page.keyboard.press("g")
    expect(page).to_have_url(re.compile("/graph"))
    page.keyboard.press("v")
    expect(page.locator(".mail-row[aria-current=true]")).to_have_count(1)


@pytest.mark.slow
def test_words_and_order_say_which_rows_are_shown(open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.locator("#rendezvous-words").fill("body_mul")
    expect(page.locator(".mail-row")).to_have_count(1)
    page.locator("#rendezvous-words").fill("no such tensor")
    expect(page.locator("#rendezvous-mail")).to_contain_text("No key of this step has all")
    page.locator("#rendezvous-words").fill("")
    page.locator("#rendezvous-order").select_option("asked")
    expect(page.locator(".mail-row")).to_have_count(5)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_it_is_accessible_and_nothing_is_cut(
    open_page: Callable[..., Page], width: int, height: int
) -> None:
    page = open_page("&sel=node:out", width=width, height=height)
    assert axe_faults(page) == []
    assert [fault for fault in overflow(page) if "rail-item" not in fault] == []


@pytest.mark.slow
def test_what_failed_is_told_in_words(
    tab: Tab, captured: Captured, serve: Callable[[Path], Dashboard]
) -> None:
    bad = serve(captured("bad-op", "--in-process", exits=1))
    page = tab(f"{bad.url}t/{bad.run}/rendezvous?step=3&lang=en")
    expect(page.locator("h1")).to_contain_text("never came")
    row = page.locator(".mail-row.aborted").first
    expect(row).to_contain_text("aborted")
    expect(row).to_contain_text("no value")
    expect(page.locator("#rendezvous-sequence")).to_contain_text("No call was recorded")


@pytest.mark.slow
def test_a_run_on_one_device_says_why_there_is_nothing(tab: Tab, tmp_path: Path) -> None:
    alone = [span for span in training_step(1) if span.kind in ("session.run", "op.run")]
    folder = write_trace(tmp_path / "one.trace", alone)
    for url in serving(Library([folder])):
        page = tab(f"{url}t/{path_id(folder)}/rendezvous?lang=en")
        expect(page.locator("main")).to_contain_text("No value crossed from one device to another")
        assert axe_faults(page) == []
        page.close()


class CrossingRun(GrowingRun):
    """Each of its steps receives a value, for longer every time."""

    def step(self, num_ops: int = 3) -> None:
        super().step(num_ops)
        devices = [f"/job:{job}/replica:0/task:0/device:CPU:0" for job in ("ps", "worker")]
        key = self._recorder.key(str(RendezvousKey(devices[0], 1, devices[1], "edge_1_w")))
        at = EPOCH + self.steps * STEP_NS
        recv = self._recorder.site("rendezvous.recv", name="w")
        self._recorder.writer().record(
            recv, trace_of_step("run-1", "run", self.steps), at + 10, at + 3000, num_bytes=8,
            key=key, extra=1000 + self.steps, flags=Flag.REMOTE,
        )  # fmt: skip


@pytest.mark.slow
def test_a_run_that_goes_on_is_followed(tab: Tab, tmp_path: Path) -> None:
    run = CrossingRun(tmp_path / "young.trace")
    for _ in range(3):
        run.step()
    run.turn()
    for url in serving(Library([run.folder])):
        page = tab(f"{url}t/{path_id(run.folder)}/rendezvous?lang=en")
        expect(page.locator("h1")).to_contain_text("step 3")
        expect(page.locator(".mail-time")).to_have_text(time_text(1003))
        run.step()
        run.turn()
        expect(page.locator("h1")).to_contain_text("step 4")
        expect(page.locator(".mail-time")).to_have_text(time_text(1004))
        page.close()
