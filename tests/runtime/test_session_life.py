"""A session from its making to its end: graph versions, isolation, filters, ids, reset, idleness.

Each story is told over a near cluster and over gRPC.
"""

import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial

import pytest
import torch

from tests.clusters import TestCluster, running_cluster
from tests.fakes import FakeClock
from tests.runtime.graphs import CLUSTER, PS_0, WORKER_0, WORKER_1, counter, lost_recv
from tests.runtime.refused import refused
from tracer.model.cluster import ClusterSpec
from tracer.model.graph import Graph, GraphError, Node
from tracer.model.graph_builder import GraphBuilder
from tracer.record.recorder import NO_RECORDER
from tracer.runtime.interfaces import (
    RequestNames,
    RunStepRequest,
    SessionOptions,
    StepError,
)
from tracer.runtime.session import NO_TRACING, Session
from tracer.server import LocalServer, Server, ServerConfig

Start = Callable[..., TestCluster]

ONES, TWOS = torch.ones(2), torch.full((2,), 2.0)


def quadrupled() -> Graph:
    """`four` on worker:0 doubles the `twice` of `counter`."""
    b = GraphBuilder()
    twice = b.placeholder([2], name="twice")
    with b.device("/job:worker/task:0"):
        b.op("AddV2", twice, twice, name="four", T="float32")
    return Graph(node for node in b.graph().nodes)


def more_than(graph: Graph, extended: Graph) -> list[Node]:
    return [node for node in extended.nodes if node.name not in graph]


# extension


def test_an_extension_adds_nodes_and_leaves_what_was_made(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    session = cluster.session(counter())
    session.run("init")
    assert session.run("twice:0").tolist() == [2.0, 2.0]
    master = cluster.tasks.masters[WORKER_0].session(session.handle)
    assert (master.version, master.num_graphs) == (0, 2)
    session.extend(more_than(counter(), quadrupled()))
    assert master.version == 1
    assert session.run("four:0").tolist() == [4.0, 4.0]
    assert session.run("twice:0").tolist() == [2.0, 2.0]
    assert master.num_graphs == 3


def test_an_extension_of_an_older_version_is_aborted(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    session = cluster.session(counter())
    session.extend(more_than(counter(), quadrupled()))
    master = cluster.master()
    error = refused(lambda: master.extend_session(session.handle, (), 0))
    assert error.code == "ABORTED"
    assert error.message == "Current version is 1 but caller expected 0."
    assert master.extend_session(session.handle, (), 1) == 2


def test_an_extension_that_does_not_fit_changes_nothing(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    session = cluster.session(counter())
    with pytest.raises(GraphError, match="two nodes are named 'v'"):
        session.extend([counter()["v"]])
    master = cluster.master()
    again = refused(lambda: master.extend_session(session.handle, (counter()["v"],), 0))
    assert again.code == "INVALID_ARGUMENT"
    assert "includes node 'v', which was created by a previous call" in again.message
    nowhere = quadrupled()["four"].with_(requested_device="/job:nosuch")
    stray = refused(lambda: session.extend([nowhere]))
    assert "Cannot assign a device for operation four" in stray.message
    session.extend([quadrupled()["four"]])
    session.run("init")
    assert session.run("four:0").tolist() == [4.0, 4.0]


# registration


def test_a_part_that_a_worker_refuses_is_forgotten_by_the_others(
    start_cluster: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = start_cluster(CLUSTER)
    session = cluster.session(counter())
    session.run("init")
    refuse = StepError("RESOURCE_EXHAUSTED", "no room", task="worker:1")

    def register(*_: object) -> str:
        raise refuse

    with monkeypatch.context() as full:
        full.setattr(cluster.workers[WORKER_1], "register_graph", register)
        with pytest.raises(StepError, match="no room"):
            session.run("twice:0")
    graphs = [w._sessions[session.handle].graphs._graphs for w in cluster.workers.values()]
    assert [len(held) for held in graphs] == [1, 0, 0]  # that of `init`
    assert session.run("twice:0").tolist() == [2.0, 2.0]


# isolation, containers, devices


def test_sessions_share_variables_and_isolated_ones_do_not(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    first, second = cluster.session(counter()), cluster.session(counter())
    apart = cluster.session(counter(), options=SessionOptions(isolate_session_state=True))
    first.run("init")
    assert second.run("read:0").tolist() == [1.0, 1.0]
    error = refused(lambda: apart.run("read:0"))
    assert error.code == "FAILED_PRECONDITION"
    apart.run("init")
    apart.run("add", {"x:0": TWOS})
    assert apart.run("read:0").tolist() == [3.0, 3.0]
    assert first.run("read:0").tolist() == [1.0, 1.0]


def test_a_reset_closes_all_sessions_and_empties_the_container(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    old, other = cluster.session(counter()), cluster.session(counter(), at=WORKER_1)
    old.run("init")
    cluster.master().reset()
    error = refused(lambda: old.run("read:0"))
    assert error.code == "ABORTED"
    assert f"Session {old.handle} is not found" in error.message
    for session in (cluster.session(counter()), other):  # also of a master that was not reset
        assert refused(partial(session.run, "read:0")).code == "FAILED_PRECONDITION"
    cluster.forget(old)


def test_a_reset_of_another_container_leaves_the_variable(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    old = cluster.session(counter())
    old.run("init")
    cluster.master().reset(("other",))
    cluster.forget(old)
    again = cluster.session(counter())
    assert again.run("read:0").tolist() == [1.0, 1.0]


def test_all_devices_of_a_session_are_listed(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER, devices={WORKER_1: ("cpu:0", "cpu:1")})
    listed = cluster.session(counter()).list_devices()
    assert [device.name for device in listed] == [
        str(device.name) for worker in cluster.workers.values() for device in worker.env.devices
    ]


def test_device_filters_leave_tasks_out_and_the_masters_own_in(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    session = cluster.session(counter_of_ps(), options=SessionOptions(("/job:ps",)))
    session.run("init")
    assert session.run("read:0").tolist() == [1.0, 1.0]
    assert {d.name for d in session.list_devices()} == {str(PS_0.device()), str(WORKER_0.device())}
    assert cluster.workers[WORKER_1].num_sessions == 0
    asked = [s.attributes["vizdist.peer"] for s in cluster.spans("session.wait")]
    assert asked == ["ps:0", "worker:0"]
    error = refused(lambda: cluster.session(counter(), options=SessionOptions(("/job:ps",))))
    assert "/job:worker/task:1 but available devices are" in error.message


def counter_of_ps() -> Graph:
    """`counter` without its node on worker:1."""
    return Graph(node for node in counter().nodes if node.name != "twice")


def test_a_filter_that_is_none_is_refused(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    wrong = SessionOptions(("/jobs:ps",))
    error = refused(lambda: cluster.session(counter(), options=wrong))
    assert error.code == "INVALID_ARGUMENT"
    assert "device filter: 'jobs:ps' in device '/jobs:ps' is not a part" in error.message


# ids


def test_client_master_and_workers_know_a_session_by_one_handle(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    session = cluster.session(counter())
    sides = [cluster.spans(f"session.{side}") for side in ("create", "master", "worker")]
    assert [len(side) for side in sides] == [1, 1, 3]
    handles = {s.attributes["vizdist.session.handle"] for side in sides for s in side}
    assert handles == {session.handle}
    assert {span.task for span in sides[2]} == {"ps:0", "worker:0", "worker:1"}


def test_a_request_that_comes_twice_is_run_once(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    session, master = cluster.session(counter()), cluster.master()
    session.run("init")
    step = NO_TRACING.step(1)
    add = RunStepRequest(session.handle, {"x:0": ONES}, (), ("add",), step, request_id=77)
    master.run_step(add)
    error = refused(lambda: master.run_step(add))
    assert error.code == "ABORTED"
    assert error.message.startswith("The same RunStep (Master) request was received twice.")
    names = RequestNames((), ("read:0",), ())
    assert (
        "received twice"
        in refused(lambda: master.make_callable(session.handle, names, request_id=77)).message
    )
    assert session.run("read:0").tolist() == [2.0, 2.0]


# idle sessions


def of_client(name: str) -> SessionOptions:
    """Over gRPC each dialed master is a client of its own anyway."""
    return SessionOptions(client=name)


def test_a_session_that_nobody_uses_is_closed_and_frees_its_workers(start_cluster: Start) -> None:
    clock = FakeClock()
    cluster = start_cluster(CLUSTER, clock=clock, trace=False, session_gc_s=60)
    used = cluster.session(counter(), options=of_client("here"))
    idle = cluster.session(counter(), options=of_client("gone"))
    clock.sleep(50)
    used.run("init")
    clock.sleep(50)
    cluster.tasks.masters[WORKER_0].collect_idle(60)
    used.run("init")
    error = refused(lambda: idle.run("init"))
    assert error.code == "ABORTED"
    assert "closed after 60 s without a call of its client (--session-gc)" in error.message
    assert cluster.workers[PS_0].num_sessions == 1
    cluster.forget(idle)


def test_a_session_that_runs_no_step_lives_while_its_client_uses_another(
    start_cluster: Start,
) -> None:
    """As a run does that is longer than the limit: it saves and judges in sessions of their own."""
    clock = FakeClock()
    cluster = start_cluster(CLUSTER, clock=clock, trace=False)
    master = cluster.master()
    options = of_client("here")
    steps, rare = (Session(master, counter(), NO_TRACING, options) for _ in range(2))
    for _ in range(5):
        clock.sleep(50)
        steps.run("init")
        cluster.tasks.masters[WORKER_0].collect_idle(60)
    steps.close()
    rare.run("init")
    rare.close()


def test_a_client_in_its_masters_process_is_never_gone() -> None:
    clock = FakeClock()
    with running_cluster("near", CLUSTER, clock=clock, trace=False) as cluster:
        session = cluster.session(counter())
        clock.sleep(1e6)
        cluster.tasks.masters[WORKER_0].collect_idle(60)
        session.run("init")


def test_a_step_of_a_session_that_is_collected_is_cancelled(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER, clock=FakeClock(), trace=False)
    lost = lost_recv(cluster.workers[PS_0].env.devices[0].incarnation)
    session = cluster.session(lost, options=of_client("gone"))
    errors: list[StepError] = []
    thread = threading.Thread(
        target=lambda: errors.append(refused(lambda: session.run("lost:0"))), daemon=True
    )
    thread.start()
    until = time.monotonic() + 5
    while not cluster.workers[WORKER_0].rendezvous.running() and time.monotonic() < until:
        time.sleep(0.002)
    cluster.tasks.masters[WORKER_0].collect_idle(-1)
    thread.join(5)
    assert [error.code for error in errors] == ["CANCELLED"]
    assert "garbage collected due to inactivity" in errors[0].message
    cluster.forget(session)


def test_a_master_looks_for_idle_sessions_by_itself(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER, session_gc_s=0.05)
    session = cluster.session(counter(), options=of_client("gone"))
    until = time.monotonic() + 5
    while cluster.workers[WORKER_0].cache.num_in_use and time.monotonic() < until:
        time.sleep(0.005)
    assert refused(lambda: session.run("init")).code == "ABORTED"
    cluster.forget(session)


@pytest.mark.parametrize("kind", [LocalServer, Server])
def test_a_server_may_be_told_to_close_idle_sessions(
    kind: type[LocalServer] | type[Server],
) -> None:
    config = ServerConfig(NO_RECORDER, NO_TRACING.run, session_gc_s=0.05)
    b = GraphBuilder()
    b.const(2.0, name="two")
    with closing(kind(WORKER_0, ("cpu:0",), config)) as server:
        alone = ClusterSpec.of_counts(worker=1).with_address(WORKER_0, server.address)
        server.join(alone)
        session = Session(server.master, b.graph(), NO_TRACING, of_client("gone"))
        until = time.monotonic() + 5
        while server.master.num_sessions and time.monotonic() < until:
            time.sleep(0.005)
        assert "(--session-gc)" in refused(lambda: session.run("two:0")).message


def test_a_session_of_another_master_shares_the_variable_by_name(start_cluster: Start) -> None:
    """Between-graph replication: a master a worker, one variable."""
    cluster = start_cluster(CLUSTER)
    sessions: list[Session] = [cluster.session(counter(), at=at) for at in (WORKER_0, WORKER_1)]
    sessions[0].run("init")
    for session in sessions:
        session.run("add", {"x:0": ONES})
    assert sessions[0].run("read:0").tolist() == [3.0, 3.0]


def test_a_client_in_its_masters_process_calls_it_without_an_rpc() -> None:
    with running_cluster("grpc", CLUSTER) as cluster:
        session = Session(cluster.tasks.masters[WORKER_0], counter(), cluster.tracing)
        session.run("init")
        session.run("twice:0")
        session.close()
        methods = {
            (s.attributes["rpc.method"], s.task, s.attributes["vizdist.peer"])
            for s in cluster.spans("rpc.client")
        }
        assert not [method for method, _, _ in methods if "MasterService" in str(method)]
        assert not [task for _, task, peer in methods if task == peer]  # nor its own worker
        assert ("tensorflow.WorkerService/RunGraph", "worker:0", "worker:1") in methods
