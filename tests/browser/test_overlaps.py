"""What is drawn lies beside one another: boxes of words and lines, as the browser has them."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Dashboard
from tests.captured import Captured

pytestmark = pytest.mark.browser
Tab = Callable[..., Page]

#: Pairs of a label and what runs through it: another label, a lifeline, a call's line, a bar. A
#: line is followed by its points, as the box of a slanted one holds much that it does not touch.
TOUCHING = """() => {
  const svg = document.querySelector("#rendezvous-sequence svg");
  const labels = [...svg.querySelectorAll("text.label")].map((one) => [one, one.getBBox()]);
  const inside = ({ x, y }, box) => x > box.x + 1 && x < box.x + box.width - 1
    && y > box.y + 2 && y < box.y + box.height - 3;
  const points = (line) => Array.from({ length: 201 }, (_, i) => ({
    x: line.x1.baseVal.value + (line.x2.baseVal.value - line.x1.baseVal.value) * i / 200,
    y: line.y1.baseVal.value + (line.y2.baseVal.value - line.y1.baseVal.value) * i / 200,
  }));
  const lines = [...svg.querySelectorAll("line.line, line.lifeline")].map(points);
  const meets = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width
    && a.y + 2 < b.y + b.height - 2 && b.y + 2 < a.y + a.height - 2;
  const bars = [...svg.querySelectorAll("rect.held, rect.busy")].map((one) => one.getBBox());
  const found = [];
  for (const [i, [one, box]] of labels.entries()) {
    if (lines.some((line) => line.some((point) => inside(point, box)))) found.push(one.textContent);
    for (const bar of bars) if (meets(box, bar)) found.push(`${one.textContent} on a bar`);
    for (const [other, its] of labels.slice(i + 1)) {
      if (meets(box, its)) found.push(`${one.textContent} × ${other.textContent}`);
    }
  }
  return { found, count: labels.length };
}"""

STOPS = """() => [...document.querySelectorAll("#graph-stages .choice")].map((stop) => {
  const boxes = [...stop.querySelectorAll(".stop-name, small")].map((one) => {
    const range = document.createRange();
    range.selectNodeContents(one);
    return range.getBoundingClientRect();
  });
  return [Math.min(...boxes.map((b) => b.left)), Math.max(...boxes.map((b) => b.right))];
})"""


@pytest.fixture(scope="module")
def served(captured: Captured, serve: Callable[[Path], Dashboard]) -> Dashboard:
    """A loop between two tasks: many calls in little time, all five stages of a graph."""
    return serve(captured("cross-device-while", "--option", "iterations=5", "--steps", "2"))


@pytest.mark.slow
def test_no_word_of_the_calls_lies_on_a_line_a_bar_or_another_word(
    tab: Tab, served: Dashboard
) -> None:
    page = tab(f"{served.url}t/{served.run}/rendezvous?lang=en&step=2")
    expect(page.locator("#rendezvous-sequence text.label").first).to_be_visible()
    seen = page.evaluate(TOUCHING)
    assert seen["count"] > 0
    assert seen["found"] == []


@pytest.mark.slow
@pytest.mark.parametrize("query", ["theme=light&lang=en", "theme=projector&lang=en"])
def test_stages_of_the_slider_keep_apart(tab: Tab, served: Dashboard, query: str) -> None:
    page = tab(f"{served.url}t/{served.run}/graph?{query}")
    expect(page.locator("#graph-stages .choice").first).to_be_visible()
    stops = page.evaluate(STOPS)
    assert len(stops) > 1
    for (_, right), (left, _) in pairwise(stops):
        assert left - right >= 4
