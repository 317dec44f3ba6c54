"""Graph workloads repeat experiments on TensorFlow: cut and result are what it was seen to give."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden_cases import GOLDEN
from tracer.cli import main
from tracer.model.graph_builder import GraphBuilder
from tracer.model.graph_table import STAGES
from tracer.passes.describe import describe_graph_file
from tracer.workloads.factory import FactoryError
from tracer.workloads.given import graph_of, workload_of
from tracer.workloads.graph_workload import GraphWorkload, graph_workload
from tracer.workloads.requested import Requested
from vizdist.analysis.report import report_text
from vizdist.figures.graph_folding import Choice
from vizdist.figures.partitioned_graph import graph_payload
from vizdist.figures.step_graph import step_graph
from vizdist.store.trace import open_trace

#: workload → what was seen of the same graph
SEEN = {
    "diamond": "iii_diamond__grpc",
    "recv-dedup": "i_recv_dedup__grpc",
    "cross-device-cond": "v_cond__grpc",
    "cross-device-while": "vi_while__grpc",
    "nested-while": "vii_nested_while__grpc",
}


def seen(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / f"{SEEN[name]}.json").read_text())
    return found


@pytest.mark.parametrize("name", SEEN)
def test_its_cut_is_tensorflows(name: str) -> None:
    given = Requested.named(name).make_graph({}, seed=0).given
    assert describe_graph_file(given)["counts"] == seen(name)["summary"]["counts"]


@pytest.mark.parametrize("name", SEEN)
@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(["--in-process"], id="near"),
        pytest.param([], id="grpc", marks=[pytest.mark.cluster, pytest.mark.slow]),
    ],
)
def test_its_result_is_tensorflows_and_its_trace_opens(
    name: str, flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", name, *flags, "--json", "--out", str(tmp_path / "t")]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["result"] == seen(name)["result"]
    assert printed["spans"]["recorded"] == printed["spans"]["written"] > 0
    trace = open_trace(tmp_path / "t")
    shown = step_graph(trace, 1)
    for stage in STAGES:
        drawn = graph_payload(shown.stages, stage, shown.measures, Choice(frozenset(), frozenset()))
        assert drawn["tiles"]
    assert "every key met" in report_text(trace, 1)


def test_an_option_changes_the_graph() -> None:
    given = Requested.named("diamond").make_graph({"size": "7"}, seed=0).given
    assert given.graph["top_const"].specs[0].shape == (7,)


def test_what_a_factory_makes_is_what_its_annotation_says() -> None:
    b = GraphBuilder()
    b.const(1.0, name="one")
    graph = graph_workload(b.graph(), {"worker": 1}, ["one:0"])
    assert graph_of(graph, "own:make") is graph
    with pytest.raises(FactoryError, match=r"own:make returned a graph.*-> GraphWorkload"):
        workload_of(graph, "own:make")
    with pytest.raises(FactoryError, match=r"own:make returned a dict.*-> GraphWorkload"):
        graph_of({}, "own:make")


def test_feeds_that_end_before_the_steps_do_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "few_feeds.py").write_text(
        "import torch\n"
        "from tracer.model.graph_builder import GraphBuilder\n"
        "from tracer.workloads.graph_workload import GraphWorkload, graph_workload\n"
        "def make() -> GraphWorkload:\n"
        "    b = GraphBuilder()\n"
        "    b.op('Neg', b.placeholder([2], name='x'), name='y')\n"
        "    feeds = lambda seed: iter([{'x:0': torch.ones(2)}] * 2)\n"
        "    return graph_workload(b.graph(), {'worker': 1}, ['y:0'], steps=3, feeds=feeds)\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["run", "few_feeds:make", "--in-process", "--out", str(tmp_path / "t")]) == 1
    assert "the feeds ended before step 3; let them repeat" in capsys.readouterr().err


def test_a_graph_workload_of_ones_own_is_told_by_its_annotation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "graph_of_mine.py").write_text(
        "from tracer.model.graph_builder import GraphBuilder\n"
        "from tracer.workloads.graph_workload import GraphWorkload, graph_workload\n"
        "def make(value: float = 2.0) -> GraphWorkload:\n"
        "    b = GraphBuilder()\n"
        "    b.const(value, name='one')\n"
        "    return graph_workload(b.graph(), {'worker': 1}, ['one:0'], steps=3)\n"
    )
    monkeypatch.chdir(tmp_path)
    requested = Requested.named("graph_of_mine:make")
    made = requested.make_graph({"value": "5"}, seed=0)
    assert requested.is_graph
    assert isinstance(made, GraphWorkload)
    assert (made.steps, list(requested.options)) == (3, ["value"])
