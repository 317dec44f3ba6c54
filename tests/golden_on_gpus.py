"""Steps of real TensorFlow on clusters whose tasks have two logical GPUs each."""

import json

import torch

from tests.clusters import running_cluster
from tests.golden_cases import GOLDEN
from tracer.model.graph import Literal
from tracer.model.graph_json import graph_file_from_json
from tracer.model.literal import value_of
from tracer.ops.dtypes import literal_to_tensor
from tracer.record.clock import Clock
from tracer.runtime.gpu import Driver
from tracer.runtime.worker_env import ExecutorKind


def check_step_on_gpus(
    case: str, executor: ExecutorKind, driver: Driver, clock: Clock | None
) -> None:
    """Whatever the case's graph leaves open goes to a GPU; the values must be TensorFlow's."""
    raw = json.loads((GOLDEN / f"{case}__grpc.json").read_text())
    if case.endswith("_2ps"):  # the file's letters leave the second ps out
        raw["devices"] = {"ps": 2, "worker": 2}
    file = graph_file_from_json(raw)
    devices = dict.fromkeys(file.cluster.tasks(), ("cuda:0", "cuda:0"))
    with running_cluster(
        "near", file.cluster, executor=executor, devices=devices, driver=driver, clock=clock
    ) as cluster:
        session = cluster.session(file.graph, file.client_device.task_name)
        if file.run.init:
            session.run(file.run.init)
        feeds = {name: literal_to_tensor(value) for name, value in file.run.feeds.items()}
        got = dict(zip(file.run.names, session.run(file.run.names, feeds), strict=True))
    for name, value in raw["result"].items():
        if isinstance(got[name], Literal):
            assert value_of(got[name]) == value
        elif value is not None:
            torch.testing.assert_close(got[name], torch.tensor(value, dtype=got[name].dtype))
