"""What Python lays out is what the canvas is tested with."""

import json
from pathlib import Path

from tests.figures.golden_stages import device_rows
from vizdist.analysis.node_measures import Measured, StepMeasures
from vizdist.figures.partitioned_graph import graph_payload

SCRIPTS = Path(__file__).parent.parent / "js"
PAYLOAD = SCRIPTS / "graph_payload.json"


def sample_payload() -> dict[str, object]:
    """The golden MLP on two ps with a made-up but fixed measurement of every node."""
    rows = device_rows("viii_mlp_ref_2ps__grpc")
    nodes = {
        row.name: Measured(
            time=1000 * (i + 1),
            queueing=10 * i,
            wait=300 * i,
            bytes=0 if row.op == "_Send" else 64 * i,
            start=2000 * i,
            runs=1,
            span=f"{i + 1:016x}",
            key=f"{row.attrs['tensor_name']};0:0" if "tensor_name" in row.attrs else "",
        )
        for i, row in enumerate(rows)
    }
    measures = StepMeasures(nodes, {"worker:0": 0.47, "ps:0": 0.01}, "worker:0")
    return graph_payload({"device": rows}, "device", measures)


def test_the_scripts_are_tested_with_a_payload_of_today() -> None:
    """Write it again with `python -m tests.figures.test_graph_canvas` after a change of layout."""
    assert json.loads(PAYLOAD.read_text()) == json.loads(json.dumps(sample_payload()))


if __name__ == "__main__":
    PAYLOAD.write_text(json.dumps(sample_payload(), ensure_ascii=False) + "\n")
