"""Frames that come late or never, because that was asked for."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.clusters import GrpcTasks, TestCluster, running_cluster
from tests.runtime.graphs import CLUSTER, counter
from tracer.runtime.interfaces import StepError


@contextmanager
def cluster_with(faults: str, kind: str, step_s: float = 60.0) -> Iterator[TestCluster]:
    with running_cluster(kind, CLUSTER, step_timeout_s=step_s) as cluster:
        assert isinstance(cluster.tasks, GrpcTasks)
        cluster.tasks.let_frames_fail(faults)
        yield cluster


@pytest.mark.parametrize("kind", ["grpc", "local"])
def test_a_request_that_is_dropped_leaves_its_key_unmatched_and_only_once(kind: str) -> None:
    """worker:1 asks ps:0 for the variable; the step can only end at its limit."""
    with cluster_with("drop:ps:0@step:2", kind, step_s=0.5) as cluster:
        session = cluster.session(counter())
        session.run("init")
        with pytest.raises(
            StepError, match=r"(?s)step 2 did not end.*waits for .*ps.*edge"
        ) as late:
            session.run("twice:0")
        assert late.value.code == "DEADLINE_EXCEEDED"
        assert session.run("twice:0").tolist() == [2.0, 2.0]
        (fault,) = cluster.spans("fault.inject")
        assert (fault.step, fault.attributes["vizdist.fault.kind"]) == (2, "drop")


@pytest.mark.parametrize("kind", ["grpc", "local"])
def test_from_its_step_on_all_frames_are_late_and_in_order(kind: str) -> None:
    with cluster_with("delay=150:ps:0@step:3", kind) as cluster:
        session = cluster.session(counter())
        session.run("init")
        took = []
        for _ in range(4):
            start = time.monotonic()
            assert session.run("twice:0").tolist() == [2.0, 2.0]
            took.append(time.monotonic() - start)
        assert min(took[1:]) > 0.15
        (fault,) = cluster.spans("fault.inject")
        assert fault.step == 3
