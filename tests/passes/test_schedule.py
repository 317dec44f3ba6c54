"""No recv is made to wait for work that waits for its value in a way that no edge shows."""

from collections.abc import Callable

import torch

from tests.clusters import TestCluster
from tracer.model.cluster import ClusterSpec
from tracer.model.graph import Input
from tracer.model.graph_builder import GraphBuilder

CLUSTER = ClusterSpec.of_counts(ps=1, worker=1)


def beside_a_chain(b: GraphBuilder, waiting: Input) -> GraphBuilder:
    """Negates 20 times what may have to wait: work that is due before a neighbour's value."""
    for i in range(20):
        waiting = b.op("Neg", waiting, name=f"c{i}", T="float32")
    return b


def test_a_value_does_not_wait_for_work_whose_feed_comes_in_a_later_call(
    start_cluster: Callable[..., TestCluster],
) -> None:
    b = GraphBuilder()
    with b.device("/job:worker/task:0"):
        x, late = b.placeholder([1], name="x"), b.placeholder([1], name="late")
        value = b.op("Neg", x, name="value", T="float32")
    with b.device("/job:ps/task:0"):
        beside_a_chain(b, late).op("Neg", value, name="y", T="float32")
    cluster = start_cluster(CLUSTER, passes=("schedule_recvs",), step_timeout_s=5.0)
    part = cluster.session(b.graph()).partial_run_setup(["y:0", "c19:0"], ["x:0", "late:0"])
    assert part.run(["y:0"], {"x:0": torch.ones(1)}) == [torch.ones(1)]
    assert part.run(["c19:0"], {"late:0": torch.ones(1)}) == [torch.ones(1)]


def test_an_element_does_not_wait_for_work_that_waits_for_it(
    start_cluster: Callable[..., TestCluster],
) -> None:
    b = GraphBuilder()
    with b.device("/job:worker/task:0"):
        value = b.op("Neg", b.const([1.0], "float32", name="one"), name="value", T="float32")
    with b.device("/job:ps/task:0"):
        queue = b.op("FIFOQueueV2", name="queue", component_types=["float32"], capacity=4)
        taken = b.op("QueueDequeueV2", queue, name="taken", component_types=["float32"])
        beside_a_chain(b, taken).op(
            "QueueEnqueueV2", queue, value, name="put", Tcomponents=["float32"]
        )
    cluster = start_cluster(CLUSTER, passes=("schedule_recvs",), step_timeout_s=5.0)
    assert cluster.session(b.graph()).run(["c19:0", "put"]) == [torch.tensor([-1.0]), None]
