"""Steps of real TensorFlow, run by both executors, near and over gRPC: the same values come out."""

import json
from collections.abc import Callable

import pytest
import torch

from tests.clusters import TestCluster
from tests.golden_cases import CASES, CONTROL_FLOW_CASES, GOLDEN
from tracer.model.graph import Literal
from tracer.model.graph_json import graph_file_from_json
from tracer.model.literal import value_of
from tracer.ops.dtypes import literal_to_tensor


@pytest.mark.parametrize("executor", ["generated", "queue"])
@pytest.mark.parametrize("case", (*CASES, *CONTROL_FLOW_CASES))
def test_a_step_gives_what_tensorflow_gave(
    start_cluster: Callable[..., TestCluster], case: str, executor: str
) -> None:
    raw = json.loads((GOLDEN / f"{case}__grpc.json").read_text())
    if case.endswith("_2ps"):  # the file's letters leave the second ps out
        raw["devices"] = {"ps": 2, "worker": 2}
    file = graph_file_from_json(raw)
    cluster = start_cluster(file.cluster, executor=executor)
    session = cluster.session(file.graph, file.client_device.task_name)
    if file.run.init:
        session.run(file.run.init)
    feeds = {name: literal_to_tensor(value) for name, value in file.run.feeds.items()}
    expected = raw["result"]
    got = dict(zip(file.run.names, session.run(file.run.names, feeds), strict=True))
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        if value is None:
            assert got[name] is None
        elif isinstance(got[name], Literal):
            assert value_of(got[name]) == value
        else:
            torch.testing.assert_close(got[name], torch.tensor(value, dtype=got[name].dtype))
