"""Calls between two served tasks and from a client, over each kind of stream there is."""

import signal
import threading
import time
from collections.abc import Iterator

import psutil
import pytest
import torch

from tests.rpc.fake_worker import numbered
from tests.rpc.tasks import (
    Arrivals,
    Task,
    eventually,
    pull,
    pull_sent,
    received,
    without_shared_memory,
)
from tracer.model.cluster import ClusterSpec
from tracer.model.collective import Arrival
from tracer.model.graph import Graph, Literal, Node
from tracer.model.step import SpanContext
from tracer.rpc.channels import NOT_SAMPLED
from tracer.rpc.master_stub import RemoteMaster
from tracer.runtime import turn
from tracer.runtime.interfaces import (
    RequestNames,
    RunCallableRequest,
    RunGraphRequest,
    RunGraphResult,
    RunStepRequest,
    RunStepResult,
    SessionOptions,
    StepDone,
    StepError,
)

pytestmark = pytest.mark.usefixtures("clean")


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
    stub.create_worker_session("apart", cluster, True)
    assert ps.worker.isolated == ["apart"]
    stub.cleanup_all(("c",))
    assert ps.worker.emptied == ["c"]


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


@pytest.fixture
def huge() -> torch.Tensor:
    """One byte more than can be sent, in memory that nobody touches."""
    return torch.empty(2**31 + 1, dtype=torch.uint8)


TOO_LARGE = (
    "a tensor of shape [2147483649] and torch.uint8 has 2147483649 bytes; "
    "at most 2147483648 (2 GiB) can be sent. Split it, for example by rows"
)


def test_a_more_than_two_gib_tensor_is_refused_by_name_before_any_copy(
    pair: tuple[Task, Task], client: RemoteMaster, huge: torch.Tensor
) -> None:
    ps, worker = pair
    stub, before = worker.stub_of(ps), psutil.Process().memory_info().rss
    ps.worker.table(1).send("w;0:0", huge)
    assert pull(stub, "w;0:0").error().message == f"w;0:0: {TOO_LARGE}"
    run = Arrivals()
    stub.run_graph(RunGraphRequest("s", "any", 3, NOT_SAMPLED, {"x;0:0": huge}), run)
    assert run.error().message == f"x;0:0: {TOO_LARGE}"
    with pytest.raises(StepError) as fed:
        client.run_step(step(x=huge))
    assert fed.value.message == f"x: {TOO_LARGE}"
    worker.master.on_step = lambda _, done: done(RunStepResult({"y:0": huge}, 1))
    with pytest.raises(StepError) as fetched:
        client.run_step(step())
    assert fetched.value.message == f"y:0: {TOO_LARGE}"
    assert psutil.Process().memory_info().rss - before < 1 << 30


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


def test_a_rank_that_is_refused_is_told(pair: tuple[Task, Task]) -> None:
    ps, worker = pair
    arrival = Arrival(
        "all_reduce", "sum", (), 0, 1, 100, 7, 5, 3, "float32",
        (2,), "w", "Add", "Id", "ring", True, -1, 10.0,
    )  # fmt: skip
    told = Arrivals()
    for each in (arrival, arrival._replace(dtype="")):
        worker.stub_of(ps).complete_instance(each, NOT_SAMPLED, told)
    execution, error = told.wait(2)
    assert execution.incarnations == (7,)
    assert (error.code, error.message, error.node) == ("INVALID_ARGUMENT", "no dtype", "sum")


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


def test_all_that_a_client_asks_of_a_session_reaches_its_master(
    pair: tuple[Task, Task], client: RemoteMaster
) -> None:
    filters = SessionOptions(("/job:ps",))
    assert client.create_session(graph(), NOT_SAMPLED, filters) == "session of 1 nodes /job:ps"
    assert client.extend_session("s", tuple(graph().nodes), 4) == 5
    names = RequestNames(("x:0",), ("y:0",), ("train",))
    assert client.partial_run_setup("s", names) == "x:0/y:0/train"
    handle = client.make_callable("s", names)
    result = client.run_callable(RunCallableRequest("s", handle, (numbered(2),), NOT_SAMPLED))
    assert result.fetched["y0"].tolist() == [0, 2]
    assert (result.step_id, result.was_made) == (handle, False)
    client.release_callable("s", handle)
    client.reset(("c",), ("/job:worker",))
    master = pair[1].master
    assert (master.released, master.emptied) == ([handle], ["c", "/job:worker"])
    client.run_step(step(x=numbered(1)))
    ids = [*master.request_ids, master.requests[-1].request_id]
    assert len({*ids}) == 4  # each request that is sent has an id of its own
    assert all(ids)


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


def test_a_client_waits_for_a_session_as_long_as_its_master_does_for_the_tasks(
    pair: tuple[Task, Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And longer than for other rare calls: the master says which task did not answer."""

    def create(graph: Graph, *_: object) -> str:
        del graph
        time.sleep(0.3)
        raise StepError("UNAVAILABLE", "ps:0 did not answer", task="worker:0")

    monkeypatch.setattr(pair[1].master, "create_session", create)
    monkeypatch.setattr("tracer.rpc.master_stub.CALL_S", 0.1)
    monkeypatch.setattr("tracer.rpc.master_stub.MORE_S", 0.2)
    for connect_s, text in ((1.0, "ps:0 did not answer"), (-0.1, "worker:0 at .*: .*")):
        client = pair[1].dial(connect_s=connect_s)
        with pytest.raises(StepError, match=text) as info:
            client.create_session(graph(), NOT_SAMPLED)
        assert ("ps:0" in info.value.message) == (connect_s > 0)
        client.close()


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Heard, as on a terminal: a shell that starts tests in the background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
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
