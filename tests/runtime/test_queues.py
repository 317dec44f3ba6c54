"""Queues in a cluster: elements outlive steps, waits hold no thread, an abort takes them back."""

import threading
import time
from collections.abc import Callable

import pytest
import torch

from tests.clusters import TestCluster
from tests.runtime.graphs import CLUSTER, WORKER_0, WORKER_1
from tracer.model.graph import Graph
from tracer.model.graph_builder import GraphBuilder
from tracer.model.graph_json import graph_from_json, graph_to_json
from tracer.runtime.interfaces import StepError

Start = Callable[..., TestCluster]


def handing_over(capacity: int = 2) -> Graph:
    """worker:0 puts the fed `x` into a queue of worker:1, which takes and doubles it."""
    b = GraphBuilder()
    with b.device("/job:worker/task:0"):
        x = b.placeholder([], name="x")
    with b.device("/job:worker/task:1"):
        queue = b.op(
            "FIFOQueueV2",
            name="queue",
            component_types=["float32"],
            shapes=[[]],
            capacity=capacity,
        )
        taken = b.op("QueueDequeueV2", queue, name="take", component_types=["float32"])
        b.op("AddV2", taken, taken, name="twice")
        b.op("QueueSizeV2", queue, name="size")
        b.op("QueueCloseV2", queue, name="close")
        b.op("QueueCloseV2", queue, name="cancel", cancel_pending_enqueues=True)
    b.op("QueueEnqueueV2", queue, x, name="put")  # asks for no device: it goes with its queue
    return b.graph()


def feed(value: float) -> dict[str, torch.Tensor]:
    return {"x:0": torch.tensor(value)}


def test_an_element_waits_from_one_step_to_the_next_and_for_another_session(
    start_cluster: Start,
) -> None:
    cluster = start_cluster(CLUSTER)
    first = cluster.session(handing_over())
    for value in (1.0, 2.0):
        first.run("put", feed(value))
    second = cluster.session(handing_over(), at=WORKER_1)
    assert second.run("size:0").item() == 2
    assert [second.run("twice:0").item() for _ in range(2)] == [2.0, 4.0]


def test_one_step_puts_and_takes(start_cluster: Start) -> None:
    session = start_cluster(CLUSTER).session(handing_over())
    assert session.run(["twice:0", "put"], feed(3.0))[0].item() == 6.0


def test_who_takes_before_anybody_puts_waits_without_a_thread(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    taker, putter = cluster.session(handing_over()), cluster.session(handing_over())
    taker.run("size:0")  # its graphs are made
    results: list[float] = []
    client = threading.Thread(target=lambda: results.append(taker.run("twice:0").item()))
    client.start()
    time.sleep(0.1)
    assert client.is_alive()
    putter.run("put", feed(4.0))
    client.join(10)
    assert results == [8.0]


def test_a_step_that_waits_for_ever_ends_at_its_limit_and_takes_nothing(
    start_cluster: Start,
) -> None:
    cluster = start_cluster(CLUSTER, step_timeout_s=0.3)
    session = cluster.session(handing_over())
    with pytest.raises(StepError, match="did not end within") as late:
        session.run("twice:0")
    assert late.value.code == "DEADLINE_EXCEEDED"
    session.run("put", feed(5.0))
    assert session.run("size:0").item() == 1
    assert session.run("twice:0").item() == 10.0


def test_a_closed_queue_gives_what_is_in_it_then_ends_the_range(start_cluster: Start) -> None:
    session = start_cluster(CLUSTER).session(handing_over())
    session.run("put", feed(1.0))
    session.run("close")
    with pytest.raises(StepError, match="is closed") as closed:
        session.run("put", feed(2.0))
    assert closed.value.code == "CANCELLED"
    assert session.run("twice:0").item() == 2.0
    with pytest.raises(StepError, match="has insufficient elements") as over:
        session.run("twice:0")
    assert (over.value.code, over.value.task, over.value.node) == (
        "OUT_OF_RANGE",
        str(WORKER_1),
        "take",
    )


def test_a_full_queue_makes_its_putter_wait_and_closing_may_cancel_that(
    start_cluster: Start,
) -> None:
    cluster = start_cluster(CLUSTER)
    session, other = cluster.session(handing_over(1)), cluster.session(handing_over(1))
    session.run("put", feed(1.0))
    other.run("size:0")
    errors: list[str] = []

    def put() -> None:
        try:
            other.run("put", feed(2.0))
        except StepError as error:
            errors.append(error.code)

    client = threading.Thread(target=put)
    client.start()
    time.sleep(0.1)
    assert client.is_alive()
    session.run("cancel")
    client.join(10)
    assert errors == ["CANCELLED"]
    assert session.run("twice:0").item() == 2.0


def test_the_wait_is_in_the_trace_as_the_time_of_the_op(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    session = cluster.session(handing_over())
    session.run(["twice:0", "put"], feed(3.0))
    ops = {span.name: span for span in cluster.spans("op.run")}
    assert ops["take"].end >= ops["put"].start
    assert ops["twice"].ready >= ops["take"].end
    assert ops["put"].name == "put"


def test_a_queue_and_its_ops_survive_the_way_over_the_wire() -> None:
    graph = handing_over()
    assert graph_to_json(graph_from_json(graph_to_json(graph))) == graph_to_json(graph)


def test_a_resource_of_another_kind_under_one_name_is_refused(start_cluster: Start) -> None:
    b = GraphBuilder()
    with b.device("/job:worker/task:1"):
        queue = b.op(
            "FIFOQueueV2", name="queue", component_types=["float32"], shapes=[[]], capacity=7
        )
        b.op("QueueSizeV2", queue, name="size")
    cluster = start_cluster(CLUSTER)
    cluster.session(handing_over(), at=WORKER_0).run("size:0")
    with pytest.raises(StepError, match="has capacity 2"):
        cluster.session(b.graph(), at=WORKER_0).run("size:0")
