"""What a worker answers when messages come early, late, twice, or from another life."""

import pytest
import torch

from tests.runtime.graphs import CLUSTER, PS_0, WORKER_0
from tracer.model.graph import Graph, Node
from tracer.model.graph_builder import GraphBuilder
from tracer.model.step import RendezvousKey, SpanContext
from tracer.runtime.devices import make_devices
from tracer.runtime.interfaces import (
    Received,
    RunGraphRequest,
    RunGraphResult,
    StepError,
    WorkerInterface,
)
from tracer.runtime.worker import Worker
from tracer.runtime.worker_cache import WorkerCache
from tracer.runtime.worker_env import WorkerEnv

UNTRACED = SpanContext(0, 1, sampled=False)
STEP = 57


@pytest.fixture
def worker() -> Worker:
    worker = Worker(WorkerEnv(PS_0, make_devices(PS_0, ["cpu:0"])), WorkerCache())
    worker.create_worker_session("s", CLUSTER)
    return worker


def key_of(worker: Worker, edge: str = "edge_0_c") -> RendezvousKey:
    device = worker.env.devices[0]
    return RendezvousKey(str(device.name), device.incarnation, str(WORKER_0.device()), edge)


def sending(worker: Worker) -> Graph:
    """A constant and its `_Send` to worker:0."""
    b = GraphBuilder()
    key = key_of(worker)
    c = b.const([5.0], name="c")
    b.op(
        "_Send",
        c,
        name="c_S0",
        tensor_name=key.edge_name,
        send_device=key.src_device,
        recv_device=key.dst_device,
        send_device_incarnation=key.incarnation,
        client_terminated=False,
        T="float32",
        edge_kind="data",
    )
    return Graph(node.with_(device=key.src_device) for node in b.graph().nodes)


def run(worker: Worker, handle: str, step_id: int = STEP, session: str = "s") -> RunGraphResult:
    results: list[RunGraphResult] = []
    worker.run_graph(RunGraphRequest(session, handle, step_id, UNTRACED), results.append)
    (result,) = results
    return result


def pull(worker: Worker, key: str, request_id: int = 0, step_id: int = STEP) -> list[Received]:
    got: list[Received] = []
    worker.recv_tensor(step_id, key, request_id, UNTRACED, got.append)
    return got


def error_of(got: list[Received]) -> StepError:
    assert got[0].error is not None
    return got[0].error


def test_a_pull_before_run_graph_is_deferred_and_then_served(worker: Worker) -> None:
    handle = worker.register_graph("s", sending(worker), UNTRACED)
    early = pull(worker, str(key_of(worker)))
    assert not early
    assert run(worker, handle).error is None
    assert torch.equal(early[0].tensor, torch.tensor([5.0]))  # type: ignore[arg-type]
    assert early[0].deferred
    worker.cleanup_graph(STEP)
    assert not worker.rendezvous.running()
    assert not worker.leftovers()


def test_a_pull_after_run_graph_is_served_at_once(worker: Worker) -> None:
    run(worker, worker.register_graph("s", sending(worker), UNTRACED))
    (received,) = pull(worker, str(key_of(worker)))
    assert received.tensor is not None
    assert not received.deferred


def test_a_value_that_nobody_took_is_reported_at_cleanup(worker: Worker) -> None:
    run(worker, worker.register_graph("s", sending(worker), UNTRACED))
    worker.cleanup_graph(STEP)
    (left,) = worker.leftovers()
    assert (left.step_id, left.key, left.side) == (STEP, str(key_of(worker)), "recv")


def test_a_pull_of_another_life_is_aborted(worker: Worker) -> None:
    old = key_of(worker)._replace(incarnation=7)
    error = error_of(pull(worker, str(old)))
    assert error.code == "ABORTED"
    assert error.message.startswith("RecvTensor expects a different device incarnation: 7 vs. ")


@pytest.mark.parametrize("key", ["", "a;b", "nodevice;0000000000000001;d;e;0:0"])
def test_a_pull_of_what_is_no_key_here_is_refused(worker: Worker, key: str) -> None:
    assert error_of(pull(worker, key)).code == "INVALID_ARGUMENT"


def test_a_request_that_comes_twice_is_refused_the_second_time(worker: Worker) -> None:
    key = str(key_of(worker))
    assert not pull(worker, key, request_id=9)
    error = error_of(pull(worker, key, request_id=9))
    assert error.code == "ABORTED"
    assert error.message.startswith("The same RecvTensor request was received twice.")
    worker.cleanup_graph(STEP)


def test_a_pull_after_cleanup_fails_instead_of_waiting(worker: Worker) -> None:
    run(worker, worker.register_graph("s", sending(worker), UNTRACED))
    pull(worker, str(key_of(worker)))
    worker.cleanup_graph(STEP)
    late = error_of(pull(worker, str(key_of(worker))))
    assert (late.code, late.derived) == ("ABORTED", True)
    assert not worker.rendezvous.running()


def test_an_abort_that_comes_before_run_graph_ends_it_and_what_waited(worker: Worker) -> None:
    handle = worker.register_graph("s", sending(worker), UNTRACED)
    early = pull(worker, str(key_of(worker)))
    worker.start_abort(STEP, StepError("CANCELLED", "the other part failed", derived=True))
    assert error_of(early).message == "the other part failed"
    result = run(worker, handle)
    assert result.error is not None
    assert result.error.derived
    worker.cleanup_graph(STEP)
    assert not worker.leftovers()


def test_run_graph_that_comes_twice_is_refused_the_second_time(worker: Worker) -> None:
    handle = worker.register_graph("s", sending(worker), UNTRACED)
    assert run(worker, handle).error is None
    again = run(worker, handle)
    assert again.error is not None
    assert again.error.code == "ABORTED"
    assert again.error.message.endswith("So far: run_graph")
    pull(worker, str(key_of(worker)))
    worker.cleanup_graph(STEP)


def test_the_same_key_in_two_steps_never_meets(worker: Worker) -> None:
    handle = worker.register_graph("s", sending(worker), UNTRACED)
    run(worker, handle, step_id=1)
    assert not pull(worker, str(key_of(worker)), step_id=2)
    worker.close()


def test_unknown_sessions_and_graphs_are_aborted_as_after_a_restart(worker: Worker) -> None:
    for session, text in (
        ("t", "Session handle is not found: t"),
        ("s", "Graph handle is not found: h"),
    ):
        result = run(worker, "h", session=session)
        assert result.error is not None
        assert result.error.code == "ABORTED"
        assert text in result.error.message
        assert "just restarted" in result.error.message
    with pytest.raises(StepError, match="Session handle is not found"):
        worker.register_graph("t", Graph(), UNTRACED)


def test_a_graph_for_another_device_is_refused_by_name(worker: Worker) -> None:
    graph = Graph([Node("n", "NoOp", device=str(WORKER_0.device()))])
    with pytest.raises(StepError, match="node 'n' is placed on") as caught:
        worker.register_graph("s", graph, UNTRACED)
    assert caught.value.node == "n"


def test_an_unknown_op_is_refused_when_it_is_registered(worker: Worker) -> None:
    graph = Graph([Node("n", "MatMull", device=str(PS_0.device()))])
    with pytest.raises(StepError, match="did you mean MatMul") as caught:
        worker.register_graph("s", graph, UNTRACED)
    assert (caught.value.code, caught.value.node) == ("INVALID_ARGUMENT", "n")


def test_stubs_are_made_once_and_given_back() -> None:
    made: list[str] = []
    peer = Worker(WorkerEnv(WORKER_0, make_devices(WORKER_0, ["cpu:0"])), WorkerCache())

    def make(task: object, address: str) -> WorkerInterface:
        made.append(f"{task} {address}")
        return peer

    cache = WorkerCache(make)
    first, again = cache.acquire(WORKER_0, "h:1"), cache.acquire(WORKER_0, "h:1")
    assert first is again
    assert (made, cache.num_stubs, cache.num_in_use) == (["worker:0 h:1"], 1, 2)
    cache.release(first)
    cache.release(again)
    assert cache.num_in_use == 0
    with pytest.raises(ValueError, match="no stub of this cache"):
        cache.release(Worker(peer.env, cache))
