from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rpc.tasks import Task, pull, tasks
from tracer.model.graph import Graph
from tracer.rpc.channels import NOT_SAMPLED
from tracer.rpc.transport import Transport
from tracer.rpc.worker_stub import RemoteWorker
from tracer.runtime.interfaces import RunStepRequest, StepError


@pytest.fixture(scope="module")
def ps(sockets: Path | None) -> Iterator[Task]:
    with tasks("ps:0", sockets=sockets, secret="open sesame") as (task,):
        yield task


@pytest.mark.parametrize("secret", ["", "open sesam", "wrong"])
def test_who_does_not_know_the_secret_is_refused_everywhere(ps: Task, secret: str) -> None:
    stranger = Transport("worker:0", secret=secret, sockets=ps.sockets)
    stub = RemoteWorker(stranger, ps.name, ps.server.address)
    client = ps.dial(secret=secret)
    request = RunStepRequest("s", {}, (), (), NOT_SAMPLED)
    try:
        for call in (
            stub.get_status,
            lambda: client.create_session(Graph(), NOT_SAMPLED),
            lambda: client.run_step(request),
        ):
            with pytest.raises(StepError, match="secret is missing or wrong") as info:
                call()
            assert info.value.code == "UNAUTHENTICATED"
        assert pull(stub, "k").error().code == "UNAUTHENTICATED"
        assert ps.worker.tables == {}
    finally:
        client.close()
        stranger.close()


def test_who_knows_the_secret_is_served(ps: Task) -> None:
    assert ps.stub_of(ps).get_status().pid == 7
