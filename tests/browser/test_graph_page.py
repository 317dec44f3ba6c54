"""The Graph page on a real run: what is drawn, chosen, and said."""

import itertools
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import (
    Dashboard,
    axe_faults,
    overflow,
    painted,
    reload,
    still,
    told,
)
from tests.captured import MLP, Captured
from tracer.model.graph import Graph, Input, Node, Partition
from tracer.model.graph_table import NodeRow, chunks_of_graph
from tracer.model.step import trace_of_step
from tracer.model.trace_folder import Manifest
from tracer.record.manifest import write_manifest
from tracer.record.recorder import Recorder
from tracer.record.sink import Sink
from vizdist.store.trace import open_trace

pytestmark = pytest.mark.browser
Tab = Callable[..., Page]
Serve = Callable[[Path], Dashboard]


@pytest.fixture(scope="module")
def real_run(captured: Captured) -> Path:
    """Six steps of one worker and one ps."""
    return captured(*MLP)


@pytest.fixture(scope="module")
def served(real_run: Path, serve: Serve) -> Dashboard:
    return serve(real_run)


@pytest.fixture(scope="module")
def rows(real_run: Path) -> dict[str, list[NodeRow]]:
    """What the store says of the same graph: stage → rows."""
    table = open_trace(real_run).graph()
    assert table is not None
    return {stage: list(found) for stage, found in table.stages.items()}


SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def odd_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of 90 nodes in scopes, one with a name that wants to be markup."""
    folder = tmp_path_factory.mktemp("odd") / "odd.trace"
    names = [f"net/layer{i // 10}/n{i}" for i in range(89)]
    nodes = [Node(names[0], "MatMul"), Node(HOSTILE, HOSTILE, (Input(names[0]),))]
    nodes += [Node(name, "MatMul", (Input(before),)) for before, name in itertools.pairwise(names)]
    device = "/job:worker/replica:0/task:0/device:CPU:0"
    graph = Graph(node.with_(device=device, reason=HOSTILE) for node in nodes)
    record_graph(folder, "device", [Partition(device, graph)])
    return folder


def record_graph(folder: Path, stage: str, parts: list[Partition]) -> None:
    folder.mkdir()
    write_manifest(folder, Manifest("run-1", started_ns=1))
    scratch = folder.parent / "scratch"
    scratch.mkdir()
    recorder = Recorder(scratch, "worker:0")
    for chunk in chunks_of_graph("g1", stage, parts):
        with recorder.span("graph.chunk", trace_of_step("run-1", "run", 0), name=stage) as span:
            for name, value in chunk.items():
                span.set(name, value)
    sink = Sink(folder, scratch)
    sink.turn(time.time_ns(), at_end=True)
    sink.tell()
    sink.close()


@pytest.fixture(scope="module")
def served_odd(odd_run: Path, serve: Serve) -> Dashboard:
    return serve(odd_run)


def opened(tab: Tab, served: Dashboard, query: str = "", **size: int) -> Page:
    page = tab(f"{served.url}t/{served.run}/graph?step=3{query or '&lang=en'}", **size)
    ready(page)
    return page


def ready(page: Page) -> None:
    expect(page.locator("#graph-canvas[data-state=ready]")).to_be_visible(timeout=20_000)
    expect(page.locator("#graph-stages [role=radio]").first).to_be_visible()


def found(page: Page) -> dict[str, Any]:
    """Where the canvas lit what is selected."""
    lit: dict[str, Any] = told(page, "s => s.found")["found"]
    return lit


def at(page: Page, kind: str, name: str) -> tuple[float, float]:
    """Where it is once the picture stands still."""
    return still(page, f"window.__vizdist.where({json.dumps({'type': kind, 'id': name})})")


def test_the_drawn_picture_answers_as_the_store_does(
    tab: Tab, served: Dashboard, rows: dict[str, list[NodeRow]]
) -> None:
    page = opened(tab, served)
    names = [row.name for row in rows["device"] if row.op not in ("_Send", "_Recv")]
    at(page, "node", names[0])
    hits = page.evaluate(
        """(names) => names.map((id) => {
          const { hit, where } = window.__vizdist;
          return hit(...where({ type: "node", id })).selection;
        })""",
        names,
    )
    assert hits == [{"type": "node", "id": name} for name in names]
    sends = [r for r in rows["device"] if r.op == "_Send" and not r.attrs["client_terminated"]]
    assert told(page)["wires"] == len(sends)


def test_a_click_on_an_op_is_in_the_address_the_strip_and_the_aside(
    tab: Tab, served: Dashboard
) -> None:
    page = opened(tab, served)
    page.mouse.click(*at(page, "node", "fc1/addmm"))
    expect(page).to_have_url(re.compile(r"sel=node:fc1/addmm"))
    expect(page.locator("#strip .selected")).to_contain_text("fc1/addmm")
    expect(page.locator("#graph-facts")).to_contain_text("aten.addmm.default")
    expect(page.locator("#graph-facts")).to_contain_text("worker:0 / CPU:0")
    reload(page)
    ready(page)
    assert found(page)["node"] == "fc1/addmm"
    page.go_back()
    expect(page).not_to_have_url(re.compile("sel="))


def test_a_click_on_a_wire_selects_its_rendezvous_key(tab: Tab, served: Dashboard) -> None:
    page = opened(tab, served)
    page.mouse.click(*at(page, "edge", "fc1/bias/Read_S3"))
    expect(page).to_have_url(re.compile(r"sel=key:"))
    expect(page.locator("#graph-facts")).to_contain_text("ps:0 → worker:0")
    expect(page.locator("#graph-facts")).to_contain_text("128 B")
    expect(page.locator("#graph-facts .key")).to_contain_text("edge_")


def test_the_stages_grow_out_of_each_other(
    tab: Tab, served: Dashboard, rows: dict[str, list[NodeRow]]
) -> None:
    page = opened(tab, served)
    stops = page.locator("#graph-stages [role=radio]")
    expect(stops).to_have_count(5)
    stops.first.click()
    expect(page).to_have_url(re.compile("stage=full"))
    expect(stops.first).to_have_attribute("aria-checked", "true")
    expect(stops.first).to_contain_text(str(len(rows["full"])))
    assert told(page, "s => s.stage === 'full' && !s.morphing")["wires"] == 0
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile("stage=pruned"))


def test_the_graph_can_be_walked_with_the_keyboard_alone(tab: Tab, served: Dashboard) -> None:
    page = opened(tab, served)
    page.locator("#graph-canvas canvas").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("sel="))
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("sel="))


def test_the_same_graph_is_a_table_one_key_away(
    tab: Tab, served: Dashboard, rows: dict[str, list[NodeRow]]
) -> None:
    page = opened(tab, served)
    page.keyboard.press("l")
    table = page.locator("#graph-table table")
    expect(table).to_be_visible()
    pairs = [r for r in rows["device"] if r.op in ("_Send", "_Recv")
             and not r.attrs["client_terminated"]]  # fmt: skip
    expect(table.locator("tbody tr")).to_have_count(len(rows["device"]) - len(pairs))
    table.get_by_role("button", name="relu", exact=True).click()
    expect(page).to_have_url(re.compile("sel=node:relu"))
    page.keyboard.press("l")
    expect(table).to_be_hidden()


def test_the_wheel_zooms_about_the_pointer(tab: Tab, served: Dashboard) -> None:
    page = opened(tab, served)
    x, y = at(page, "node", "relu")
    before = told(page)["zoom"]
    page.mouse.move(x, y)
    page.mouse.wheel(0, -400)
    told(page, f"s => s.zoom > {before * 1.3}")
    again = at(page, "node", "relu")
    assert abs(again[0] - x) < 1
    assert abs(again[1] - y) < 1
    page.mouse.wheel(0, 4000)
    told(page, "s => s.level === 'overview'")


@pytest.mark.slow
def test_a_theme_change_repaints(tab: Tab, served: Dashboard) -> None:
    page = opened(tab, served)
    seen: dict[str, str] = {}
    for theme in ("light", "dark", "light"):
        page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
        painted(page)
        drawn = page.evaluate("document.querySelector('#graph-canvas canvas').toDataURL()")
        assert seen.setdefault(theme, drawn) == drawn
    assert seen["light"] != seen["dark"]


@pytest.mark.slow
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_the_page_holds_together(
    tab: Tab, served: Dashboard, lang: str, width: int, height: int
) -> None:
    page = opened(tab, served, f"&lang={lang}&sel=node:relu", width=width, height=height)
    expect(page.locator("#graph-facts h2")).to_be_visible()
    assert axe_faults(page) == []
    assert [fault for fault in overflow(page) if "canvas" not in fault] == []


def test_a_phone_shows_one_box_at_a_time(tab: Tab, served: Dashboard) -> None:
    page = opened(tab, served, width=390, height=844)
    boxes = page.locator(".canvas-boxes button")
    expect(boxes).to_have_count(2)
    boxes.filter(has_text="worker:0").click()
    expect(boxes.filter(has_text="worker:0")).to_have_attribute("aria-pressed", "true")
    page.evaluate("window.__vizdist.select({type: 'node', id: 'fc1/weight'})")
    expect(boxes.filter(has_text="ps:0")).to_have_attribute("aria-pressed", "true")


def test_a_name_that_wants_to_be_markup_is_text(tab: Tab, served_odd: Dashboard) -> None:
    page = opened(tab, served_odd)
    page.on("dialog", lambda dialog: pytest.fail(f"a name opened a dialog: {dialog.message}"))
    page.mouse.move(*at(page, "node", HOSTILE))
    expect(page.locator(".canvas-tip")).to_contain_text(HOSTILE)
    page.mouse.click(*at(page, "node", HOSTILE))
    expect(page.locator("#graph-facts h2")).to_have_text(HOSTILE)
    page.keyboard.press("l")
    expect(page.locator("#graph-table tbody")).to_contain_text(HOSTILE)
    expect(page.locator("main img")).to_have_count(0)


def tiles(page: Page, number: int) -> None:
    page.wait_for_function("n => window.__vizdist?.state().tiles === n", arg=number)


def test_a_folded_scope_opens_at_the_second_click_and_back_folds_it(
    tab: Tab, served_odd: Dashboard
) -> None:
    page = opened(tab, served_odd)
    before = told(page)["tiles"]
    assert before < 30
    place = at(page, "node", "net/layer3/n33")
    page.mouse.click(*place)
    expect(page.locator("#graph-facts")).to_contain_text("net/layer3/n33")
    page.mouse.click(*place)
    tiles(page, before + 9)
    expect(page).to_have_url(re.compile("opened=net%2Flayer3"))
    reload(page)
    ready(page)
    tiles(page, before + 9)
    page.locator(".canvas-opened button").click()
    tiles(page, before)
    page.go_back()
    tiles(page, before + 9)


def test_a_key_folds_the_scope_of_a_node_and_opens_it_again(tab: Tab, served: Dashboard) -> None:
    page = opened(tab, served, "&lang=en&sel=node:fc1/addmm")
    assert found(page)["node"] == "fc1/addmm"
    before = told(page)["tiles"]
    page.locator("#graph-canvas canvas").focus()
    page.keyboard.press("e")
    expect(page).to_have_url(re.compile("folded=fc1"))
    page.wait_for_function("n => window.__vizdist.state().tiles < n", arg=before)
    assert found(page)["node"] == "fc1/addmm"
    page.keyboard.press("e")
    tiles(page, before)


def test_what_a_search_picks_is_lit_also_inside_a_folded_scope(
    tab: Tab, served_odd: Dashboard
) -> None:
    page = opened(tab, served_odd)
    page.keyboard.press("/")
    page.keyboard.type("layer7/n74")
    expect(page.locator("#found [role=option]").first).to_contain_text("net/layer7/n74")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("sel=node:net/layer7/n74"))
    expect(page.locator("#graph-facts .name")).to_have_text("net/layer7/n74")
    assert found(page)["tile"].startswith("net/layer7/* ")


def test_the_legend_names_what_heat_measures_and_its_scale(tab: Tab, served: Dashboard) -> None:
    page = opened(tab, served)
    legend = page.locator(".heat-legend")
    for heat, named, unit in (("bytes", "Bytes", "B"), ("wait", "Longest wait", "s")):
        page.locator(f"#graph-heat [data-value={heat}]").click()
        expect(legend).to_contain_text(re.compile(f"{named}.*{unit}.*(linear|log) scale"))
    page.locator("#graph-heat [data-value=plain]").click()
    expect(legend).to_be_hidden()


@pytest.mark.slow
def test_a_map_is_there_while_a_part_is_out_of_view_and_arrow_keys_move_it(
    tab: Tab, served: Dashboard
) -> None:
    page = opened(tab, served, width=1200)
    mini = page.locator("#graph-minimap")
    expect(mini).to_be_visible()
    before = at(page, "node", "relu")
    mini.locator("canvas").focus()
    page.keyboard.press("ArrowRight")
    assert at(page, "node", "relu")[0] < before[0]
    page.locator("#graph-canvas canvas").focus()
    for _ in range(9):
        page.keyboard.press("-")
    expect(mini).to_be_hidden()


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark", "projector"])
def test_the_picture_is_saved_as_it_looks_with_names_as_text(
    tab: Tab, served_odd: Dashboard, theme: str
) -> None:
    page = opened(tab, served_odd, f"&lang=en&theme={theme}")
    with page.expect_download() as told:
        page.locator("[data-picture=svg]").click()
    found = ElementTree.parse(told.value.path()).getroot()
    texts = ["".join(element.itertext()) for element in found.iter(f"{SVG}text")]
    assert any(HOSTILE.startswith(text[:8]) and "<" in text for text in texts)
    assert not list(found.iter(f"{SVG}img"))
    shown = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--bg')")
    assert next(found.iter(f"{SVG}rect")).get("fill") == shown
    with page.expect_download() as told:
        page.locator("[data-picture=png]").click()
    assert Path(told.value.path()).read_bytes()[:4] == b"\x89PNG"
    assert told.value.suggested_filename == "odd-graph.png"


def test_a_projector_shows_everything_larger_and_hits_what_it_shows(
    tab: Tab, served: Dashboard
) -> None:
    page = opened(tab, served, "&lang=en&theme=projector")
    page.mouse.click(*at(page, "node", "relu"))
    expect(page).to_have_url(re.compile("sel=node:relu"))
    assert page.evaluate("document.body.currentCSSZoom") == pytest.approx(1.2)
    expect(page.locator("#graph-facts h2")).to_be_visible()
    assert axe_faults(page) == []
    assert [fault for fault in overflow(page) if "canvas" not in fault] == []


def test_a_run_without_a_graph_says_so(tab: Tab, dashboard: Dashboard) -> None:
    page = tab(f"{dashboard.url}t/{dashboard.run}/graph?lang=en")
    expect(page.locator("main")).to_contain_text("This run holds no graph")
