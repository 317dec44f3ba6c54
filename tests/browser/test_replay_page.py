"""The Replay page: what it shows at an instant is what the spans say, and keys alone move it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Dashboard, axe_faults, overflow, serving, told
from tests.captured import Captured
from tests.store.growing_trace import GrowingRun
from tracer.model.trace_folder import Flag
from vizdist.store.details import hex_id
from vizdist.store.index import path_id
from vizdist.store.library import Library
from vizdist.store.trace import Trace, open_trace

pytestmark = pytest.mark.browser
Tab = Callable[..., Page]


@pytest.fixture(scope="module")
def folder(captured: Captured) -> Path:
    """A loop over two devices: five iterations, the last of them dead where it crosses."""
    return captured("cross-device-while", "--in-process", "--option", "iterations=4")


@pytest.fixture(scope="module")
def served(folder: Path, serve: Callable[[Path], Dashboard]) -> Dashboard:
    return serve(folder)


@pytest.fixture(scope="module")
def trace(folder: Path) -> Trace:
    return open_trace(folder)


def opened(tab: Tab, served: Dashboard, query: str = "", **size: int) -> Page:
    page = tab(f"{served.url}t/{served.run}/replay?step=1{query or '&lang=en'}", **size)
    page.emulate_media(reduced_motion="reduce")
    expect(page.locator("#replay-canvas[data-replay=ready][data-state=ready]")).to_be_visible()
    return page


def state(page: Page) -> dict[str, Any]:
    told: dict[str, Any] = page.evaluate("window.__vizdist.state()")
    return told


def shown(page: Page) -> dict[str, Any]:
    told: dict[str, Any] = page.evaluate("window.__vizdist.replay()")
    return told


def go_to(page: Page, time: float) -> None:
    page.evaluate("(time) => window.__vizdist.seek(time)", time)


def instants(page: Page, unit: str) -> list[float]:
    found: list[float] = page.evaluate("(unit) => window.__vizdist.instants(unit)", unit)
    return found


def counted(trace: Trace, time: float) -> dict[str, int]:
    """Keys by state, out of the spans."""
    step = trace.steps[0]
    spans, now = trace.spans(step=step), step.start + time
    sends = spans.take(spans.is_kind("rendezvous.send"))
    recvs = spans.take(spans.is_kind("rendezvous.recv"))
    sent = set(sends.text("key")[sends.start <= now].tolist())
    asked = set(recvs.text("key")[recvs.start <= now].tolist())
    taken = set(recvs.text("key")[recvs.end <= now].tolist())
    return {
        "early": len(sent - asked - taken),
        "waiting": len(asked - sent - taken),
        "flight": len((asked & sent) - taken),
        "taken": len(taken),
    }


def test_the_mailboxes_on_screen_are_those_of_the_spans_at_every_tensor(
    tab: Tab, served: Dashboard, trace: Trace
) -> None:
    page = opened(tab, served)
    for time in instants(page, "tensor")[::5]:
        go_to(page, time)
        expected = counted(trace, time)
        counts = shown(page)["counts"]
        assert {name: counts[name] for name in expected} == expected
        open_keys = expected["early"] + expected["waiting"] + expected["flight"]
        said = page.locator("#replay-facts h2 small").first
        expect(said).to_have_text(f"{open_keys} open · {expected['taken']} taken")


def test_keys_alone_play_and_step_and_the_address_is_the_instant(
    tab: Tab, served: Dashboard
) -> None:
    page = opened(tab, served)
    events = instants(page, "event")
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("]")
    told(page, f"s => s.time === {events[2]}")
    page.keyboard.press("[")
    told(page, f"s => s.time === {events[1]}")
    expect(page).to_have_url(re.compile(rf"at={round(events[1])}(&|$)"))
    assert "step=1" in page.url  # the keys of the shell did not move the step
    page.keyboard.press("End")
    told(page, "s => s.count === s.events")
    page.keyboard.press("Home")
    told(page, "s => s.count === 0")
    page.keyboard.press(" ")
    told(page, "s => s.count > 3")
    page.keyboard.press(" ")
    told(page, "s => !s.playing")


@pytest.mark.slow
def test_an_address_opens_the_same_frame_again(tab: Tab, served: Dashboard) -> None:
    page = opened(tab, served)
    times = instants(page, "tensor")
    middle = times[len(times) // 2]
    go_to(page, middle)
    before = shown(page)
    expect(page).to_have_url(re.compile(rf"at={round(middle)}(&|$)"))
    again = tab(page.url)
    expect(again.locator("#replay-canvas[data-replay=ready][data-state=ready]")).to_be_visible()
    again.wait_for_function("() => window.__vizdist.replay().tokens.length > 0")
    after = shown(again)
    for name in ("counts", "running", "ready"):
        assert after[name] == before[name]
    assert [token["key"] for token in after["tokens"]] == [t["key"] for t in before["tokens"]]


@pytest.mark.slow
def test_a_unit_is_chosen_and_goes_from_iteration_to_iteration(
    tab: Tab, served: Dashboard, trace: Trace
) -> None:
    page = opened(tab, served)
    page.get_by_role("radio", name="iteration").click()
    page.get_by_role("button", name="Next", exact=True).click()
    page.get_by_role("button", name="Next", exact=True).click()
    told(page, "s => s.unit === 'iteration' && s.time > 0")
    turns = trace.spans(step=trace.steps[0], kinds=("iteration.run", "frame.run"))
    starts = {start - trace.steps[0].start for start in (*turns.start, *turns.end)}
    assert state(page)["time"] in starts
    expect(page.locator("#replay-sentence")).to_contain_text("iteration 0 of")


def test_dead_tensors_are_told_as_such_once_they_are_sent(
    tab: Tab, served: Dashboard, trace: Trace
) -> None:
    page = opened(tab, served)
    sends = trace.spans(step=trace.steps[0], kinds=("rendezvous.send",))
    dead = sends.take((sends.flags & Flag.DEAD) != 0)
    first = int(dead.start.min()) - trace.steps[0].start
    expect(page.locator("#replay-facts .note")).to_have_count(0)
    go_to(page, first)
    expect(page.locator("#replay-facts .note")).to_contain_text("Dead values sent so far: 1")
    expect(page.locator(".mailbox .token.dead")).to_have_count(1)
    assert [token["iteration"] for token in shown(page)["tokens"] if token["dead"]] == [4]
    go_to(page, int(dead.start.max()) - trace.steps[0].start)
    expect(page.locator("#replay-facts .note")).to_contain_text(f"so far: {len(dead)}")


def test_wires_of_dead_values_stay_dead_to_the_end(tab: Tab, served: Dashboard) -> None:
    page = opened(tab, served)
    assert [op["name"] for op in shown(page)["running"]]  # it opens where there is something to see
    assert not shown(page)["dead"]
    page.keyboard.press("End")
    told(page, "s => s.count === s.events")
    assert shown(page)["counts"]["flight"] == 0
    assert shown(page)["dead"]


@pytest.mark.slow
def test_control_loops_say_which_iteration_each_of_their_nodes_ran(
    tab: Tab, served: Dashboard, trace: Trace
) -> None:
    page = opened(tab, served)
    step = trace.steps[0]
    ops = trace.spans(step=step, kinds=("op.run",))
    is_merge = (ops.text("op") == "Merge") & (ops.task == "worker:0")
    merges = ops.take(is_merge)
    go_to(page, int(merges.start[merges.iteration == 2][0]) - step.start)
    machine = page.locator(".machine", has_text="worker:0")
    expect(machine.locator(".machine-node", has_text="Merge").locator(".token")).to_have_text("2")
    expect(machine.locator(".machine-node")).to_have_count(4)


def test_a_click_on_a_token_selects_its_key_and_the_instant_stays(
    tab: Tab, served: Dashboard
) -> None:
    page = opened(tab, served)
    for time in instants(page, "tensor")[5:]:
        go_to(page, time)
        tokens = [token for token in shown(page)["tokens"] if token["state"] == "flight"]
        if tokens:
            break
    x, y = tokens[0]["at"]
    page.mouse.click(x, y)
    chosen = page.locator(".mailbox[aria-pressed=true]")
    expect(chosen).to_have_attribute("data-sel", f"key:{tokens[0]['key']}")
    expect(page).to_have_url(re.compile("sel=key"))
    assert state(page)["time"] == time


@pytest.mark.slow
def test_what_is_chosen_on_the_page_is_lit_in_the_strip_and_the_instant_stays(
    tab: Tab, served: Dashboard
) -> None:
    page = opened(tab, served)
    times = instants(page, "tensor")
    time = times[len(times) // 2]
    go_to(page, time)
    row = page.locator(".mailbox").nth(1)
    name = row.locator("b").get_attribute("title") or ""
    row.click()
    expect(page.locator("#strip .selected")).to_contain_text(name)
    expect(page.locator(".mailbox").nth(1)).to_have_attribute("aria-pressed", "true")
    assert state(page)["time"] == time


@pytest.mark.slow
def test_what_a_search_picks_is_where_the_replay_goes(
    tab: Tab, served: Dashboard, trace: Trace
) -> None:
    page = opened(tab, served)
    page.locator("#search").fill("body_mul")
    page.locator("#found .option").first.click()
    page.wait_for_function("() => window.__vizdist.state().time > 0")
    spans = trace.spans(step=trace.steps[0])
    starts = {start - trace.steps[0].start for start in spans.start.tolist()}
    assert state(page)["time"] in starts


@pytest.mark.slow
def test_whoever_arrives_with_a_selection_stands_where_it_begins(
    tab: Tab, served: Dashboard, trace: Trace
) -> None:
    ops = trace.spans(step=trace.steps[0], kinds=("op.run",))
    at = int(ops.duration.argmax())
    page = opened(tab, served, f"&sel=span:{hex_id(int(ops.span[at]))}")
    begin = int(ops.start[at]) - trace.steps[0].start
    told(page, f"s => s.found && s.time === {begin}")
    assert str(ops.text("name")[at]) in [op["name"] for op in shown(page)["running"]]


@pytest.mark.slow
def test_the_same_events_are_a_table_one_key_away(tab: Tab, served: Dashboard) -> None:
    page = opened(tab, served)
    go_to(page, instants(page, "event")[9])
    page.keyboard.press("l")
    rows = page.locator("#replay-canvas table tbody tr")
    expect(rows.nth(20)).to_be_attached()
    expect(page.locator("tr[aria-current=step]")).to_have_count(1)
    rows.first.get_by_role("button").click()
    told(page, f"s => s.time === {instants(page, 'event')[0]}")
    page.keyboard.press("l")
    expect(page.locator("#replay-canvas table")).to_be_hidden()


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_page_holds_together(
    tab: Tab, served: Dashboard, lang: str, width: int, height: int
) -> None:
    page = opened(tab, served, f"&lang={lang}", width=width, height=height)
    times = instants(page, "tensor")
    go_to(page, times[len(times) // 2])
    assert not overflow(page)
    if lang == "en":
        assert not axe_faults(page)


@pytest.mark.slow
def test_a_run_that_goes_on_is_followed_at_its_end_until_the_viewer_goes_elsewhere(
    tab: Tab, tmp_path: Path
) -> None:
    run = GrowingRun(tmp_path / "young.trace")

    def grow(steps: int) -> None:
        for _ in range(steps):
            run.step()
        run.turn()

    run.register("g")
    grow(2)
    for url in serving(Library([run.folder.parent])):
        page = tab(f"{url}t/{path_id(run.folder)}/replay?lang=en")
        page.wait_for_function("() => window.__vizdist?.state().step === 2")
        told(page, "s => s.count > 0 && s.count === s.events")
        grow(3)
        page.wait_for_function("() => window.__vizdist.state().step === 5")
        page.wait_for_function(
            "() => window.__vizdist.state().count === window.__vizdist.state().events"
        )
        page.keyboard.press("Home")
        expect(page.locator("#follow-run")).to_have_attribute("aria-pressed", "false")
        grow(2)
        expect(page.locator("#stepper")).to_contain_text("/ 7")
        assert (state(page)["step"], state(page)["count"]) == (5, 0)
        run.end()
        expect(page.locator("#follow-run")).to_have_count(0)
