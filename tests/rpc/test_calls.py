"""Calls between two served tasks and from a client, over each kind of stream there is."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.rpc.fake_worker import numbered
from tests.rpc.tasks import Arrivals, Task, eventually, pull, received, tasks, without_shared_memory
from tracer.model.cluster import ClusterSpec
from tracer.model.graph import Graph, Literal, Node
from tracer.model.step import SpanContext
from tracer.rpc.channels import NOT_SAMPLED
from tracer.rpc.frames import CHUNK_BYTES, LARGE_BYTES
from tracer.rpc.master_stub import RemoteMaster
from tracer.runtime import turn
from tracer.runtime.interfaces import (
    RunGraphRequest,
    RunGraphResult,
    RunStepRequest,
    RunStepResult,
    StepDone,
    StepError,
)


@pytest.fixture(scope="module")
def pair(sockets: Path | None) -> Iterator[tuple[Task, Task]]:
    with tasks("ps:0", "worker:0", sockets=sockets) as (ps, worker):
        yield ps, worker


@pytest.fixture(autouse=True)
def _clean(pair: tuple[Task, Task]) -> Iterator[None]:
    """Every test starts with empty tables and leaves no large answer under way."""
    yield
    for task in pair:
        task.worker.__init__(task.name)  # type: ignore[misc]
        task.master.__init__()  # type: ignore[misc]
    frames = [task.server._frames for task in pair]
    eventually(lambda: not any(len(f.under_way) for f in frames), "large answers end")


def graph() -> Graph:
    value = Literal("float32", (2,), b"\0" * 8)
    return Graph([Node("c", "Const", attrs={"value": value}, device="/job:ps/task:0")])


def test_rare_calls_are_unary_methods(pair: tuple[Task, Task]) -> None:
    ps, worker = pair
    stub = worker.stub_of(ps)
    status = stub.get_status()
    assert status.devices[0].incarnation == 2**64 - 1
    assert status.pid == 7
    cluster = ClusterSpec({"ps": {0: "a:1"}, "worker": {3: "[::1]:2"}})
    stub.create_worker_session("s", cluster)
    assert ps.worker.sessions == {"s": cluster}
    assert stub.register_graph("s", graph(), NOT_SAMPLED, "g") == "handle"
    assert dict(ps.worker.graphs["g"]) == dict(graph())
    stub.delete_worker_session("s")
    assert ps.worker.sessions == {}


def test_a_graph_with_a_five_mb_constant_is_registered(pair: tuple[Task, Task]) -> None:
    ps, worker = pair
    value = Literal("uint8", (5_000_000,), bytes(5_000_000))
    worker.stub_of(ps).register_graph(
        "s", Graph([Node("c", "Const", attrs={"value": value})]), NOT_SAMPLED, "big"
    )
    assert ps.worker.graphs["big"]["c"].attrs["value"] == value


def test_an_error_of_the_other_side_is_raised_as_it_was(pair: tuple[Task, Task]) -> None:
    ps, worker = pair
    with pytest.raises(StepError, match="Session handle is not found: nix") as info:
        worker.stub_of(ps).delete_worker_session("nix")
    assert (info.value.code, info.value.node) == ("ABORTED", "n")


def test_a_fault_of_the_other_side_is_an_internal_error_of_that_task(
    pair: tuple[Task, Task],
) -> None:
    ps, worker = pair
    with pytest.raises(StepError, match="ValueError: a fault of the runtime") as info:
        worker.stub_of(ps).deregister_graph("s", "h")
    assert (info.value.code, info.value.task) == ("INTERNAL", "ps:0")


def test_a_pull_before_the_send_waits_without_a_thread(pair: tuple[Task, Task]) -> None:
    ps, worker = pair
    stub = worker.stub_of(ps)
    received(pull_sent(stub, ps, "warm"))
    before = threading.active_count()
    waiting = [pull(stub, f"k{i}") for i in range(500)]
    eventually(lambda: len(ps.worker.table(1).unsent()) == 500, "500 pulls wait")
    assert threading.active_count() <= before
    for i in reversed(range(500)):
        ps.worker.table(1).send(f"k{i}", torch.tensor(i))
    values = [received(arrivals).tensor for arrivals in waiting]
    assert [int(value) for value in values if value is not None] == list(range(500))


def pull_sent(stub: object, task: Task, key: str) -> Arrivals:
    task.worker.table(1).send(key, numbered(3), span=11)
    return pull(stub, key)  # type: ignore[arg-type]


def test_a_value_sent_first_waits_for_its_pull(pair: tuple[Task, Task]) -> None:
    ps, worker = pair
    item = received(pull_sent(worker.stub_of(ps), ps, "k"))
    assert item.tensor is not None
    assert item.tensor.tolist() == [0, 1, 2]
    assert item.send_span == 11


def test_a_dead_value_arrives_dead(pair: tuple[Task, Task]) -> None:
    ps, worker = pair
    ps.worker.table(1).send("k", None, is_dead=True)
    item = received(pull(worker.stub_of(ps), "k"))
    assert item.is_dead
    assert item.tensor is None


@pytest.mark.parametrize(
    "num_bytes", [LARGE_BYTES - 64, LARGE_BYTES + 64, 3 * CHUNK_BYTES, 5 << 20]
)
def test_large_tensors_arrive_whole_and_beside_small_ones(
    pair: tuple[Task, Task], num_bytes: int
) -> None:
    ps, worker = pair
    large = torch.randn(num_bytes // 4)
    ps.worker.table(1).send("large", large)
    stub = worker.stub_of(ps)
    arrivals = pull(stub, "large")
    received(pull_sent(stub, ps, "small"))
    item = received(arrivals)
    assert item.tensor is not None
    assert torch.equal(item.tensor, large)


@pytest.mark.slow
def test_three_hundred_megabytes_arrive_whole(pair: tuple[Task, Task]) -> None:
    ps, worker = pair
    large = torch.arange(300_000_000 // 8)
    ps.worker.table(1).send("k", large)
    item = received(pull(worker.stub_of(ps), "k"))
    assert item.tensor is not None
    assert torch.equal(item.tensor, large)


def test_one_pair_needs_one_connection_both_ways(pair: tuple[Task, Task]) -> None:
    ps, worker = pair
    received(pull_sent(worker.stub_of(ps), ps, "k"))
    received(pull_sent(ps.stub_of(worker), worker, "k"))
    assert (worker.transport.num_dialed, ps.transport.num_dialed) == (1, 0)


def test_two_tasks_that_pull_large_tensors_from_each_other_do_not_block(
    pair: tuple[Task, Task],
) -> None:
    ps, worker = pair
    large = torch.randn(1 << 20)
    stubs = ((worker.stub_of(ps), ps), (ps.stub_of(worker), worker))
    for _, source in stubs:
        for i in range(6):
            source.worker.table(1).send(str(i), large)
    waiting = [pull(stub, str(i)) for i in range(6) for stub, _ in stubs]
    for arrivals in waiting:
        item = received(arrivals)
        assert item.tensor is not None
        assert torch.equal(item.tensor, large)


def test_a_more_than_two_gib_answer_is_an_error_and_not_a_hang(pair: tuple[Task, Task]) -> None:
    ps, worker = pair
    ps.worker.table(1).send("k", torch.empty(2**31 + 1, dtype=torch.uint8, device="meta"))
    error = pull(worker.stub_of(ps), "k").error()
    assert "at most 2147483648" in error.message


def test_frames_of_a_turn_leave_as_one_message(pair: tuple[Task, Task]) -> None:
    ps, worker = pair
    stub = worker.stub_of(ps)
    received(pull_sent(stub, ps, "warm"))
    messages: list[bytes] = []
    connection = ps.transport.open_connection(worker.server.address)
    assert connection is not None
    receive = connection.receive

    def counted(message: bytes) -> None:
        messages.append(message)
        receive(message)

    connection.receive = counted  # type: ignore[method-assign]
    waiting: list[Arrivals] = []

    def a_turn() -> None:
        waiting.extend(pull(stub, f"k{i}") for i in range(4))

    turn.run(a_turn)
    for i in range(4):
        ps.worker.table(1).send(f"k{i}", numbered(2))
    for arrivals in waiting:
        received(arrivals)
    assert len(messages) == 1


def run(stub: object, handle: str, step_id: int = 3) -> Arrivals:
    arrivals = Arrivals()
    request = RunGraphRequest("s", handle, step_id, NOT_SAMPLED, {"f": numbered(2)})
    stub.run_graph(request, arrivals)  # type: ignore[attr-defined]
    return arrivals


def test_run_graph_answers_what_was_fetched_and_runs_on_the_rpc_thread(
    pair: tuple[Task, Task],
) -> None:
    ps, worker = pair
    result = run(worker.stub_of(ps), "any").wait()[0]
    assert isinstance(result, RunGraphResult)
    assert result.fetched["f"].tolist() == [0, 1]
    assert ps.worker.threads == {"rpc"}


def test_run_graph_answers_an_error_with_its_place(pair: tuple[Task, Task]) -> None:
    ps, worker = pair
    error = run(worker.stub_of(ps), "fail").error()
    assert (error.code, error.task, error.node) == ("INVALID_ARGUMENT", "ps:0", "add")


def test_an_abort_ends_the_run_and_what_waits(pair: tuple[Task, Task]) -> None:
    ps, worker = pair
    stub = worker.stub_of(ps)
    running, waiting = run(stub, "wait"), pull(stub, "never", step_id=3)
    stub.start_abort(3, StepError("CANCELLED", "enough", task="worker:0", derived=True))
    for arrivals in (running, waiting):
        error = arrivals.error()
        assert (error.code, error.message, error.derived) == ("CANCELLED", "enough", True)


def test_an_abort_ends_a_large_answer_between_two_chunks(pair: tuple[Task, Task]) -> None:
    ps, worker = pair
    stub = worker.stub_of(ps)
    received(pull_sent(stub, ps, "warm"))
    without_shared_memory(ps, worker)
    size = 256 << 20
    ps.worker.table(3).send("k", torch.empty(size, dtype=torch.uint8))
    arrivals = pull(stub, "k", step_id=3)
    frames = ps.server._frames
    eventually(lambda: len(frames.under_way) == 1, "the answer is under way")
    stub.start_abort(3, StepError("CANCELLED", "enough", task="worker:0"))
    assert arrivals.error().message == "enough"


def test_a_cleanup_arrives_by_itself_and_before_the_session_goes(pair: tuple[Task, Task]) -> None:
    ps, worker = pair
    stub = worker.stub_of(ps)
    received(pull_sent(stub, ps, "k"))
    stub.cleanup_graph(8)
    eventually(lambda: ps.worker.cleaned == [8], "a cleanup without a frame to ride with")
    stub.create_worker_session("s", ClusterSpec({}))
    stub.cleanup_graph(9)
    stub.delete_worker_session("s")
    assert ps.worker.cleaned == [8, 9]


@pytest.fixture
def client(pair: tuple[Task, Task]) -> Iterator[RemoteMaster]:
    master = pair[1].dial()
    yield master
    master.close()


def step(**feeds: torch.Tensor) -> RunStepRequest:
    return RunStepRequest("s", feeds, ("y",), ("train",), NOT_SAMPLED)


def test_a_client_runs_steps_on_its_own_stream(
    pair: tuple[Task, Task], client: RemoteMaster
) -> None:
    assert client.create_session(graph(), NOT_SAMPLED) == "session of 1 nodes"
    assert client.list_devices("d")[0].name == "d"
    for i in range(3):
        result = client.run_step(step(x=torch.tensor(i)))
        assert result.fetched["x"].item() == 2 * i
        assert result.step_id == 5
    assert pair[1].master.requests[0].targets == ("train",)


def test_a_client_feeds_and_fetches_what_is_larger_than_four_mb(client: RemoteMaster) -> None:
    large = torch.randn(3 << 20)
    assert torch.equal(client.run_step(step(x=large)).fetched["x"], 2 * large)


def test_a_client_gets_the_errors_of_its_steps(
    pair: tuple[Task, Task], client: RemoteMaster
) -> None:
    def fail(_: RunStepRequest, done: StepDone) -> None:
        done(StepError("INVALID_ARGUMENT", "bad feed", task="worker:0", node="x"))

    pair[1].master.on_step = fail
    with pytest.raises(StepError, match="bad feed") as info:
        client.run_step(step())
    assert info.value.node == "x"
    with pytest.raises(StepError, match="Session was closed"):
        client.close_session("s")


def test_a_client_does_not_wait_for_ever(pair: tuple[Task, Task]) -> None:
    late: list[StepDone] = []
    pair[1].master.on_step = lambda _, done: late.append(done)
    client = pair[1].dial(step_timeout_s=0.3)
    with pytest.raises(StepError, match=r"worker:0 at .*: no answer to RunStep in 0 s") as info:
        client.run_step(step())
    assert info.value.code == "DEADLINE_EXCEEDED"
    late[0](RunStepResult({"y": torch.tensor(1)}, 1))  # to nobody
    pair[1].master.on_step = None
    assert client.run_step(step(x=torch.tensor(4))).fetched["x"].item() == 8
    client.close()


def test_ctrl_c_ends_the_wait_for_a_step_and_the_client_works_on(
    pair: tuple[Task, Task], client: RemoteMaster
) -> None:
    client.run_step(step(x=torch.ones(1)))
    main = threading.main_thread().ident
    assert main is not None
    pair[1].master.on_step = lambda _, done: signal.pthread_kill(main, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        client.run_step(step())
    pair[1].master.on_step = None
    assert client.list_devices("d")[0].name == "d"
    assert client.run_step(step(x=torch.ones(1))).fetched["x"].item() == 2


def test_a_session_can_be_closed_while_its_step_runs(pair: tuple[Task, Task]) -> None:
    steps: list[StepDone] = []
    pair[1].master.on_step = lambda _, done: steps.append(done)
    client = pair[1].dial(step_timeout_s=5)
    thread = threading.Thread(target=lambda: client.run_step(step(x=torch.ones(1))))
    thread.start()
    eventually(lambda: bool(steps), "the step runs")
    with pytest.raises(StepError, match="Session was closed"):
        client.close_session("s")
    steps[0](RunStepResult({}, 1))
    thread.join(5)
    client.close()


def test_the_trace_context_travels_with_every_call(
    pair: tuple[Task, Task], client: RemoteMaster
) -> None:
    ps, worker = pair
    context = SpanContext(2**63, 2, 3, 4)
    stub = worker.stub_of(ps)
    stub.register_graph("s", graph(), context, "g")
    arrivals = Arrivals()
    stub.run_graph(RunGraphRequest("s", "h", 1, context), arrivals)
    arrivals.wait()
    assert [c[:2] + c[3:] for c in ps.worker.contexts] == [context[:2] + context[3:]] * 2
