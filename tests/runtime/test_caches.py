"""The nine caches of a cluster: what is found again, what must not be, and what the trace says.

Each has a story in which a wrong hit would give a wrong result. The ninth, of RecvTensor answers,
is off unless it is asked for, and has a file of its own.
"""

import threading
from collections.abc import Callable

import pytest
import torch

from tests.clusters import GrpcTasks, TestCluster, running_cluster
from tests.fakes import Recording, recorded
from tests.runtime.graphs import CLUSTER, PS_0, WORKER_0, WORKER_1, counter
from tracer.model.cluster import TaskName
from tracer.model.graph import Graph
from tracer.model.graph_builder import GraphBuilder
from tracer.model.step import SpanContext, trace_of_step
from tracer.rpc.transport import Transport
from tracer.runtime.caches import Cache, Tally
from tracer.runtime.devices import make_devices
from tracer.runtime.interfaces import SHARED, Received, RecvDone, SessionOptions, StepError
from tracer.runtime.remote_rendezvous import RendezvousTable
from tracer.runtime.worker import Worker
from tracer.runtime.worker_cache import WorkerCache
from tracer.runtime.worker_env import WorkerEnv

Start = Callable[..., TestCluster]

STEP = SpanContext(0, 1, sampled=False)
RUN = trace_of_step("test", "run", 0)
ONES = torch.ones(2)


def gets(cluster: TestCluster | Recording, name: str) -> list[tuple[str, str, bool]]:
    """(task, key, hit) of each look-up that was recorded."""
    recording = cluster.recording if isinstance(cluster, TestCluster) else cluster
    assert recording is not None
    return [
        (s.task, str(s.attributes["vizdist.cache.key"]), bool(s.attributes["vizdist.cache.hit"]))
        for s in recording.of("cache.get")
        if s.name == name
    ]


def totals(cluster: TestCluster, name: str) -> dict[str, tuple[int, int]]:
    """Task → (hits, misses), as told when the last session ended."""
    return {
        s.task: (int(s.attributes["vizdist.cache.hits"]), int(s.attributes["vizdist.cache.misses"]))
        for s in cluster.spans("cache.total")
        if s.name == name
    }


# the two forms


def test_a_cache_makes_once_and_says_whether_it_had_it() -> None:
    with recorded("worker:0") as recording:
        cache: Cache[str, list[str]] = Cache("things", recording.recorder)
        first = cache.get("k", lambda: ["made"], RUN)
        assert cache.get("k", lambda: ["made again"], RUN) is first
        assert gets(recording, "things") == [
            ("worker:0", "k", False),
            ("worker:0", "k", True),
        ]
    assert (cache.tally.hits, cache.tally.misses, len(cache)) == (1, 1, 1)


def test_what_could_not_be_made_is_not_kept() -> None:
    cache: Cache[str, int] = Cache("things")
    with pytest.raises(ZeroDivisionError):
        cache.get("k", lambda: 1 // 0)
    assert "k" not in cache
    assert cache.get("k", lambda: 7) == 7


def test_a_tally_loses_no_count_of_any_thread() -> None:
    tally = Tally("things")

    def count() -> None:
        for _ in range(20_000):
            tally.hit()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert tally.hits <= 80_000  # reading in between counts nothing
    assert (tally.hits, tally.misses) == (80_000, 0)


# 1 channels, 2 stubs


def test_a_target_has_one_channel_for_as_long_as_the_task_lives() -> None:
    with recorded("worker:0") as recording:
        transport = Transport("worker:0", recorder=recording.recorder, context=RUN)

        async def ask(address: str) -> object:
            return transport.channel(address)

        first, again, other = (
            transport.loop.call(ask(address), 5) for address in ("h:1", "h:1", "h:2")
        )
        transport.close()
        assert first is again
        assert first is not other  # a wrong hit would talk to another task
        assert [(key, hit) for _, key, hit in gets(recording, "channel")] == [
            ("h:1", False),
            ("h:1", True),
            ("h:2", False),
        ]


def test_every_stub_that_was_taken_is_given_back_and_made_once(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    for _ in range(3):
        session = cluster.session(counter())
        session.run("init")
        session.run("twice:0")
        assert cluster.workers[WORKER_0].cache.num_in_use >= 2
        session.close()
    found = [(key.split()[0], hit) for task, key, hit in gets(cluster, "worker_stub")
             if task == "worker:0"]  # fmt: skip
    assert found.count(("ps:0", False)) == found.count(("worker:1", False)) == 1
    assert all(worker.cache.num_in_use == 0 for worker in cluster.workers.values())


def test_a_task_that_moved_has_another_stub() -> None:
    """A wrong hit would go on talking to where the task was."""
    made: list[str] = []

    def make(task: TaskName, address: str) -> Worker:
        made.append(address)
        return Worker(WorkerEnv(task, make_devices(task, ["cpu:0"])), WorkerCache())

    cache = WorkerCache(make)
    here, there = cache.acquire(PS_0, "h:1"), cache.acquire(PS_0, "h:2")
    assert here is not there
    assert made == ["h:1", "h:2"]


# 3 device status


def test_a_session_keeps_the_devices_it_was_made_with_and_a_new_one_asks_again() -> None:
    with running_cluster("grpc", CLUSTER, trace=False) as cluster:
        assert isinstance(cluster.tasks, GrpcTasks)
        session = cluster.session(counter())
        session.run("init")
        found = session.list_devices()
        cluster.tasks.stop(PS_0)
        cluster.tasks.restart(PS_0)
        assert session.list_devices() == found
        fresh = cluster.session(counter())
        lives = [[d.incarnation for d in some] for some in (found, fresh.list_devices())]
        assert [old == new for old, new in zip(*lives, strict=True)] == [False, True, True]
        with pytest.raises(StepError) as caught:  # on the life it knows, not on the one there is
            session.run("read:0")
        assert caught.value.code == "ABORTED"
        fresh.run("init")
        assert fresh.run("twice:0").tolist() == [2.0, 2.0]


def test_the_status_of_each_task_is_asked_once_a_session(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    session = cluster.session(counter())
    session.run("init")
    session.run("read:0")
    asked = gets(cluster, "device_status")
    assert sorted(key for _, key, hit in asked if not hit) == ["ps:0", "worker:0", "worker:1"]
    assert sum(hit for _, _, hit in asked) == 2 * 3  # each new client graph is placed by them


# 4 client graphs, 5 graph handles


def test_a_request_finds_its_client_graph_whatever_the_order_of_its_names(
    start_cluster: Start,
) -> None:
    cluster = start_cluster(CLUSTER)
    session = cluster.session(counter())
    session.run("init")
    for fetches in (["read:0", "twice:0"], ["twice:0", "read:0"], ["read:0", "twice:0"]):
        values = session.run(fetches)
        assert [v.tolist()[0] for v in values] == [1.0 if f[0] == "r" else 2.0 for f in fetches]
    told = [hit for _, _, hit in gets(cluster, "client_graph")]
    assert told == [False, False, True]  # init, first order, second order; the third is known
    steps = [s.attributes["vizdist.cache.hit"] for s in cluster.spans("session.run")]
    assert steps == [False, False, False, True]


def test_requests_that_differ_only_in_what_is_fed_have_their_own_graphs(
    start_cluster: Start,
) -> None:
    """A wrong hit would read the variable in place of what was fed."""
    cluster = start_cluster(CLUSTER)
    session = cluster.session(counter())
    session.run("init")
    assert session.run("twice:0").tolist() == [2.0, 2.0]
    assert session.run("twice:0", {"read:0": 5 * ONES}).tolist() == [10.0, 10.0]
    assert session.run("twice:0").tolist() == [2.0, 2.0]
    assert cluster.tasks.masters[WORKER_0].session(session.handle).num_graphs == 3


def test_a_graph_handle_serves_its_own_session_only(start_cluster: Start) -> None:
    """A wrong hit would run another session's graph, here on another session's variable."""
    cluster = start_cluster(CLUSTER)
    session = cluster.session(counter())
    session.run("init")
    for _ in range(3):
        session.run("read:0")
    handles = {key for task, key, _ in gets(cluster, "graph_handle") if task == "ps:0"}
    assert len(handles) == 2  # of `init` and of `read`
    session.close()
    assert totals(cluster, "graph_handle")["ps:0"] == (4, 2)
    stray = cluster.session(counter())
    with pytest.raises(StepError, match="Graph handle is not found"):
        cluster.workers[PS_0].deregister_graph(stray.handle, handles.pop())


# 6 op segment


def of_one_task() -> Graph:
    """`counter` without its node on worker:1; `minus` has no state."""
    b = GraphBuilder()
    with b.device("/job:ps/task:0"):
        v = b.op("VarHandleOp", name="v", dtype="float32", shape=[2])
        b.op("AssignVariableOp", v, b.const([1.0, 1.0]), name="init", dtype="float32")
        read = b.op("ReadVariableOp", v, name="read", dtype="float32")
        b.op("Neg", read, name="minus", T="float32")
    return b.graph()


def test_a_stateful_kernel_is_one_object_in_all_graphs_of_a_session(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    session = cluster.session(of_one_task())
    for fetch in ("init", "read:0", "minus:0"):
        session.run(fetch)
    asked = [(key.split()[0], hit) for _, key, hit in gets(cluster, "kernel")]
    assert asked == [
        ("v", False),
        ("init", False),
        ("v", True),
        ("read", False),
        ("v", True),
        ("read", True),
    ]


def test_sessions_do_not_share_kernels(start_cluster: Start) -> None:
    """A wrong hit would give an isolated session another's variable."""
    cluster = start_cluster(CLUSTER)
    for options in (SHARED, SessionOptions(isolate_session_state=True)):
        cluster.session(of_one_task(), options=options).run("init")
    assert [hit for _, _, hit in gets(cluster, "kernel")] == [False] * 4


# 7 rendezvous by step


def test_a_step_finds_its_own_rendezvous_and_no_other(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    session = cluster.session(counter())
    session.run("init")
    for _ in range(4):
        session.run("twice:0")
    cluster.leave()
    hits, misses = totals(cluster, "rendezvous")["ps:0"]
    assert misses == 5  # a step each
    assert hits >= 4  # each pull of worker:1 found it, or made it and run_graph found it


def test_the_same_key_of_two_steps_holds_two_values() -> None:
    table = RendezvousTable("ps:0")
    first, second = table.find_or_create(1), table.find_or_create(2)
    first.local.send("k", torch.tensor(1))
    got: list[Received] = []
    second.initialize(lambda _: pytest.fail("nobody is asked"))
    second.recv_local("k", got.append)
    assert not got  # a wrong hit would give step 1's value
    assert table.find_or_create(1) is first
    assert (table.tally.hits, table.tally.misses) == (1, 2)
    for step in (1, 2):
        table.cleanup(step)


# 8 free RecvTensor calls


class Mute(Worker):
    """Keeps the pulls that it is asked for, to be answered by the test."""

    def __init__(self, task: TaskName) -> None:
        super().__init__(WorkerEnv(task, make_devices(task, ["cpu:0"])), WorkerCache())
        self.asked: list[RecvDone] = []

    def recv_tensor(
        self, step_id: int, key: str, request_id: int, context: SpanContext, done: RecvDone
    ) -> None:
        self.asked.append(done)


def test_a_call_whose_answer_came_serves_the_next_pull() -> None:
    table, peer = RendezvousTable("worker:0"), Mute(PS_0)
    for step_id in (1, 2, 3):
        rendezvous = table.find_or_create(step_id)
        rendezvous.initialize(lambda _: peer)
        got: list[Received] = []
        rendezvous.recv_remote(PS_0, "k", STEP, got.append)
        peer.asked.pop()(Received(torch.tensor(step_id)))
        assert got[0].tensor == step_id
        table.cleanup(step_id)
    assert (table.free_calls.tally.hits, table.free_calls.tally.misses) == (2, 1)


def test_a_late_answer_to_an_aborted_pull_reaches_no_later_one() -> None:
    """A call that was free too early would hand the old step's value to the new step."""
    table, peer = RendezvousTable("worker:0"), Mute(PS_0)
    old, new = table.find_or_create(1), table.find_or_create(2)
    got: dict[int, list[Received]] = {1: [], 2: []}
    for rendezvous in (old, new):
        rendezvous.initialize(lambda _: peer)
    old.recv_remote(PS_0, "k", STEP, got[1].append)
    old.abort(StepError("CANCELLED", "enough"))
    new.recv_remote(PS_0, "k", STEP, got[2].append)
    late, right = peer.asked
    late(Received(torch.tensor(1)))
    assert got[2] == []
    right(Received(torch.tensor(2)))
    assert got[2][0].tensor == 2
    assert [received.error is not None for received in got[1]] == [True]
    for step in (1, 2):
        table.cleanup(step)


def test_all_caches_of_a_task_are_told_when_a_session_ends(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    session = cluster.session(counter())
    session.run("init")
    session.run("twice:0")
    session.close()
    told = {(s.task, s.name) for s in cluster.spans("cache.total")}
    of_workers = ("graph_handle", "kernel", "worker_stub", "rendezvous", "recv_call")
    tasks = ("ps:0", "worker:0", "worker:1")
    assert told == {*((t, c) for t in tasks for c in of_workers), ("worker:0", "client_graph")}
    assert totals(cluster, "recv_call")["worker:1"] == (0, 1)


def test_unsampled_look_ups_are_not_recorded(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER, trace=False)
    cluster.session(counter()).run("init")
    assert cluster.workers[WORKER_1].cache.tally.misses == 0
    assert cluster.workers[WORKER_0].cache.tally.misses == 2
