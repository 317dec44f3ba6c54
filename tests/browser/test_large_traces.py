"""Ten thousand children, five thousand levels: the timeline opens, zooms and answers a click."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import serving, told
from vizdist.store.index import path_id
from vizdist.store.library import Library

pytestmark = [pytest.mark.browser, pytest.mark.slow]
Tab = Callable[..., Page]


def event(name: str, start_us: float, length_us: float) -> dict[str, Any]:
    return {"ph": "X", "name": name, "ts": start_us, "dur": length_us, "pid": 1, "tid": 1}


def wide() -> Iterator[dict[str, Any]]:
    yield event("root", 0, 100_000)
    for number in range(10_000):
        yield event(f"child {number}", number * 10, 8)


def deep() -> Iterator[dict[str, Any]]:
    for level in range(5_000):
        yield event(f"level {level}", level, 20_000 - 2 * level)


def opened(tab: Tab, folder: Path, events: Iterator[dict[str, Any]]) -> Iterator[Page]:
    file = folder / "large.json"
    file.write_text(json.dumps({"traceEvents": list(events)}))
    for url in serving(Library([file])):
        page = tab(f"{url}t/{path_id(file)}/timeline?lang=en")
        told(page)
        yield page
        page.close()


def test_ten_thousand_children_are_drawn_merged_and_found_one_by_one(
    tab: Tab, tmp_path: Path
) -> None:
    for page in opened(tab, tmp_path, wide()):
        seen = told(page, "s => s.ready && s.boxes > 0")
        assert seen["boxes"] < 5_000
        assert seen["drawMs"] < 1_000
        page.locator("body").press("/")
        page.keyboard.type("child 7777")
        page.keyboard.press("ArrowDown")
        page.get_by_role("option").first.click()
        expect(page.locator("#strip")).to_contain_text("child 7777")
        told(page, "s => s.lit === 1")


def test_five_thousand_levels_scroll(tab: Tab, tmp_path: Path) -> None:
    for page in opened(tab, tmp_path, deep()):
        assert told(page, "s => s.rows === 5_000")["drawMs"] < 1_000
        page.locator("#timeline-canvas canvas").press("PageDown")
        told(page, "s => s.scroll > 0 && s.ready && s.boxes > 0")
