"""`vizdist report --step` on a run that the real runtime recorded."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.golden_cases import GOLDEN
from tracer.cli import main as tracer
from vizdist.analysis.mechanisms import (
    failures,
    leftovers,
    preparation,
    sessions,
    stages,
    transfers,
)
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.report import report_json, report_text
from vizdist.analysis.step_report import SECTIONS, steps_of
from vizdist.i18n import LANGUAGES
from vizdist.store.trace import Trace, open_trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """recv-dedup: one tensor, five readers on two workers, two tasks of which it reaches once."""
    folder = tmp_path_factory.mktemp("run") / "dedup.trace"
    assert tracer(["run", "recv-dedup", "--in-process", "--steps", "2", "--out", str(folder)]) == 0
    return open_trace(folder)


def one(trace: Trace, number: int = 2) -> OneStep:
    [found] = steps_of(trace, number)
    return found


def test_every_stage_of_the_graph_is_counted(trace: Trace) -> None:
    found = stages.find(one(trace))
    assert found is not None
    assert list(found.nodes) == ["full", "pruned", "placed", "worker", "device"]
    assert found.nodes["full"] == found.nodes["placed"] == 12
    assert {placement.reason for placement in found.placed} == {"requested"}
    assert found.added == {"_Send": 5, "_Recv": 5}


def test_the_counts_of_a_stage_agree_wherever_they_stand(trace: Trace) -> None:
    """The ends of the client, one for each fetch, are no nodes of the graph."""
    found = stages.find(one(trace))
    assert found is not None
    assert len(found.placed) == found.nodes["placed"] == 12
    for stage, parts in found.parts.items():
        assert sum(parts.values()) == found.nodes[stage] == 22
    prepared = preparation.find(one(trace))
    assert prepared is not None
    assert prepared.client_ends == 2
    told = "\n".join(preparation.tell(prepared, "en"))
    assert "graph.nodes=14" in told
    assert "graph.nodes counts 2 ends of the client too" in told


def test_a_graph_that_lost_nothing_was_not_pruned(trace: Trace) -> None:
    assert "Of the graph's 12 nodes none was pruned; they were placed on 3" in report_text(trace)
    assert "计算图的 12 个节点无一被剪去" in report_text(trace, None, "zh")


def test_the_graph_was_made_ready_once_before_its_first_step(trace: Trace) -> None:
    first, second = (preparation.find(one(trace, number)) for number in (1, 2))
    assert first is not None
    assert second is not None
    assert first.works == second.works
    kinds = [work.kind for work in first.works]
    assert kinds == ["graph.prune", "graph.place", "graph.partition", *["graph.register"] * 3]
    assert {work.task for work in first.works[3:]} == {"ps:0", "worker:0", "worker:1"}
    assert first.works[0].facts == {"graph.nodes_before": 12, "graph.nodes": 14}  # and two fetches
    assert first.works[2].facts["graph.pairs"] == 5


def test_a_tensor_of_five_readers_went_twice(trace: Trace) -> None:
    found = transfers.find(one(trace))
    assert found is not None
    of_a = [row.target for row in found.rows if row.tensor == "a"]
    assert sorted(of_a) == [f"/job:worker/replica:0/task:{i}/device:CPU:0" for i in (0, 1)]
    assert all(row.state == "done" and row.bytes == 8 for row in found.rows)


def test_the_ids_are_those_that_client_and_workers_were_told(trace: Trace) -> None:
    first, second = (sessions.find(one(trace, number)) for number in (1, 2))
    assert first is not None
    assert second is not None
    assert first.handle == second.handle
    assert first.graphs == second.graphs  # registered once, run twice
    assert len(second.graphs) == 3
    assert first.step_id != second.step_id
    assert {side.side for side in second.sides} >= {"client"}


def test_the_text_has_a_heading_for_each_section_and_json_the_same_sections(trace: Trace) -> None:
    told: dict[str, Any] = json.loads(report_json(trace, 2))
    [mechanisms] = told["mechanisms"]
    text = report_text(trace, 2)
    assert mechanisms.keys() - {"step", "task", "start_ns"} <= SECTIONS.keys()
    assert {"stages", "sessions", "executor", "transfers", "leftovers"} <= mechanisms.keys()
    assert "calls" not in mechanisms  # one process makes no call
    assert "control_flow" not in mechanisms
    for says in ("The graph of step 2", "Transfers between devices", "every key met"):
        assert says in text
    assert json.loads(report_json(trace))["mechanisms"] == []
    assert "Transfers between devices" not in report_text(trace)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_word_of_it_is_there(trace: Trace, lang: Any) -> None:
    assert "{" not in report_text(trace, 1, lang)


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("x_pruned__grpc", "unneeded"),
        ("iv_feed_inner__grpc", "fed"),
        ("iv_feed_fetch__grpc", "fed"),
    ],
)
def test_a_pruned_node_served_nothing_or_only_a_feed(case: str, why: str, tmp_path: Path) -> None:
    golden = json.loads((GOLDEN / f"{case}.json").read_text())
    flags = ["--in-process", "--out", str(tmp_path / "t")]
    assert tracer(["run", str(GOLDEN / f"{case}.json"), *flags]) == 0
    found = stages.find(one(open_trace(tmp_path / "t"), 1))
    assert found is not None
    assert {key: set(names) for key, names in found.pruned.items()} == {
        why: set(golden["summary"]["dropped_client_nodes"])
    }


def test_what_the_cost_model_foresaw_stands_beside_what_the_step_took(
    trace: Trace, tmp_path: Path
) -> None:
    flags = ["--in-process", "--placer", "cost", "--out", str(tmp_path / "t")]
    assert tracer(["run", "diamond", *flags]) == 0
    found = preparation.find(one(open_trace(tmp_path / "t"), 1))
    assert found is not None
    assert found.predicted_ns is not None
    assert found.predicted_ns > 0
    assert any("the cost model foresaw" in line for line in preparation.tell(found, "en"))
    by_rules = preparation.find(one(trace))
    assert by_rules is not None
    assert by_rules.predicted_ns is None


def test_the_op_that_failed_is_the_root_and_its_echoes_are_derived(tmp_path: Path) -> None:
    assert tracer(["run", "bad-op", "--in-process", "--out", str(tmp_path / "t")]) == 1
    failed = one(open_trace(tmp_path / "t"), 3)
    found = failures.find(failed)
    assert found is not None
    assert found.cause is not None
    assert (found.cause.key, found.cause.values["task"]) == ("task_in_step", "worker:1")
    roots = [each for each in found.failures if each.role == "root"]
    assert [(each.task, each.kind, each.name) for each in roots] == [
        ("worker:1", "op.run", "checked")
    ]
    echoes = [each for each in found.failures if each.role == "derived"]
    assert {each.task for each in echoes} >= {"worker:0", "ps:0"}
    assert all(each.after_ns >= roots[0].after_ns for each in echoes)
    [says, *_] = failures.tell(found, "en")
    assert "worker:1 failed in step 3" in says
    assert failures.find(one(failed.trace, 2)) is None


def test_what_a_deadlock_left_is_told_of_all_tasks_by_key(tmp_path: Path) -> None:
    flags = ("--in-process", "--step-timeout", "1", "--out", str(tmp_path / "t"))
    assert tracer(["run", "deadlock", *flags]) == 1
    found = leftovers.find(one(open_trace(tmp_path / "t"), 1))
    assert found is not None
    alone = [each for each in found.alone if "edge" in each.key]
    assert {each.side for each in alone} == {"recv"}
    assert len({each.task for each in alone}) == 2
    for each in alone:
        source, life, target, edge, frame = each.key.split(";")
        assert source.startswith("/job:")
        assert int(life, 16)
        assert each.task.replace(":", "/replica:0/task:") in target
        assert edge.startswith("edge_")
        assert frame == "0:0"
        assert each.waited_ns > 0.5e9


def test_a_reason_is_told_in_words_and_one_that_is_unknown_as_it_is(trace: Trace) -> None:
    found = stages.find(one(trace))
    assert found is not None
    reasons = ("control_flow", "colocated, folded", "by_hand")
    placed = [replace(found.placed[0], reason=reason) for reason in reasons]
    told = "\n".join(stages.tell(replace(found, placed=placed), "zh"))
    for words in ("控制流", "同置、常量折叠", "by_hand"):
        assert f"\n  {words}  " in told
