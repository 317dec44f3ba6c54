"""A recv without its send, a send without its recv, two that wait for each other.

A step that hangs ends at its time limit. The error says which keys have no partner, who waits for
them and for how long; the trace holds the recvs that waited.
"""

import re
import time
from collections.abc import Callable

import pytest

from tests.clusters import TestCluster
from tests.runtime.graphs import (
    CLUSTER,
    PS_0,
    WORKER_0,
    WORKER_1,
    counter,
    deadlock,
    lost_recv,
    lost_send,
)
from tracer.model.cluster import TaskName
from tracer.model.graph import Graph
from tracer.model.step import RendezvousKey
from tracer.model.trace_folder import Flag
from tracer.runtime.interfaces import StepError

Start = Callable[..., TestCluster]


def life(cluster: TestCluster, task: TaskName) -> int:
    return cluster.workers[task].env.devices[0].incarnation


def stuck(cluster: TestCluster, graph: Graph, *fetches: str) -> StepError:
    """The error of a step that nothing ends but its time limit, 0.3 s."""
    session = cluster.session(graph)
    began = time.monotonic()
    with pytest.raises(StepError) as caught:
        session.run(fetches)
    assert time.monotonic() - began < 2.5
    assert caught.value.code == "DEADLINE_EXCEEDED"
    assert caught.value.message.startswith("step 1 did not end within 0.3 s")
    return caught.value


def test_a_recv_without_its_send_is_named_with_who_waits_and_for_how_long(
    start_cluster: Start,
) -> None:
    cluster = start_cluster(CLUSTER, step_timeout_s=0.3)
    key = RendezvousKey(
        str(PS_0.device()), life(cluster, PS_0), str(WORKER_0.device()), "edge_0_nothing"
    )
    message = stuck(cluster, lost_recv(key.incarnation), "lost:0").message
    waited = re.search(rf"worker:0 waits for {re.escape(str(key))}, for (\d\.\d) s now", message)
    assert waited, message
    assert 0.2 <= float(waited[1]) <= 1.0


def test_the_recv_that_waited_is_in_the_trace_with_its_key_and_why_it_ended(
    start_cluster: Start,
) -> None:
    cluster = start_cluster(CLUSTER, step_timeout_s=0.3)
    stuck(cluster, lost_recv(life(cluster, PS_0)), "lost:0")
    (recv,) = (s for s in cluster.spans("rendezvous.recv") if s.name == "lost")
    assert recv.task == "worker:0"
    assert recv.key.endswith(";edge_0_nothing;0:0")
    assert recv.flags & Flag.ERROR
    assert "did not end within 0.3 s" in recv.error
    assert not recv.link
    (step,) = (s for s in cluster.spans("session.run") if s.trace_lo == recv.trace_lo)
    assert recv.end - step.start > 0.3e9  # not before its time was up


def test_two_that_wait_for_each_other_are_both_named(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER, step_timeout_s=0.3)
    graph = deadlock(life(cluster, WORKER_0), life(cluster, WORKER_1))
    message = stuck(cluster, graph, "first:0", "second:0").message
    assert re.search(r"worker:0 waits for \S+;edge_1_second;0:0, for 0\.\d s now\n", message)
    assert re.search(r"worker:0 was asked for \S+;edge_0_first;0:0, which was not sent", message)
    ends = {s.name: s.flags & Flag.ERROR for s in cluster.spans("rendezvous.recv")}
    assert all(ends[name] for name in ("first", "second"))


def test_a_send_without_its_recv_ends_well_and_is_reported(
    start_cluster: Start, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = start_cluster(CLUSTER)
    cluster.session(lost_send(life(cluster, PS_0))).run("kept")
    worker = cluster.workers[PS_0]
    until = time.monotonic() + 5
    while not worker.leftovers() and time.monotonic() < until:
        time.sleep(0.005)
    (left,) = worker.leftovers()
    assert (left.key.split(";")[3], left.side) == ("edge_0_one", "recv")
    assert "ps:0: key without recv: /job:ps/replica:0/task:0/device:CPU:0;" in caplog.text
    worker.rendezvous.leftovers.clear()  # the cluster would report it as left behind


def test_the_step_after_a_stuck_one_is_not_disturbed(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER, step_timeout_s=0.3)
    stuck(cluster, lost_recv(life(cluster, PS_0)), "lost:0")
    session = cluster.session(counter())
    session.run("init")
    assert session.run("twice:0").tolist() == [2.0, 2.0]


def test_a_value_of_another_life_of_its_device_is_refused(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    with pytest.raises(StepError) as caught:
        cluster.session(lost_recv(7)).run("lost:0")
    assert caught.value.code == "ABORTED"
    assert caught.value.message.startswith(
        "RecvTensor expects a different device incarnation: 7 vs. "
        f"{life(cluster, PS_0)}. Your worker job"
    )
