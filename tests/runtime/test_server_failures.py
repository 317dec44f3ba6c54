"""Tasks that go and come back under a session (golden/xii_server_failures.json).

A variable `v` on ps:0, `y = v * 2` on worker:1, a session on worker:0.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import GrpcTasks, TestCluster, running_cluster
from tests.runtime.graphs import CLUSTER, PS_0, WORKER_1
from tracer.model.graph import Graph
from tracer.model.graph_builder import GraphBuilder
from tracer.runtime.interfaces import StepError
from tracer.runtime.session import Session

ATTEMPTS: dict[str, dict[str, Any]] = {
    row["attempt"]: row
    for row in json.loads(
        (Path(__file__).parent.parent / "golden" / "xii_server_failures.json").read_text()
    )["attempts"]
}
CODES = {3: "INVALID_ARGUMENT", 9: "FAILED_PRECONDITION", 10: "ABORTED", 14: "UNAVAILABLE"}


def doubled(size: int = 2) -> Graph:
    b = GraphBuilder()
    with b.device("/job:ps/task:0"):
        v = b.op("VariableV2", name="v", dtype="float32", shape=[size])
        b.op("Assign", v, b.const([1.0] * size, name="ones"), name="v/Assign", T="float32")
        read = b.op("Identity", v, name="v/read", T="float32")
    with b.device("/job:worker/task:1"):
        b.op("Mul", read, b.const(2.0, name="two"), name="y", T="float32")
    return b.graph()


def value(session: Session, fetch: str) -> list[float]:
    got: list[float] = session.run(fetch).tolist()
    return got


def error_of(session: Session, what: str, attempt: str) -> StepError:
    """The error of a run, after its code was compared with the attempt's."""
    with pytest.raises(StepError) as caught:
        session.run(what)
    row = ATTEMPTS[attempt]
    assert caught.value.code == CODES[row["error_code"]]
    assert caught.value.node == (row["op"] or "")
    return caught.value


@contextmanager
def tasks_that_may_go(kind: str) -> Iterator[tuple[TestCluster, GrpcTasks]]:
    with running_cluster(kind, CLUSTER, trace=False) as cluster:
        assert isinstance(cluster.tasks, GrpcTasks)
        yield cluster, cluster.tasks


@pytest.mark.parametrize("kind", ["near", "grpc"])
def test_variables_live_in_the_server_and_not_in_the_session(kind: str) -> None:
    with running_cluster(kind, CLUSTER) as cluster:
        session = cluster.session(doubled())
        session.run("v/Assign")
        assert value(session, "y:0") == ATTEMPTS["run y"]["result"]
        new = "new session, same graph, no init: is v still initialized?"
        assert value(cluster.session(doubled()), "y:0") == ATTEMPTS[new]["result"]
        other = "another session, variable of the same name with another shape: initialize"
        error = error_of(cluster.session(doubled(3)), "v/Assign", other)
        assert (error.task, "[2]" in error.message, "[3]" in error.message) == ("ps:0", True, True)
        assert value(session, "y:0") == [2.0, 2.0]


@pytest.mark.parametrize("kind", ["grpc", "local"])
def test_a_worker_that_is_gone_is_named_at_once_and_another_life_needs_a_new_session(
    kind: str,
) -> None:
    with tasks_that_may_go(kind) as (cluster, tasks):
        session = cluster.session(doubled())
        session.run("v/Assign")
        assert value(session, "y:0") == [2.0, 2.0]
        tasks.stop(WORKER_1)
        for attempt in ("worker:1 killed, run y", "run y again"):
            error = error_of(session, "y:0", attempt)
            assert error.task == "worker:1"
            assert error.message.startswith("worker:1 at ")
        fetch_v = "fetch v only (ps, does not need worker:1)"
        assert value(session, "v/read:0") == ATTEMPTS[fetch_v]["result"]
        tasks.restart(WORKER_1)
        with pytest.raises(StepError) as caught:  # TensorFlow's first run finds the old channel
            session.run("y:0")
        assert caught.value.code in ("UNAVAILABLE", "ABORTED")
        new = "new session after the restart, run y"
        assert value(cluster.session(doubled()), "y:0") == ATTEMPTS[new]["result"]
        error = aborted(session, "y:0")
        assert error.message.startswith(f"Session handle is not found: {session.handle}.")


@pytest.mark.parametrize("kind", ["grpc", "local"])
def test_a_parameter_server_in_another_life_has_neither_session_nor_variable(kind: str) -> None:
    with tasks_that_may_go(kind) as (cluster, tasks):
        session = cluster.session(doubled())
        session.run("v/Assign")
        session.run("y:0")
        tasks.stop(PS_0)
        tasks.restart(PS_0)
        attempt = "ps:0 killed and restarted, same session, run y"
        again = cluster.session(doubled())
        error = error_of(session, "y:0", attempt)
        assert error.message == (
            f"Session handle is not found: {session.handle}. Possibly this worker "
            '("/job:ps/replica:0/task:0") just restarted.'
        )
        uninitialized = "new session after the ps restart, run y without init"
        error = error_of(again, "y:0", uninitialized)
        assert error.message.startswith("Attempting to use uninitialized value v")
        assert error.task == "ps:0"
        again.run("v/Assign")
        assert value(again, "y:0") == [2.0, 2.0]


def aborted(session: Session, what: str) -> StepError:
    with pytest.raises(StepError) as caught:
        session.run(what)
    assert caught.value.code == "ABORTED"
    return caught.value
