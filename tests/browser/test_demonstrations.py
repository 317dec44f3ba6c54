"""What a lecture shows, asked from the screen alone: runs of real processes, checked by the store.

Each run is captured once. What a picture says is compared with a count over spans that shares no
code with the page.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Dashboard, told
from tests.captured import Captured
from tracer.model.trace_folder import Flag
from vizdist.store.spans import Spans
from vizdist.store.trace import Trace, open_trace

pytestmark = [pytest.mark.browser, pytest.mark.cluster, pytest.mark.slow]
Tab = Callable[..., Page]

RUNS: Mapping[str, tuple[str, ...]] = {
    "ps": ("digits-mlp", "--strategy", "parameter_server_v1", "--workers", "2", "--steps", "6"),
    "split": ("model-parallel-mlp", "--steps", "5"),
    "dedup": ("recv-dedup",),
    "cond": ("cross-device-cond",),
    "while": ("cross-device-while",),
    "one-at-a-time": ("cross-device-while", "--option", "parallel_iterations=1"),
    "bad": ("bad-op",),
}


class Shown(NamedTuple):
    """A captured run: the address of its pages, and what the store holds of it."""

    address: str
    trace: Trace

    def page(self, tab: Tab, page: str, query: str = "") -> Page:
        return tab(f"{self.address}/{page}?lang=en{query}")

    def spans(self, *kinds: str, step: int | None = None) -> Spans:
        return self.trace.spans(step=step, kinds=kinds)


@pytest.fixture(scope="module")
def runs(captured: Captured, serve: Callable[[Path], Dashboard]) -> Mapping[str, Shown]:
    shown = {}
    for name, words in RUNS.items():
        folder = captured(*words, exits=int(name == "bad"))
        served = serve(folder)
        shown[name] = Shown(f"{served.url}t/{served.run}", open_trace(folder))
    return shown


def ready(page: Page) -> Page:
    told(page)
    return page


def test_one_run_goes_from_client_to_master_to_workers_through_caches_that_grow_warm(
    tab: Tab, runs: Mapping[str, Shown]
) -> None:
    run = runs["split"]
    page = run.page(tab, "rendezvous", "&step=1")
    heads = page.locator("#rendezvous-sequence .head-text")
    expect(heads.first).to_have_text("client")
    assert heads.all_text_contents()[1] == "worker:0"  # whom the client dials is the master
    expect(page.locator("#rendezvous-sequence")).to_contain_text("run_step")
    expect(page.locator("#rendezvous-sequence")).to_contain_text("register_graph")
    graphs = page.locator("#rendezvous-caches tr", has_text="client graph").locator(".cell")
    steps = sorted({step.number for step in run.trace.steps})
    expect(graphs).to_have_count(len(steps))
    kinds = [str(cell.get_attribute("class")) for cell in graphs.all()]
    assert "miss" in kinds[0]
    assert all("hit" in kind for kind in kinds[1:])
    page.keyboard.press("]")
    expect(page).to_have_url(re.compile("step=2"))
    expect(page.locator("#rendezvous-sequence")).to_contain_text("run_graph")
    expect(page.locator("#rendezvous-sequence")).not_to_contain_text("register_graph")


def test_a_graph_is_pruned_placed_and_split_and_its_nodes_stay_themselves(
    tab: Tab, runs: Mapping[str, Shown]
) -> None:
    run = runs["ps"]
    table = run.trace.graph()
    assert table is not None
    counts = {stage: len(rows) for stage, rows in table.stages.items()}
    page = ready(run.page(tab, "graph", "&stage=full"))
    told(page, f"s => s.stage === 'full' && s.nodeCount === {counts['full']}")
    before = page.evaluate("window.__vizdist.hold(1).tiles.map(tile => tile.id)")
    for stage in ("pruned", "placed", "worker", "device"):
        page.locator(f"#graph-stages [data-value={stage}]").click()
        shown = told(page, f"s => s.stage === '{stage}' && !s.morphing")
        assert shown["nodeCount"] == counts[stage]
    names = {row.name for row in table.stages["full"]} & {
        row.name for row in table.stages["device"]
    }
    after = page.evaluate("window.__vizdist.hold(1).tiles.map(tile => tile.id)")
    assert len(names & {*before} & {*after}) > 10


def test_one_tensor_with_several_readers_crosses_once(tab: Tab, runs: Mapping[str, Shown]) -> None:
    run = runs["dedup"]
    recvs = run.spans("rendezvous.recv", step=1)
    between = recvs.take((recvs.flags & Flag.CLIENT_EDGE) == 0)
    page = run.page(tab, "rendezvous", "&step=1")
    rows = page.locator("#rendezvous-mail .mail-row")
    expect(rows).to_have_count(len({*between.text("key").tolist()}))
    page.locator(".mail-row[data-tensor=a][data-link='ps:0→worker:0']").click()
    page.locator("#strip a", has_text="Graph").click()
    ready(page)
    told(page, "s => s.found")
    readers = page.locator("#graph-facts").get_by_role("listitem")
    graph = run.trace.graph()
    assert graph is not None
    near = [row for row in graph.stages["placed"] if "job:worker/replica:0/task:0" in row.device]
    uses = [row.name for row in near for end in row.inputs if end == "a"]
    expect(readers).to_have_count(len({*uses}))
    expect(page.locator("#graph-facts")).to_contain_text(f"1 for {len(uses)} uses")


def waiting_first(spans: Spans) -> Iterator[str]:
    """Keys whose value was sent after its request had come, or that were waited for longer."""
    ids = spans.span.tolist()
    end = dict(zip(ids, spans.end.tolist(), strict=True))
    calls = dict(zip(spans.parent.tolist(), ids, strict=True))
    served = spans.take(spans.is_kind("rpc.server"))
    begun = dict(zip(served.parent.tolist(), served.start.tolist(), strict=True))
    wait = dict(zip(served.parent.tolist(), served.wait.tolist(), strict=True))
    recvs = spans.take(spans.is_kind("rendezvous.recv") & ((spans.flags & Flag.CLIENT_EDGE) == 0))
    for recv, key, link in zip(recvs.span, recvs.text("key"), recvs.link, strict=True):
        call = calls[int(recv)]
        if begun[call] - end[int(link)] < wait[call]:
            yield str(key)


def test_a_mailbox_says_who_came_first(tab: Tab, runs: Mapping[str, Shown]) -> None:
    run = runs["ps"]
    step = run.trace.steps[-1].number
    page = run.page(tab, "rendezvous", f"&step={step}")
    rows = page.locator("#rendezvous-mail .mail-row")
    expect(rows.first).to_be_visible()
    request = next(one for one in run.trace.steps if one.number == step)
    late = set(waiting_first(run.trace.spans(step=request)))
    said = {
        str(row.get_attribute("data-key"))
        for row in rows.all()
        if row.locator(".mail-late").count()
    }
    assert said == late
    rows.first.click()
    expect(page).to_have_url(re.compile("sel=key:"))


def test_a_step_tells_where_its_time_went(tab: Tab, runs: Mapping[str, Shown]) -> None:
    run = runs["ps"]
    step = run.trace.steps[-1]
    page = ready(run.page(tab, "timeline", f"&step={step.number}"))
    told(page, "s => s.path > 0")
    expect(page.locator("#timeline-split")).to_contain_text(f"Step {step.number} took")
    told(page, "s => s.standsOut > 0")
    row = page.locator("[data-stand-out]", has_text="because").first
    expect(row).to_be_visible()
    row.click()
    told(page, "s => s.stalls > 0")


def test_the_branch_not_taken_sends_dead_tensors(tab: Tab, runs: Mapping[str, Shown]) -> None:
    run = runs["cond"]
    sends = run.spans("rendezvous.send", step=1)
    dead = Counter(sends.text("key")[(sends.flags & Flag.DEAD) != 0].tolist())
    assert dead
    page = run.page(tab, "replay", "&step=1")
    page.emulate_media(reduced_motion="reduce")
    page.wait_for_selector("#replay-canvas[data-replay=ready][data-state=ready]")
    seen: set[str] = set()
    for time in page.evaluate("window.__vizdist.instants('tensor')"):
        page.evaluate("(time) => window.__vizdist.seek(time)", time)
        tokens = page.evaluate("window.__vizdist.replay().tokens")
        seen |= {token["key"] for token in tokens if token["dead"]}
    assert seen
    assert seen <= {*dead}


def most_at_once(run: Shown) -> int:
    """Iterations of the loop that are in flight together on any device, by the spans."""
    turns = run.spans("iteration.run", step=1)
    numbers = np.unique(turns.iteration)
    begins = [int(turns.start[turns.iteration == n].min()) for n in numbers]
    ends = [int(turns.end[turns.iteration == n].max()) for n in numbers]
    return max(sum(a <= at < b for a, b in zip(begins, ends, strict=True)) for at in begins)


def most_shown(page: Page) -> int:
    """The same as the replay says it, at every beginning and end of an iteration."""
    page.emulate_media(reduced_motion="reduce")
    page.wait_for_selector("#replay-canvas[data-replay=ready][data-state=ready]")
    counts = []
    for time in page.evaluate("window.__vizdist.instants('iteration')"):
        page.evaluate("(time) => window.__vizdist.seek(time)", time)
        found = re.search(r"in flight: (\d+)", page.locator("#replay-flight").inner_text())
        counts.append(int(found[1]) if found else 0)
    return max(counts)


def test_iterations_overlap_only_as_far_as_they_may(tab: Tab, runs: Mapping[str, Shown]) -> None:
    narrow, wide = runs["one-at-a-time"], runs["while"]
    shown = [most_shown(run.page(tab, "replay", "&step=1")) for run in (narrow, wide)]
    assert shown == [most_at_once(narrow), most_at_once(wide)]
    assert shown[0] < shown[1]


def test_a_failed_run_opens_on_its_one_cause_and_the_wave_after_it(
    tab: Tab, runs: Mapping[str, Shown]
) -> None:
    run = runs["bad"]
    failed = run.trace.all.take((run.trace.all.flags & Flag.ERROR) != 0)
    ops = failed.take(failed.is_kind("op.run"))
    cause = str(ops.text("name")[ops.end.argmin()])
    page = run.page(tab, "summary")
    wrong = page.locator(".wrong-cause")
    expect(wrong).to_contain_text(cause)
    expect(wrong).to_contain_text("worker:1")
    expect(wrong.locator(".echo.root")).to_have_count(1)
    expect(wrong.locator(".echo:not(.root)")).not_to_have_count(0)
    wrong.locator("a", has_text="Timeline").first.click()
    ready(page)
    expect(page.locator("#strip")).to_contain_text(cause)
