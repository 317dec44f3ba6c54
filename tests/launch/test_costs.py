"""Costs of an earlier run: read from its trace, or from a file, and used."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden_cases import GOLDEN
from tracer.cli import main
from tracer.launch.costs import costs_of_trace, read_costs
from tracer.passes.cost_model import Costs, CostsError

CPU = "/job:worker/replica:0/task:0/device:CPU:0"
GPU = "/job:worker/replica:0/task:0/device:GPU:0"


def span(kind: str, took_ns: int, **told: Any) -> dict[str, Any]:
    attributes = {"vizdist.kind": kind} | {f"vizdist.{k}": v for k, v in told.items()}
    return {
        "startTimeUnixNano": "1000",
        "endTimeUnixNano": str(1000 + took_ns),
        "attributes": [{"key": k, "value": {"v": v}} for k, v in attributes.items()],
    }


def op(node: str, took_ns: int, step: int, device: str = CPU, **told: Any) -> dict[str, Any]:
    known = {"node": node, "device": device, "op": "Mul", "step.number": str(step)}
    return span("op.run", took_ns, **known, **told)


def recv(took_ns: int, wait_ns: int, **told: Any) -> dict[str, Any]:
    return span(
        "rendezvous.recv", took_ns, **{"edge.kind": "data", "wait_ns": str(wait_ns)}, **told
    )


def trace(folder: Path, *spans: dict[str, Any]) -> Path:
    (folder / "spans").mkdir()
    line = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    (folder / "spans" / "worker-0.0.otlp.jsonl.gz").write_bytes(gzip.compress(line.encode()))
    return folder


def test_a_nodes_cost_is_the_median_of_its_steps_with_all_iterations(tmp_path: Path) -> None:
    loop = [op("m", 10, step) for step in (1, 2, 3) for _ in range(3)]
    costs = costs_of_trace(trace(tmp_path, *loop, op("n", 900, 1), op("n", 50, 2), op("n", 70, 3)))
    assert costs.nodes == {"CPU": {"m": 30, "n": 70}}
    assert costs.ops == {"CPU": {"Mul": 40}}


def test_on_a_gpu_the_work_counts_and_not_its_launch(tmp_path: Path) -> None:
    launched = op("m", 5, 1, GPU, lane="executor GPU:0")
    worked = op("m", 80, 1, GPU, lane="stream GPU:0")
    assert costs_of_trace(trace(tmp_path, launched, worked)).nodes == {"GPU": {"m": 80}}


def test_a_transfer_costs_what_is_left_after_the_wait(tmp_path: Path) -> None:
    far = [recv(500, 100, remote=True), recv(900, 100, remote=True), recv(700, 100, remote=True)]
    costs = costs_of_trace(trace(tmp_path, op("m", 1, 1), *far, recv(90, 80)))
    assert (costs.far_ns, costs.near_ns) == (600, 10)


def test_the_whole_lines_of_a_trace_that_was_cut_off_count(tmp_path: Path) -> None:
    folder = trace(tmp_path, op("m", 10, 1))
    (path,) = (folder / "spans").iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    assert costs_of_trace(folder).nodes == {"CPU": {"m": 10}}


def test_a_trace_without_ops_is_refused_with_the_flags_that_record_them(tmp_path: Path) -> None:
    with pytest.raises(CostsError, match=r"no op that was recorded; .* --detail op"):
        costs_of_trace(trace(tmp_path, recv(5, 1)))


@pytest.mark.parametrize(
    "line",
    [
        b"{garbage",
        b"[1]",
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{}]}]}]}',
        b"\xff",
        b'{"resourceSpans": 3}',
    ],
)
def test_a_line_that_is_no_spans_is_named_with_its_file(
    tmp_path: Path, line: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trace(tmp_path, op("m", 10, 1))
    (path,) = (folder / "spans").iterdir()
    path.write_bytes(path.read_bytes() + gzip.compress(line))
    with pytest.raises(CostsError, match=r"worker-0\.0\.otlp\.jsonl\.gz, line 2, holds no spans"):
        costs_of_trace(folder)
    request = ["partition", str(GOLDEN / "iii_diamond__grpc.json"), "--costs", str(folder)]
    assert main(request) == 2
    assert "line 2" in capsys.readouterr().err


def test_costs_may_be_written_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text(json.dumps({"ops": {"CPU": {"Mul": 7}}, "far_ns": 5}))
    assert read_costs(path) == Costs(ops={"CPU": {"Mul": 7}}, far_ns=5)
    path.write_text("{")
    with pytest.raises(CostsError, match="--costs is not JSON"):
        read_costs(path)


def test_a_graph_is_placed_by_the_costs_that_its_run_gave(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = json.loads((GOLDEN / "vi_while__grpc.json").read_text())
    for node in graph["client_graph"]:
        node["requested_device"] = ""
    path, out = tmp_path / "graph.json", tmp_path / "run.trace"
    path.write_text(json.dumps(graph))
    by_cost = ["--placer", "cost", "--costs", str(out), "--json"]
    assert main(["run", str(path), "--in-process", "--steps", "2", "--out", str(out)]) == 0
    capsys.readouterr()
    assert main(["partition", str(path), *by_cost]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["predicted_step_ns"] > 0
    assert said["measured_step_ns"] > 0
    assert {row["reason"] for row in said["placements"]} >= {"cost"}
    again = tmp_path / "again.trace"
    assert main(["run", str(path), "--in-process", *by_cost, "--out", str(again)]) == 0
    assert json.loads(capsys.readouterr().out)["result"] == graph["result"]


def test_the_rules_placement_can_be_predicted_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trace(tmp_path, op("m", 1, 1), span("session.run", 700))
    request = ["partition", str(GOLDEN / "iii_diamond__grpc.json"), "--costs", str(folder)]
    assert main([*request, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["predicted_step_ns"] > 0
    assert said["measured_step_ns"] == 700
    assert "cost" not in {row["reason"] for row in said["placements"]}
    assert main(request) == 0
    assert "measured_step_ns" in capsys.readouterr().out
