"""What a training step moves between processes, as the transport counted it."""

from collections import Counter

import pytest

from tests.built import graph_alone
from tests.clusters import WORKER_0, running_cluster
from tracer.model.cluster import ClusterSpec
from tracer.strategies.parameter_server_v1 import ParameterServerV1
from tracer.workloads import digits_mlp

WORKLOAD = digits_mlp.workload()
S_BYTES = 4 * (64 * 32 + 32 + 32 * 10 + 10)


@pytest.mark.parametrize("kind", ["grpc", "local"])
def test_digits_mlp_on_one_ps_moves_every_variable_once_each_way(kind: str) -> None:
    spec = ClusterSpec.of_counts(ps=1, worker=1)
    captured = WORKLOAD.capture(0)
    with running_cluster(kind, spec) as cluster:
        session = cluster.session(graph_alone(ParameterServerV1(), captured, WORKER_0, spec))
        session.run(captured.init)
        x, y = next(WORKLOAD.batches(0, 0, 1))
        feeds = dict(zip(captured.feeds, (x, y), strict=True))
        for _ in range(3):
            session.run((captured.loss, captured.train), feeds)
        cluster.leave()
        pulls = [s for s in cluster.spans("rpc.client") if s.name == "RecvTensor"]
        served = {s.parent: s for s in cluster.spans("rpc.server") if s.name == "RecvTensor"}
        recvs = {s.span: s for s in cluster.spans("rendezvous.recv")}
        sends = {s.span for s in cluster.spans("rendezvous.send")}
    for step in (2, 3, 4):
        mine = [pull for pull in pulls if pull.step == step]
        assert Counter(pull.task for pull in mine) == {"worker:0": 4, "ps:0": 4}
        assert sum(pull.num_bytes for pull in mine) == 2 * S_BYTES
    assert len({pull.extra for pull in pulls}) == len(pulls)  # each its own request
    for pull in pulls:
        answer, recv = served[pull.span], recvs[pull.parent]
        assert (answer.num_bytes, answer.key) == (pull.num_bytes, pull.key)
        assert answer.extra <= answer.end - answer.start  # it waited no longer than it was served
        assert recv.key == pull.key
        assert recv.link in sends
