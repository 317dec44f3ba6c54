"""Steps of real TensorFlow, run by both executors, near and over gRPC: the same values come out."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.clusters import TestCluster
from tracer.model.graph_json import read_graph_file
from tracer.ops.dtypes import literal_to_tensor

GOLDEN = Path(__file__).parent.parent / "golden"
CASES = (
    "i_recv_dedup",
    "ii_control_edge",
    "ii_control_and_data",
    "iii_diamond",
    "iv_feed_fetch",
    "iv_feed_inner",
    "viii_mlp_ref_1ps",
    "viii_mlp_resource_1ps",
    "x_pruned",
)


@pytest.mark.parametrize("executor", ["generated", "queue"])
@pytest.mark.parametrize("case", CASES)
def test_a_step_gives_what_tensorflow_gave(
    start_cluster: Callable[..., TestCluster], case: str, executor: str
) -> None:
    path = GOLDEN / f"{case}__grpc.json"
    file = read_graph_file(path)
    cluster = start_cluster(file.cluster, executor=executor)
    session = cluster.session(file.graph, file.client_device.task_name)
    if file.run.init:
        session.run(file.run.init)
    feeds = {name: literal_to_tensor(value) for name, value in file.run.feeds.items()}
    expected = json.loads(path.read_text())["result"]
    got = dict(zip(file.run.names, session.run(file.run.names, feeds), strict=True))
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        if value is None:
            assert got[name] is None
        else:
            torch.testing.assert_close(got[name], torch.tensor(value, dtype=got[name].dtype))
