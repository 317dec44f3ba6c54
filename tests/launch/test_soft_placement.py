"""`--soft-placement`: a graph made for GPUs runs without them, and its trace says what it asked."""

import json
from pathlib import Path

import pytest

from tests.golden_cases import GOLDEN
from tracer.cli import main
from vizdist.store.trace import open_trace

DIAMOND = json.loads((GOLDEN / "iii_diamond__grpc.json").read_text())


@pytest.fixture
def for_gpus(tmp_path: Path) -> Path:
    """The diamond over two workers; each node asks for a GPU that its task does not have."""
    nodes = [
        node | {"requested_device": node["requested_device"] + "/device:GPU:7"}
        for node in DIAMOND["client_graph"]
    ]
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(DIAMOND | {"client_graph": nodes}))
    return path


def test_it_is_off_until_it_is_asked_for(
    for_gpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["partition", str(for_gpus)]) != 0
    assert "was explicitly assigned to /job:ps/task:0/device:GPU:7" in capsys.readouterr().err


def test_the_cut_is_printed_with_what_was_asked(
    for_gpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["partition", str(for_gpus), "--soft-placement"]) == 0
    said = capsys.readouterr().out
    given = "/job:worker/replica:0/task:1/device:CPU:0"
    assert f"{given}  (soft: no /job:worker/task:1/device:GPU:7)" in said


def test_it_runs_as_tensorflow_did_and_the_trace_has_asked_and_given(
    for_gpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "t"
    flags = ("--soft-placement", "--in-process", "--json", "--out", str(out))
    assert main(["run", str(for_gpus), *flags]) == 0
    assert json.loads(capsys.readouterr().out)["result"] == DIAMOND["result"]
    (graph,) = open_trace(out).graphs
    (right,) = [row for row in graph.stages["placed"] if row.name == "right"]
    assert (right.requested_device, right.device, right.reason) == (
        "/job:worker/task:1/device:GPU:7",
        "/job:worker/replica:0/task:1/device:CPU:0",
        "soft",
    )
