"""Answers to RecvTensor that are kept, so that a receiver whose stream broke may ask again."""

from collections.abc import Iterator

import pytest
import torch

from tests.clusters import GrpcTasks, TestCluster, running_cluster
from tests.runtime.graphs import CLUSTER, PS_0, WORKER_0, WORKER_1
from tests.runtime.refused import refused
from tracer.model.cluster import TaskName
from tracer.model.graph import Graph
from tracer.model.graph_builder import GraphBuilder
from tracer.model.step import RendezvousKey, SpanContext
from tracer.runtime.devices import make_devices
from tracer.runtime.interfaces import Received, StepError, WorkerInterface
from tracer.runtime.worker import Worker
from tracer.runtime.worker_cache import WorkerCache
from tracer.runtime.worker_env import WorkerEnv

UNTRACED = SpanContext(0, 1, sampled=False)
STEP, NEXT_STEP = 57, 58
REQUEST = 7


@pytest.fixture
def worker() -> Iterator[Worker]:
    """It keeps its answers; two steps are under way, which ask nobody else."""
    worker = worker_of(caches_responses=True)
    yield worker
    for step_id in (STEP, NEXT_STEP):
        worker.cleanup_graph(step_id)
    assert worker.responses is not None
    assert len(worker.responses) == 0


def worker_of(*, caches_responses: bool) -> Worker:
    devices = make_devices(PS_0, ["cpu:0"])
    worker = Worker(WorkerEnv(PS_0, devices, caches_responses=caches_responses), WorkerCache())
    for step_id in (STEP, NEXT_STEP):
        worker.rendezvous.find_or_create(step_id).initialize(nobody)
    return worker


def nobody(task: object) -> WorkerInterface:
    raise AssertionError(f"{task} is asked")


def key_of(worker: Worker, edge: str) -> str:
    device = worker.env.devices[0]
    target = str(WORKER_0.device())
    return str(RendezvousKey(str(device.name), device.incarnation, target, edge))


def send(worker: Worker, edge: str, value: float, step_id: int = STEP) -> None:
    rendezvous = worker.rendezvous.find_or_create(step_id)
    rendezvous.local.send(key_of(worker, edge), torch.tensor(value))


def pull(worker: Worker, edge: str, request_id: int = REQUEST, step: int = STEP) -> list[Received]:
    got: list[Received] = []
    worker.recv_tensor(step, key_of(worker, edge), request_id, UNTRACED, got.append)
    return got


def values(got: list[Received]) -> list[float]:
    return [float(received.tensor) for received in got if received.tensor is not None]


def error_of(got: list[Received]) -> StepError:
    assert got[0].error is not None
    return got[0].error


def test_a_request_that_comes_again_gets_the_answer_of_its_first_try(worker: Worker) -> None:
    """Without the cache it would take the next value of its key."""
    send(worker, "e", 1.0)
    send(worker, "e", 2.0)
    assert values(pull(worker, "e")) == [1.0]
    assert values(pull(worker, "e")) == [1.0]
    assert values(pull(worker, "e", REQUEST + 2)) == [2.0]


def test_a_request_that_comes_again_before_the_value_joins_its_first_try(worker: Worker) -> None:
    first, again = pull(worker, "e"), pull(worker, "e")
    assert not first + again
    send(worker, "e", 1.0)
    assert values(first) == values(again) == [1.0]
    send(worker, "e", 2.0)  # one value served both; the next one is still there
    assert values(pull(worker, "e", REQUEST + 2)) == [2.0]


def test_the_id_of_another_request_is_refused(worker: Worker) -> None:
    """A wrong hit would give the value of another key, or of another step."""
    send(worker, "e", 1.0)
    send(worker, "f", 2.0)
    send(worker, "e", 3.0, NEXT_STEP)
    assert values(pull(worker, "e")) == [1.0]
    for stray in (pull(worker, "f"), pull(worker, "e", step=NEXT_STEP)):
        error = error_of(stray)
        assert error.code == "ABORTED"
        assert f"it was received before for {key_of(worker, 'e')} of step {STEP:x}" in error.message
    assert values(pull(worker, "f", REQUEST + 2)) == [2.0]
    assert values(pull(worker, "e", REQUEST + 4, NEXT_STEP)) == [3.0]


def test_an_answer_goes_once_its_receiver_has_it_and_is_never_made_again(worker: Worker) -> None:
    send(worker, "e", 1.0)
    send(worker, "e", 2.0)
    pull(worker, "e")
    assert worker.responses is not None
    assert len(worker.responses) == 1
    worker.mark_recv_finished(REQUEST)
    worker.mark_recv_finished(REQUEST)
    assert len(worker.responses) == 0
    assert "received twice" in error_of(pull(worker, "e")).message
    assert values(pull(worker, "e", REQUEST + 2)) == [2.0]


def test_the_answers_of_a_step_go_when_it_is_cleaned_up(worker: Worker) -> None:
    for step_id in (STEP, NEXT_STEP):
        send(worker, "e", 1.0, step_id)
        pull(worker, "e", REQUEST + step_id, step_id)
    waiting = pull(worker, "never sent", REQUEST)
    assert worker.responses is not None
    assert len(worker.responses) == 3
    worker.cleanup_graph(STEP)
    assert len(worker.responses) == 1
    assert error_of(waiting).code == "CANCELLED"
    late = pull(worker, "e", REQUEST + 2)
    assert "is over" in error_of(late).message
    assert len(worker.responses) == 1


def test_an_aborted_request_that_comes_again_hears_of_the_abort(worker: Worker) -> None:
    first = pull(worker, "e")
    worker.start_abort(STEP, StepError("INTERNAL", "the root cause"))
    assert error_of(first).message == error_of(pull(worker, "e")).message == "the root cause"


def test_an_error_is_kept_as_an_answer_is(worker: Worker) -> None:
    """Else the second try would be told that it came twice, which is not the cause."""
    got: list[Received] = []
    device = str(worker.env.devices[0].name)
    key = str(RendezvousKey(device, 7, str(WORKER_0.device()), "e"))
    for _ in range(2):
        worker.recv_tensor(STEP, key, REQUEST, UNTRACED, got.append)
    first, again = (str(received.error) for received in got)
    assert "a different device incarnation" in first
    assert again == first


def test_a_worker_that_keeps_no_answers_refuses_what_comes_twice() -> None:
    worker = worker_of(caches_responses=False)
    send(worker, "e", 1.0)
    send(worker, "e", 2.0)
    assert values(pull(worker, "e")) == [1.0]
    error = error_of(pull(worker, "e"))
    assert (error.code, "received twice" in error.message) == ("ABORTED", True)


# over gRPC, where streams break

LARGE = 2 << 20  #: numbers; 8 MB, so 8 chunks


def large(at: TaskName = WORKER_1) -> Graph:
    """`large` on ps:0 is pulled by `at`, which adds it up; `small` joins the two before."""
    b = GraphBuilder()
    with b.device("/job:ps/task:0"):
        value = b.op("Fill", b.const([LARGE], "int32"), b.const(0.5), name="large", T="float32")
        one = b.const(1.0, name="one")
    with b.device(at.prefix):
        b.op("Sum", value, b.const([0], "int32"), name="total", T="float32", Tidx="int32")
        b.op("Neg", one, name="small", T="float32")
    return b.graph()


def break_within_the_answer(cluster: TestCluster, at: TaskName = WORKER_1) -> None:
    assert isinstance(cluster.tasks, GrpcTasks)
    cluster.tasks.break_within_large_answer(at, PS_0)


def recvs(cluster: TestCluster, kind: str) -> list[tuple[int, int]]:
    """(span, parent) of each call for the large tensor, after the small one of the first step."""
    return [
        (span.span, span.parent)
        for span in cluster.spans(kind)
        if span.name == "RecvTensor" and "large" in str(span.attributes["vizdist.rendezvous.key"])
    ]


@pytest.mark.cluster
def test_a_stream_that_breaks_within_an_answer_is_dialed_again_and_the_step_goes_on() -> None:
    with running_cluster("grpc", CLUSTER, caches_responses=True) as cluster:
        session = cluster.session(large())
        session.run("small:0")
        break_within_the_answer(cluster)
        assert float(session.run("total:0")) == LARGE / 2
        assert float(session.run("total:0")) == LARGE / 2
        asked = [
            bool(span.attributes["vizdist.cache.hit"])
            for span in cluster.spans("cache.get")
            if span.name == "recv_response" and "large" in str(span.attributes["vizdist.cache.key"])
        ]
        assert asked == [False, True, False]
        (first, _), (second, _) = recvs(cluster, "rpc.client")
        assert [parent for _, parent in recvs(cluster, "rpc.server")] == [first, first, second]
        session.close()
        kept = cluster.workers[PS_0].responses
        assert kept is not None
        assert (kept.tally.hits, len(kept)) == (1, 0)


@pytest.mark.cluster
def test_without_the_cache_a_stream_that_breaks_fails_the_step() -> None:
    with running_cluster("grpc", CLUSTER) as cluster:
        session = cluster.session(large())
        session.run("small:0")
        break_within_the_answer(cluster)
        error = refused(lambda: session.run("total:0"))
        assert (error.code, error.task) == ("UNAVAILABLE", "ps:0")
        assert float(session.run("total:0")) == LARGE / 2


@pytest.mark.cluster
def test_a_stream_that_breaks_between_a_master_and_its_task_fails_the_step_with_that_cause() -> (
    None
):
    """The task ends what a lost master ran there, so the same request has no answer any more."""
    with running_cluster("grpc", CLUSTER, caches_responses=True) as cluster:
        session = cluster.session(large(WORKER_0))
        session.run("small:0")
        break_within_the_answer(cluster, WORKER_0)
        error = refused(lambda: session.run("total:0"))
        assert (error.code, error.task) == ("UNAVAILABLE", "ps:0")
        assert float(session.run("total:0")) == LARGE / 2
