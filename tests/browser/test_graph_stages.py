"""Stages of the graph on captured runs: how one turns into another, two at once, what is new."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Dashboard, axe_faults, still, told
from tests.captured import MLP, Captured
from vizdist.analysis.critical_path import critical_path
from vizdist.figures.step_graph import step_graph
from vizdist.store.details import hex_id
from vizdist.store.trace import Trace, open_trace

pytestmark = [pytest.mark.browser]
Tab = Callable[..., Page]
RUNS = {
    "ps": MLP, "loop": ("cross-device-while", "--in-process"),
    "dedup": ("recv-dedup", "--in-process"),
}  # fmt: skip


@dataclass(frozen=True)
class Served:
    """Captured runs, by their names here."""

    captured: Captured
    serve: Callable[[Path], Dashboard]

    def trace(self, name: str) -> Trace:
        return open_trace(self.captured(*RUNS[name]))

    def graph(self, name: str, query: str = "") -> str:
        shown = self.serve(self.captured(*RUNS[name]))
        return f"{shown.url}t/{shown.run}/graph?lang=en&step=1{query}"


@pytest.fixture(scope="module")
def served(captured: Captured, serve: Callable[[Path], Dashboard]) -> Served:
    return Served(captured, serve)


def ready(page: Page) -> None:
    expect(page.locator("#graph-canvas[data-state=ready]")).to_be_visible()
    expect(page.locator("#graph-stages [role=radio]").first).to_be_visible()


def opened(tab: Tab, address: str) -> Page:
    page = tab(address)
    ready(page)
    return page


def choose(page: Page, stage: str) -> None:
    page.locator(f"#graph-stages [data-value={stage}]").click()
    shown = (
        "stage => { const s = window.__vizdist.state(); return s.stage === stage && !s.morphing; }"
    )
    page.wait_for_function(shown, arg=stage)


def lit(page: Page, node: str) -> None:
    page.wait_for_function("id => window.__vizdist.state().found?.node === id", arg=node)


def hold(page: Page, share: float) -> dict[str, Any]:
    """The last change of stage at a share of its way, as it is drawn."""
    drawn: dict[str, Any] = page.evaluate("share => window.__vizdist.hold(share)", share)
    return drawn | {"tiles": {tile["id"]: tile for tile in drawn["tiles"]}}


def at(page: Page, name: str) -> tuple[float, float]:
    """Where it is once the picture stands still."""
    return still(page, f"window.__vizdist.where({json.dumps({'type': 'node', 'id': name})})")


def test_halfway_what_survives_has_moved_and_what_is_pruned_fades_where_it_stood(
    tab: Tab, served: Served
) -> None:
    page = opened(tab, served.graph("ps", "&stage=full&sel=node:relu"))
    told(page, "s => s.stage === 'full'")
    lit(page, "relu")
    choose(page, "pruned")
    begun, half, done = (hold(page, share)["tiles"] for share in (0, 0.5, 1))
    stages = step_graph(served.trace("ps"), 1).stages
    gone = {row.name for row in stages["full"]} - {row.name for row in stages["pruned"]}
    assert gone
    assert gone == {name for name, tile in half.items() if tile.get("leaving")}
    for name, tile in half.items():
        start, end = begun[name], done[name]
        assert tile["x"] == pytest.approx((start["x"] + end["x"]) / 2)
        if name in gone and name not in ("x", "y"):  # whose place a feed of the client takes
            assert (tile["x"], tile["y"], tile["shown"]) == (start["x"], start["y"], 0.5)
    assert {tile["shown"] for name, tile in half.items() if name == "relu"} == {1}
    assert hold(page, 0.5)["ringed"]["id"] == "relu"


@pytest.mark.slow
def test_a_send_and_its_recv_grow_out_of_the_edge_that_is_cut(tab: Tab, served: Served) -> None:
    page = opened(tab, served.graph("ps", "&stage=placed"))
    told(page, "s => s.stage === 'placed'")
    edges = page.evaluate("window.__vizdist.hold(1).wires.map(wire => wire.points)")
    choose(page, "worker")
    begun, half, done = (hold(page, share) for share in (0, 0.5, 1))
    assert sorted(wire["points"] for wire in begun["wires"]) == sorted(edges)
    assert {wire["grown"] for wire in half["wires"]} == {0.5}
    sends = [row for row in step_graph(served.trace("ps"), 1).stages["worker"]
             if row.op == "_Send" and not row.attrs["client_terminated"]]  # fmt: skip
    assert len(done["wires"]) == len(sends)


@pytest.mark.slow
def test_one_key_plays_all_stages_and_ends_at_what_runs(tab: Tab, served: Served) -> None:
    page = tab(served.graph("dedup", "&stage=full"))
    page.emulate_media(reduced_motion="reduce")
    ready(page)
    seen = """() => { window.seen = new Set(); const look = () => {
        const { stage } = window.__vizdist.state(); window.seen.add(stage);
        requestAnimationFrame(look); }; look(); }"""
    page.evaluate(seen)
    key = page.locator("#graph-morph")
    key.click()
    expect(key).to_have_attribute("aria-pressed", "true")
    expect(page).to_have_url(re.compile("stage=device"), timeout=30_000)
    expect(key).to_have_attribute("aria-pressed", "false")
    stages = ["full", "pruned", "placed", "worker", "device"]
    assert page.evaluate("[...window.seen]") == stages


@pytest.mark.slow
def test_two_stages_have_one_x_and_number_the_edges_that_the_cut_goes_through(
    tab: Tab, served: Served
) -> None:
    page = opened(tab, served.graph("ps", "&stage=worker&sel=node:fc1/addmm"))
    page.locator("#graph-two").click()
    expect(page).to_have_url(re.compile("two=1"))
    page.wait_for_function("() => window.__vizdist.two()")
    found = page.evaluate("window.__vizdist.two()")
    assert (found["upper"], found["lower"]) == ("placed", "worker")
    upper, lower = found["places"]
    assert {name: x for name, x in upper.items() if name in lower} == {
        name: lower[name] for name in upper if name in lower
    }
    worker = step_graph(served.trace("ps"), 1).stages["worker"]
    data = [r for r in worker if r.op == "_Send" and r.attrs.get("edge_kind") == "data"
            and not r.attrs["client_terminated"]]  # fmt: skip
    assert len(found["cuts"]) == len(data)
    assert all(cut["upper"] for cut in found["cuts"])
    assert str(len(data)) in found["said"][0]
    top, bottom = found["seen"]
    box = page.locator("#graph-canvas canvas").bounding_box()
    assert box is not None
    assert 30 <= top < bottom <= box["height"]
    told(page, "s => s.level === 'names'")
    expect(page.locator("#graph-facts")).to_be_hidden()
    assert axe_faults(page) == []
    page.reload()
    page.wait_for_function("() => window.__vizdist?.two()")
    page.go_back()
    page.wait_for_function("() => !window.__vizdist.two()")


def test_a_pointer_is_told_why_a_node_is_where_it_is_and_why_one_was_pruned(
    tab: Tab, served: Served
) -> None:
    page = opened(tab, served.graph("ps"))
    page.mouse.move(*at(page, "fc1/weight/Read"))
    tip = page.locator(".canvas-tip")
    expect(tip).to_contain_text("ps:0 / CPU:0 · It works on fc1/weight in place")
    choose(page, "full")
    page.mouse.move(*at(page, "logits"))
    expect(tip).to_contain_text("Pruned: no fetch and no target of this step needs it.")
    page.mouse.click(*at(page, "logits"))
    expect(page.locator("#graph-facts .placement")).to_contain_text("Pruned:")


@pytest.mark.slow
def test_what_the_runtime_added_can_be_shown_alone(tab: Tab, served: Served) -> None:
    page = opened(tab, served.graph("loop"))
    key = page.locator("button[data-mark=added]")
    key.click()
    expect(key).to_have_attribute("aria-pressed", "true")
    page.wait_for_function("() => window.__vizdist.state().mark === 'added'")
    stages = step_graph(served.trace("loop"), 1).stages
    client = {row.name for row in stages["full"]}
    lit = set(page.evaluate("window.__vizdist.lit().tiles"))
    tiles = set(page.evaluate("window.__vizdist.hold(1).tiles.map(tile => tile.id)"))
    assert lit == tiles - client
    assert len(page.evaluate("window.__vizdist.lit().wires")) == 5
    key.click()
    page.wait_for_function("() => window.__vizdist.lit() === null")


@pytest.mark.slow
def test_a_loop_folds_at_a_key_and_says_how_often_it_turned(tab: Tab, served: Served) -> None:
    page = opened(tab, served.graph("loop", "&sel=node:loop/less"))
    lit(page, "loop/less")
    page.locator("#graph-canvas canvas").focus()
    page.keyboard.press("e")
    expect(page).to_have_url(re.compile("folded=loop"))
    page.wait_for_function("() => window.__vizdist.hold(1).ringed.iterations === 3")
    x, y = at(page, "loop/less")
    page.mouse.move(x, y)
    expect(page.locator(".canvas-tip")).to_contain_text("3 iterations")
    facts = page.locator("#graph-facts")
    page.evaluate("id => window.__vizdist.select({type: 'node', id})",
                  page.evaluate("window.__vizdist.hold(1).ringed.id"))  # fmt: skip
    expect(facts).to_contain_text("turned 3 times here")


@pytest.mark.slow
def test_a_span_of_any_iteration_lights_the_wire_of_its_edge(tab: Tab, served: Served) -> None:
    trace = served.trace("loop")
    recvs = trace.all.take(np.flatnonzero(trace.all.is_kind("rendezvous.recv")))
    last = recvs.take(np.flatnonzero(recvs.iteration == recvs.iteration.max())[:1])
    page = opened(tab, served.graph("loop", f"&sel=span:{hex_id(int(last.span[0]))}"))
    page.wait_for_function("() => window.__vizdist.state().found?.wire")
    assert page.evaluate("window.__vizdist.state().found.wire") == last.text("name")[0]


def test_the_critical_path_is_lit_in_the_order_of_the_analysis(tab: Tab, served: Served) -> None:
    trace = served.trace("ps")
    step = step_graph(trace, 1).step
    assert step is not None
    found = critical_path(trace, step)
    assert found is not None
    places = [piece.place for piece in found.pieces if piece.place >= 0]
    names = trace.all.take(np.array(places)).text("name").tolist()
    page = opened(tab, served.graph("ps"))
    page.locator("button[data-mark=path]").click()
    page.wait_for_function("() => window.__vizdist.path()")
    lit = page.evaluate("window.__vizdist.path()")
    tiles = {name for name, _ in lit["tiles"]}
    drawn = {tile["id"] for tile in page.evaluate("window.__vizdist.hold(1).tiles")}
    assert tiles == set(names) & drawn
    order = sorted(lit["tiles"], key=lambda item: item[1][0])
    assert [name for name, _ in order] == [n for n in dict.fromkeys(names) if n in tiles]


@pytest.mark.slow
def test_one_transfer_says_how_many_there_would_be_for_its_uses(tab: Tab, served: Served) -> None:
    page = opened(tab, served.graph("dedup"))
    graph = step_graph(served.trace("dedup"), 1).stages["device"]
    near = "/job:worker/replica:0/task:0"
    recv = next(row.name for row in graph if row.op == "_Recv" and row.attrs["_src"] == "a"
                and row.attrs["recv_device"].startswith(near))  # fmt: skip
    page.evaluate("id => window.__vizdist.select({type: 'edge', id})", recv)
    facts = page.locator("#graph-facts")
    expect(facts).to_contain_text("1 for 4 uses")
    expect(facts).to_contain_text("4 transfers, 32 B")
