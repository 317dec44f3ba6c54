"""Calls that are made again when their connection is lost, for peers that keep their answers."""

from pathlib import Path

from tests.rpc.fake_worker import numbered
from tests.rpc.tasks import Arrivals, Task, eventually, received, tasks
from tracer.rpc.channels import NOT_SAMPLED
from tracer.rpc.retry import WAITS_S
from tracer.rpc.worker_stub import RemoteWorker

REQUEST = 9


def pull(stub: RemoteWorker, key: str) -> Arrivals:
    arrivals = Arrivals()
    stub.recv_tensor(1, key, REQUEST, NOT_SAMPLED, arrivals)
    return arrivals


def hang_up(task: Task) -> None:
    task.transport.loop.soon(task.server.hang_up)


def test_a_pull_whose_connection_is_lost_is_made_again_with_the_same_id(
    sockets: Path | None,
) -> None:
    with tasks("ps:0", "worker:0", sockets=sockets) as (ps, worker):
        worker.transport.peers_cache_responses = True
        arrivals = pull(worker.stub_of(ps), "k")
        eventually(lambda: ps.worker.asked == [REQUEST], "it is asked")
        hang_up(ps)
        eventually(lambda: ps.worker.asked == [REQUEST, REQUEST], "it is asked again")
        for _ in range(2):  # this worker keeps no answers: the first goes to the lost connection
            ps.worker.table(1).send("k", numbered(3))
        assert received(arrivals).error is None
        eventually(lambda: ps.worker.finished == [REQUEST], "it hears that the answer arrived")
        assert len(arrivals.items) == 1


def test_a_peer_that_is_gone_for_good_is_given_up_after_some_tries(sockets: Path | None) -> None:
    with tasks("ps:0", "worker:0", sockets=sockets) as (ps, worker):
        worker.transport.peers_cache_responses = True
        arrivals = pull(worker.stub_of(ps), "k")
        eventually(lambda: ps.worker.asked == [REQUEST], "it is asked")
        ps.stop()
        assert arrivals.error().code == "UNAVAILABLE"
        assert worker.transport.num_dialed == 1 + len(WAITS_S)


def test_a_transport_that_is_closed_makes_no_call_again(sockets: Path | None) -> None:
    with tasks("ps:0", "worker:0", sockets=sockets) as (ps, worker):
        worker.transport.peers_cache_responses = True
        arrivals = pull(worker.stub_of(ps), "k")
        eventually(lambda: ps.worker.asked == [REQUEST], "it is asked")
        worker.transport.close()
        assert arrivals.error().code == "CANCELLED"
        assert worker.transport.num_dialed == 1
