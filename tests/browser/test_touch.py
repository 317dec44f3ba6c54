"""A phone: one finger pans and taps, two pinch; and a clock anywhere in the world."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, CDPSession, expect

from tests.browser.conftest import Dashboard, listening, serving, still, told
from vizdist.store.index import path_id
from vizdist.store.library import Library

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def phone(chromium: BrowserContext) -> Iterator[BrowserContext]:
    browser = chromium.browser
    assert browser is not None
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    )
    yield context
    context.close()


def touch(session: CDPSession, kind: str, *points: tuple[float, float]) -> None:
    places = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(points)]
    session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places})


def test_fingers_pan_pinch_and_tap(phone: BrowserContext, dashboard: Dashboard) -> None:
    page = phone.new_page()
    page.goto(f"{dashboard.url}t/{dashboard.run}/timeline?step=3&lang=en")
    page.wait_for_selector("#timeline-canvas[data-rest]")
    before = told(page)
    box = page.locator("#timeline-canvas canvas").bounding_box()
    assert box is not None
    x, y = box["x"] + 250, box["y"] + 260
    hand = phone.new_cdp_session(page)

    touch(hand, "touchStart", (x, y))
    for step in range(1, 9):
        touch(hand, "touchMove", (x - 10 * step, y))
    touch(hand, "touchEnd")
    panned = told(page, f"s => s.ready && s.from > {before['from']}")
    touch(hand, "touchStart", (x - 20, y), (x + 20, y))
    for step in range(1, 9):
        touch(hand, "touchMove", (x - 20 - 5 * step, y), (x + 20 + 5 * step, y))
    touch(hand, "touchEnd")
    length = panned["to"] - panned["from"]
    told(page, f"s => s.to - s.from < {length / 2}")

    page.get_by_role("radio", name="Step", exact=True).tap()
    page.wait_for_selector("#timeline-canvas[data-rest^='step']")
    told(page)
    page.touchscreen.tap(*still(page, f"window.__vizdist.where('{302:016x}')"))
    expect(page.locator("#strip")).to_contain_text("mm")


def test_a_phone_finds_by_touch(phone: BrowserContext, dashboard: Dashboard) -> None:
    page = phone.new_page()
    page.goto(f"{dashboard.url}t/{dashboard.run}/summary?step=3&lang=en")
    listening(page).locator(".search .finder").tap()
    page.locator("#search").fill("update")
    page.get_by_role("option").first.tap()
    expect(page.locator("#strip")).to_contain_text("update_w")


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/New_York"])
def test_time_is_counted_from_the_start_whatever_the_zone(
    chromium: BrowserContext, tmp_path: Path, zone: str
) -> None:
    """0 ns, 300 ns, 3 µs and 3 h, across the night in which New York's clocks go back."""
    lengths = (0, 0.3, 3, 3 * 3600 * 1e6)
    begin = 1_793_511_000_000_000  # µs; 2026-11-01 01:30 in New York
    spans = [
        {"ph": "X", "name": f"span {n}", "ts": begin + 10 * n, "dur": dur, "pid": 1, "tid": n}
        for n, dur in enumerate(lengths)
    ]
    file = tmp_path / "zones.json"
    file.write_text(json.dumps({"traceEvents": spans}))
    assert chromium.browser is not None
    context = chromium.browser.new_context(timezone_id=zone)
    for url in serving(Library([file])):
        page = context.new_page()
        page.goto(f"{url}t/{path_id(file)}/timeline?lang=en&t0=-2000&t1=40000")
        page.wait_for_selector("#timeline-canvas[data-rest]")
        told(page)
        for n, length in enumerate((0, 300, 3_000)):
            place = page.evaluate(
                "(name) => { const rows = []; for (let y = 60; y < 700; y += 3)"
                " for (let x = 240; x < 1200; x += 1) { const hit = window.__vizdist.hit(x, y);"
                " if (hit?.name === name) rows.push([x, y, hit.start, hit.duration]); }"
                " return rows[0]; }",
                f"span {n}",
            )
            assert place[2:] == [10_000 * n, length]
        page.mouse.click(*place[:2])
        expect(page.locator("#timeline-span")).to_contain_text("3.00 µs")
    context.close()
