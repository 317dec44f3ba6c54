"""Every Send and Recv that ran is one edge of the drawn graph, counted apart from what draws it."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import networkx as nx  # type: ignore[import-untyped]
import pytest

from tracer.cli import main as tracer
from tracer.model.graph import Input
from tracer.model.graph_table import NodeRow
from tracer.model.trace_folder import Flag
from vizdist.figures.graph_facts import PairFacts, facts_of
from vizdist.figures.graph_stage import read_stage
from vizdist.figures.partitioned_graph import graph_payload
from vizdist.figures.step_graph import StepGraph, step_graph
from vizdist.store.spans import Spans
from vizdist.store.trace import open_trace

SENDS, RECVS = ("_Send", "_HostSend"), ("_Recv", "_HostRecv")
RUNS = {
    "digits-mlp": ["--strategy", "parameter_server_v1", "--ps", "1", "--workers", "1"],
    "recv-dedup": [],
    "cross-device-cond": [],
    "cross-device-while": [],
    "nested-while": [],
}


class Captured(NamedTuple):
    """The graph of step 1, and the ends that ran in it between devices."""

    graph: StepGraph
    ends: Spans


def capture(name: str, folder: Path) -> Captured:
    steps = ["--steps", "1"] if RUNS[name] else []
    run = ["run", name, *RUNS[name], *steps, "--in-process", "--out", str(folder / "t")]
    assert tracer(run) == 0
    trace = open_trace(folder / "t")
    found = step_graph(trace, 1)
    assert found.step is not None
    spans = trace.all.take(trace.step_places(found.step))
    ends = spans.take(spans.is_kind("rendezvous.send", "rendezvous.recv"))
    return Captured(found, ends.take((ends.flags & Flag.CLIENT_EDGE) == 0))


@pytest.fixture(scope="module", params=RUNS)
def captured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Captured:
    return capture(request.param, tmp_path_factory.mktemp(request.param))


def pairs_of(rows: list[NodeRow]) -> nx.MultiDiGraph:
    """The cut graph with an edge from each Send to the Recv of its key, and nothing of our own."""
    graph = nx.MultiDiGraph()
    sends: dict[tuple[object, ...], str] = {}
    recvs: dict[tuple[object, ...], str] = {}
    for row in rows:
        for text in row.inputs:
            graph.add_edge(Input.parse(text.removeprefix("^")).node, row.name, kind="own")
        key = tuple(row.attrs.get(k) for k in ("tensor_name", "send_device", "recv_device"))
        if not row.attrs.get("client_terminated"):
            sends |= {key: row.name} if row.op in SENDS else {}
            recvs |= {key: row.name} if row.op in RECVS else {}
    assert sends.keys() == recvs.keys()
    for key, send in sends.items():
        graph.add_edge(send, recvs[key], kind="pair")
    return graph


def test_every_send_and_recv_that_ran_is_on_one_wire_alone(captured: Captured) -> None:
    found, ends = captured
    counted = pairs_of(list(found.stages["device"]))
    pairs = {(a, b) for a, b, kind in counted.edges(data="kind") if kind == "pair"}
    wires = graph_payload(found.stages, "device", found.measures)["wires"]
    parts = [part for wire in wires for part in wire["parts"]]
    assert Counter((part["send"], part["recv"]) for part in parts) == Counter(pairs)
    on = Counter(end for part in parts for end in (part["send"], part["recv"]))
    ran = ends.text("name").tolist()
    assert {on[end] for end in ran} == {1}
    assert set(ran) == set(on)
    edges = [key.rpartition(";")[0] for key in ends.text("key").tolist()]  # without the iteration
    keys = dict(zip(ran, edges, strict=True))
    for part in parts:
        assert keys[part["send"]] == keys[part["recv"]] == part["key"].rpartition(";")[0]


def test_the_consumers_of_a_wire_are_what_its_recv_leads_to(captured: Captured) -> None:
    found = captured.graph
    rows = {row.name: row for row in found.stages["device"]}
    counted = pairs_of(list(rows.values()))
    for pair in read_stage("device", found.stages["device"]).pairs:
        carrier = pair.carriers[1] if pair.carriers else pair.recv
        after = [dst for _, dst in counted.out_edges(carrier)]
        assert set(pair.dsts) == {dst for dst in after if rows[dst].op not in SENDS} | {
            dst for dst in after if rows[dst].attrs.get("client_terminated")
        }
        assert pair.num_uses == len(after)


def test_one_tensor_with_four_uses_is_one_transfer_and_would_be_four(tmp_path: Path) -> None:
    found, ends = capture("recv-dedup", tmp_path)
    graph = read_stage("device", found.stages["device"])
    (pair,) = [pair for pair in graph.pairs if pair.src == "a" and len(pair.dsts) > 1]
    facts = facts_of(graph, found.stages, found.measures, [pair.recv])
    assert isinstance(facts, PairFacts)
    assert (facts.num_uses, facts.num_bytes) == (4, 8)
    recvs = ends.take(ends.is_kind("rendezvous.recv"))
    assert (recvs.text("name") == pair.recv).sum() == 1
