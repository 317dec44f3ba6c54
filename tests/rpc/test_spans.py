"""The RPC pair in the trace, over each kind of stream."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch

from tests.fakes import Recording, SpanData, check, recorded
from tests.rpc.tasks import Arrivals, Task, eventually, start_task, without_shared_memory
from tracer.model.graph import Graph
from tracer.model.step import SpanContext
from tracer.model.trace_folder import Flag
from tracer.rpc.spans import GRPC, LOCAL
from tracer.runtime.interfaces import RunGraphRequest, RunStepRequest, StepError

STEP = SpanContext(2**63 + 1, 5, span=0, step=3)


@contextmanager
def recorded_pair(sockets: Path | None) -> Iterator[tuple[Recording, Task, Task]]:
    with recorded("client") as recording:
        ps = start_task("ps:0", sockets, recorder=recording.add("ps:0"))
        worker = start_task("worker:0", sockets, recorder=recording.add("worker:0"))
        try:
            yield recording, ps, worker
        finally:
            worker.stop()
            ps.stop()
        assert not check(recording.spans(at_end=True))


def pair_of(recording: Recording, method: str) -> tuple[SpanData, SpanData]:
    """Client and server span of the one call of a method, once both have ended."""

    def spans(kind: str) -> list[SpanData]:
        return [span for span in recording.of(kind) if span.name == method]

    eventually(lambda: bool(spans("rpc.client") and spans("rpc.server")), f"the pair of {method}")
    (client,), (server,) = spans("rpc.client"), spans("rpc.server")
    assert server.parent == client.span
    assert (server.trace_hi, server.trace_lo, server.step) == (*STEP[:2], 3)
    assert client.start <= server.start
    return client, server


def wire_of(span: SpanData) -> dict[str, object]:
    return {name: span.attributes[name] for name in GRPC}


@pytest.mark.parametrize("count", [6, 300_000])
def test_a_pull_is_a_pair_with_the_bytes_that_were_moved(sockets: Path | None, count: int) -> None:
    with recorded_pair(sockets) as (recording, ps, worker):
        arrivals = Arrivals()
        worker.stub_of(ps).recv_tensor(1, "a key", 2**61 + 7, STEP, arrivals)
        eventually(lambda: ps.worker.table(1).unsent() == ["a key"], "the pull waits")
        ps.worker.table(1).send("a key", torch.zeros(count), span=12)
        arrivals.wait()
        client, server = pair_of(recording, "RecvTensor")
        assert client.num_bytes == server.num_bytes == 4 * count
        assert client.key == server.key == "a key"
        assert client.extra == 2**61 + 7
        assert client.end >= server.end or count > 6  # the last chunk may arrive before it is noted
        assert (client.task, server.task) == ("worker:0", "ps:0")
        assert client.attributes["vizdist.peer"] == "ps:0"
        assert wire_of(client) == wire_of(server) == (LOCAL if sockets else GRPC)
        assert client.attributes["rpc.method"] == "tensorflow.WorkerService/RecvTensor"
        assert client.attributes["server.address"] == ps.server.address
        assert ps.worker.contexts[0].span == server.span


def test_an_aborted_pull_is_an_error_on_both_sides_and_so_is_the_abort_recorded(
    sockets: Path | None,
) -> None:
    with recorded_pair(sockets) as (recording, ps, worker):
        stub, running, arrivals = worker.stub_of(ps), Arrivals(), Arrivals()
        stub.run_graph(RunGraphRequest("s", "wait", 1, STEP), running)
        stub.recv_tensor(1, "k", 1, STEP, arrivals)
        eventually(lambda: ps.worker.table(1).unsent() == ["k"], "the pull waits")
        stub.start_abort(1, StepError("CANCELLED", "enough"))
        stub.cleanup_graph(1)
        running.wait()
        arrivals.wait()
        for method in ("RecvTensor", "RunGraph"):
            for span in pair_of(recording, method):
                assert span.flags & Flag.ERROR
                assert span.attributes["rpc.response.status_code"] == "CANCELLED"
        pair_of(recording, "StartAbort")
        pair_of(recording, "CleanupGraph")


@pytest.mark.parametrize("breaks", ["the peer", "the step"])
def test_an_answer_that_was_not_wholly_sent_is_an_error_without_bytes(
    sockets: Path | None, breaks: str
) -> None:
    with recorded_pair(sockets) as (recording, ps, worker):
        stub, arrivals = worker.stub_of(ps), Arrivals()
        stub.recv_tensor(1, "k", 1, STEP, arrivals)
        eventually(lambda: ps.worker.table(1).unsent() == ["k"], "the pull waits")
        without_shared_memory(ps, worker)
        ps.worker.table(1).send("k", torch.empty(256 << 20, dtype=torch.uint8))
        under_way = ps.server._frames.under_way
        eventually(lambda: len(under_way) == 1, "the answer is under way")
        if breaks == "the peer":
            worker.stop()
        else:
            stub.start_abort(1, StepError("CANCELLED", "enough"))
        eventually(lambda: not len(under_way), "the answer is given up")
        served = partial(recording.of, "rpc.server")
        eventually(lambda: "RecvTensor" in {span.name for span in served()}, "its span ended")
        (server,) = (span for span in served() if span.name == "RecvTensor")
        assert server.num_bytes == 0
        assert server.flags & Flag.ERROR
        assert ("worker:0" if breaks == "the peer" else "enough") in server.error


def test_a_graph_runs_under_the_server_span_of_its_call(sockets: Path | None) -> None:
    with recorded_pair(sockets) as (recording, ps, worker):
        arrivals = Arrivals()
        worker.stub_of(ps).run_graph(RunGraphRequest("s", "h", 1, STEP), arrivals)
        arrivals.wait()
        _, server = pair_of(recording, "RunGraph")
        assert ps.worker.contexts == [STEP.under(server.span)]


def test_a_client_s_step_is_a_pair_and_the_master_works_under_it(sockets: Path | None) -> None:
    with recorded_pair(sockets) as (recording, _, worker):
        client = worker.dial(recorder=recording.recorder)
        client.run_step(RunStepRequest("s", {"x": torch.zeros(2)}, ("y",), (), STEP))
        client.create_session(Graph(), STEP)
        client.close()
        call, server = pair_of(recording, "RunStep")
        assert call.attributes["vizdist.peer"] == "worker:0"
        assert worker.master.requests[0].context == STEP.under(server.span)
        pair_of(recording, "CreateSession")


def test_what_is_not_sampled_is_not_recorded(sockets: Path | None) -> None:
    with recorded_pair(sockets) as (recording, ps, worker):
        stub, arrivals = worker.stub_of(ps), Arrivals()
        context = STEP._replace(sampled=False)
        stub.run_graph(RunGraphRequest("s", "h", 1, context), arrivals)
        ps.worker.table(1).send("k", torch.zeros(1))
        stub.recv_tensor(1, "k", 1, context, arrivals)
        arrivals.wait(2)
        stub.cleanup_graph(1)
        stub.get_status()
        eventually(lambda: ps.worker.cleaned == [1], "the cleanup came")
        assert recording.spans() == []
