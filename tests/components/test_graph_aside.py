"""Facts become words, and a name from a trace stays text."""

import json
from typing import Any

import pytest

from tests.figures.golden_stages import device_rows
from tracer.model.graph_table import NodeRow
from vizdist.analysis.node_measures import Measured, StepMeasures
from vizdist.components.graph_aside import aside, gone
from vizdist.components.graph_toolbar import clients, stops
from vizdist.figures.graph_facts import facts_of
from vizdist.figures.graph_stage import read_stage
from vizdist.figures.partitioned_graph import stage_counts
from vizdist.i18n import Lang
from vizdist.i18n.units import us
from vizdist.store.trace import StepInfo

MLP = "viii_mlp_ref_2ps__grpc"
STEP = StepInfo(12, 1, 2, 0, 1_000_000, "worker:0", 3, True)
HOSTILE = "<img src=x onerror=alert(1)>**{0}"


def texts(component: Any) -> str:
    """All text of a component, in order."""
    if component is None:
        return ""
    if isinstance(component, str):
        return component + " "
    if isinstance(component, list | tuple):
        return "".join(map(texts, component))
    return texts(getattr(component, "children", None))


def shown(selected: list[str], rows: list[NodeRow], lang: Lang = "en") -> str:
    stages = {"device": rows}
    measures = StepMeasures({row.name: Measured(5000, 400, runs=1) for row in rows})
    facts = facts_of(read_stage("device", rows), stages, measures, selected)
    assert facts is not None
    return texts(aside(facts, STEP, lang))


def with_reason(reason: str) -> list[NodeRow]:
    return [row._replace(reason=reason, requested_device="/job:ps") for row in device_rows(MLP)]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    "reason",
    [
        *("requested", "colocated", "resource", "metadata", "generator", "default"),
        "identity",
        *("control_flow", "control_loop", "cost", "cut", "", "odd"),
        *("soft", "replicated", "bf16", "schedule_recvs", "default, folded", "odd, folded"),
    ],
)
def test_every_reason_is_said_in_words(reason: str, lang: Lang) -> None:
    words = shown(["train/update_w1/ApplyGradientDescent"], with_reason(reason), lang)
    assert "ApplyGradientDescent" in words
    assert "ps:1 / CPU:0" in words
    assert reason != "resource" or words.count("w1 ") >= 2
    assert ("odd" in reason) == ("“odd" in words)
    assert reason != "soft" or "/job:ps " in words


def test_a_node_tells_what_it_took() -> None:
    words = shown(["mm1"], device_rows(MLP))
    assert "Step 12" in words
    assert "5 µs, 0.5 % of the step" in words


def test_a_pair_and_the_whole_graph_have_words_too() -> None:
    rows = device_rows(MLP)
    recv = next(row.name for row in rows if row.op == "_Recv" and row.name.startswith("w1/read"))
    assert "ps:1 → worker:0" in shown([recv], rows)
    assert "This is what runs." in shown([], rows)
    assert "11" in shown([], rows)


def test_what_is_not_in_a_stage_is_said_with_its_name() -> None:
    assert HOSTILE in texts(gone(HOSTILE, "full", "en"))


def test_a_hostile_name_is_text_everywhere() -> None:
    base = device_rows(MLP)[0]
    rows = [base._replace(name=HOSTILE, op=HOSTILE, inputs=(), reason=HOSTILE, source=HOSTILE,
                          attrs={})]  # fmt: skip
    stages = {"device": rows}
    graph = read_stage("device", rows)
    facts = facts_of(graph, stages, StepMeasures(), [HOSTILE])
    assert facts is not None
    drawn = aside(facts, STEP, "en")
    encoded = json.dumps(drawn, default=lambda item: item.to_plotly_json())
    assert HOSTILE in texts(drawn)
    assert "dangerously" not in encoded


def test_the_stops_say_how_large_each_stage_is() -> None:
    counts = stage_counts({"device": device_rows(MLP)})
    words = " ".join(texts(stops(counts, "device", "en")).split())
    assert words == "split by device 89 · 11 pairs"


def test_clients_are_offered_only_where_there_are_several() -> None:
    assert clients(("worker:0",), "worker:0", "en") == []
    assert texts(clients(("worker:0", "worker:1"), "worker:1", "en")).split() == [
        "Step", "of", "worker:0", "worker:1",
    ]  # fmt: skip


def test_short_times_are_not_nothing() -> None:
    assert (us(0), us(420), us(1_640)) == ("0 µs", "420 ns", "2 µs")
