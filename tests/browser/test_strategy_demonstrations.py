"""What a lecture on strategies shows, asked from the screen alone and checked by the spans.

Each run is captured once. What a page says is compared with a count over spans, or with a closed
form, that shares no code with the page.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Dashboard
from tests.browser.test_demonstrations import Shown
from tests.captured import Captured
from vizdist.store.trace import open_trace

pytestmark = [pytest.mark.browser, pytest.mark.cluster, pytest.mark.slow]
Tab = Callable[..., Page]

MIRRORED = ("digits-mlp", "--strategy", "mirrored", "--steps", "4", "--in-process", "--devices")
PS = ("digits-mlp", "--strategy", "parameter_server_v1", "--workers", "2", "--ps", "2")
RING = ("--option", "cross_device_ops=ring")
RUNS: Mapping[str, tuple[str, ...]] = {
    "ring of 2": (*MIRRORED, "cpu:2", *RING),
    "ring of 4": (*MIRRORED, "cpu:4", *RING),
    "one device of 4": (*MIRRORED, "cpu:4", "--option", "cross_device_ops=reduce_to_one"),
    "policies": ("variable-policies", "--in-process"),
    "asynchronous": (*PS, "--steps", "8", "--fault", "delay=20:worker:1@step:2"),
    "synchronous": (*PS, "--steps", "8", "--option", "sync=true"),
}
BYTES = 4 * (64 * 32 + 32 + 32 * 10 + 10)  #: of the variables of digits-mlp, and of its gradients


@pytest.fixture(scope="module")
def runs(captured: Captured, serve: Callable[[Path], Dashboard]) -> Mapping[str, Shown]:
    shown = {}
    for name, words in RUNS.items():
        folder = captured(*words)
        served = serve(folder)
        shown[name] = Shown(f"{served.url}t/{served.run}", open_trace(folder))
    return shown


def sizes_in(places: Locator) -> list[float]:
    """Bytes, as the screen has them in B or KiB."""
    texts = [text.replace("\u00a0", " ") for text in places.all_text_contents()]
    found = [re.search(r"([\d.]+) (B|KiB)", text) for text in texts]
    return [float(one[1]) * (1024 if one[2] == "KiB" else 1) for one in found if one]


def test_a_ring_spreads_what_one_device_sends_alone(tab: Tab, runs: Mapping[str, Shown]) -> None:
    """Both move 2(n-1) S in all, but n-1 S of it leave the one device, 2(n-1)/n S each rank."""
    names = ("ring of 2", "ring of 4", "one device of 4")
    ids = ",".join(runs[name].address.rpartition("/")[2] for name in names)
    root = runs[names[0]].address.partition("/t/")[0]
    page = tab(f"{root}/compare?runs={ids}&lang=en")
    expect(page.locator(".clock-run")).to_have_count(3)
    bars = page.locator(".bytes-bars > div")
    totals, most = sizes_in(bars.locator("b")), sizes_in(bars.locator("small:last-child"))
    assert totals[1] == pytest.approx(totals[2], rel=0.02)  # beside inputs, which are the same
    assert totals[1] - totals[0] == pytest.approx(4 * BYTES, rel=0.3)
    assert most[2] - most[1] == pytest.approx(1.5 * BYTES, rel=0.05)


def test_each_hop_of_a_ring_fills_chunks_until_all_ranks_are_in_all(
    tab: Tab, runs: Mapping[str, Shown]
) -> None:
    page = runs["ring of 4"].page(tab, "collectives", "&step=2")
    expect(page.locator("#collectives-at")).to_have_text("1 / 6")
    for _ in range(5):
        page.locator("[data-hop=forward]").click()
    expect(page.locator("#collectives-ring .cell-text")).to_have_text(["4"] * 16)
    expect(page.locator("#collectives-numbers")).to_contain_text("2·(4−1)/4 of 9.41 KiB")


def test_copies_and_reads_of_every_policy_are_there_from_a_run(
    tab: Tab, runs: Mapping[str, Shown]
) -> None:
    page = runs["policies"].page(tab, "variables", "&step=2")

    def row(rule: str) -> list[str]:
        cells = page.locator("#variables-copies tr", has_text=f"{rule}").locator("td")
        expect(cells).to_have_count(3)
        return [text.partition(" ·")[0] for text in cells.all_text_contents()]

    assert row("ON_WRITE · SUM") == ["3", "3", "3"]
    assert row("ON_WRITE · MEAN") == ["1.5", "1.5", "1.5"]
    assert row("ON_READ · SUM") == ["1", "2", "3"]
    assert row("ON_READ · MEAN") == ["1", "2", "1.5"]
    assert row("ON_READ · NONE") == ["1", "2", "ValueError"]


def test_a_variable_that_parted_comes_first_and_is_chosen_from_the_headline(
    tab: Tab, runs: Mapping[str, Shown]
) -> None:
    page = runs["policies"].page(tab, "variables", "&step=2")
    rows = page.locator("#variables-copies .variable")
    expect(rows.first).to_contain_text("copies differ")
    rows.last.click()
    expect(rows.first).to_have_attribute("aria-pressed", "false")
    page.locator("#variables-head [data-variable]", has_text="on_write/none").click()
    expect(rows.first).to_have_attribute("aria-pressed", "true")


def test_one_device_that_sums_for_all_stands_where_collectives_would(
    tab: Tab, runs: Mapping[str, Shown]
) -> None:
    """It gets the gradients and the loss of 3 others, and sends sums of gradients back to them."""
    page = runs["one device of 4"].page(tab, "collectives", "&step=2")
    expect(page.locator("h1")).to_contain_text("CPU:0 made 5 sums")
    came, went = sizes_in(page.locator("h1 b").filter(has_text="B"))
    assert came == pytest.approx(3 * (BYTES + 4), rel=0.01)
    assert went == pytest.approx(3 * BYTES, rel=0.01)
    page.locator(".reduced .cut", has_text="AddN").first.click()
    expect(page).to_have_url(re.compile(r"/graph\?.*sel=span:"))


def test_replicas_build_in_turn_and_devices_run_at_once(
    tab: Tab, runs: Mapping[str, Shown]
) -> None:
    run = runs["ring of 4"]
    turns = run.spans("replica.build")
    ordered = np.argsort(turns.start)
    assert (turns.end[ordered][:-1] <= turns.start[ordered][1:]).all()
    page = run.page(tab, "strategy", "&step=2")
    says = page.locator("#strategy-build-says")
    expect(says).to_contain_text(f"took {len(turns)} turns, no two at once")
    expect(says).to_contain_text("No step runs them again")
    expect(page.locator("#strategy-build [role=button].rank")).to_have_count(
        len(turns) + len(run.spans("replica.merge"))
    )
    expect(page.locator("#strategy-run .rank-name")).to_have_text(
        [f"CPU:{number}" for number in range(4)]
    )


@pytest.mark.parametrize("name", ["asynchronous", "synchronous"])
def test_a_parameter_server_has_its_tiles_and_its_steps_their_staleness(
    tab: Tab, runs: Mapping[str, Shown], name: str
) -> None:
    run = runs[name]
    page = run.page(tab, "variables", "&step=4")
    boxes = page.locator(".treemap-box")
    expect(boxes).to_have_count(2)
    held = sizes_in(boxes.locator(".treemap-head div small"))
    assert sum(held) == pytest.approx(BYTES, rel=0.01)
    rows = page.locator(".missed-row")
    expect(rows.first).to_be_visible()
    counts = [int(text) for text in rows.locator("b").all_text_contents()]
    if name == "synchronous":
        assert counts[1:] == []  # a barrier: nobody is late
    else:
        assert sum(counts) == 2 * 8
        assert len(counts) > 1
