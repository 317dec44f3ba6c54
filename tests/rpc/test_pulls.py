"""Tensors that one task pulls from another, over each kind of stream there is."""

import threading
from collections.abc import Callable

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
from tests.rpc.test_tensor_codec import DTYPES
from tracer.rpc.channels import NOT_SAMPLED
from tracer.rpc.frames import CHUNK_BYTES, LARGE_BYTES
from tracer.rpc.local_wire import LocalConnection
from tracer.runtime.interfaces import RunGraphRequest

pytestmark = pytest.mark.usefixtures("clean")

MANY = 5000  #: pulls at once


def test_five_thousand_pulls_wait_without_a_thread_of_their_own(pair: tuple[Task, Task]) -> None:
    ps, worker = pair
    stub = worker.stub_of(ps)
    received(pull_sent(stub, ps, "warm"))
    before, here = threading.active_count(), psutil.Process()
    threads = here.num_threads()
    waiting = [pull(stub, f"k{i}") for i in range(MANY)]
    eventually(lambda: len(ps.worker.table(1).unsent()) == MANY, "all pulls wait")
    assert threading.active_count() <= before
    assert here.num_threads() <= threads + 4  # gRPC may start some of its own
    for i in reversed(range(MANY)):
        ps.worker.table(1).send(f"k{i}", torch.tensor(i))
    values = [received(arrivals).tensor for arrivals in waiting]
    assert [int(value) for value in values if value is not None] == list(range(MANY))


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


VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "column": lambda t: t[:, 1],
    "transposed": torch.t,
    "every other": lambda t: t[::2, 1::2],
    "expanded": lambda t: t[0].expand(7, -1),
    "one number": lambda t: t[1, 1],
    "no rows": lambda t: t[:0],
    "no columns": lambda t: t[:, :0],
}


@pytest.mark.parametrize("rows", [4, 20_000], ids=["small", "large"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_arrives_as_what_it_shows(pair: tuple[Task, Task], view: str, rows: int) -> None:
    ps, worker = pair
    tensor = VIEWS[view](torch.arange(rows * 6, dtype=torch.float32).reshape(rows, 6))
    ps.worker.table(1).send("k", tensor)
    stub = worker.stub_of(ps)
    item = received(pull(stub, "k"))
    assert item.tensor is not None
    assert torch.equal(item.tensor, tensor)
    arrivals = Arrivals()
    stub.run_graph(RunGraphRequest("s", "any", 3, NOT_SAMPLED, {"f": tensor}), arrivals)
    assert torch.equal(arrivals.wait()[0].fetched["f"], tensor)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_arrives_small_and_large(pair: tuple[Task, Task], dtype: torch.dtype) -> None:
    ps, worker = pair
    tensors = [torch.randn(shape).mul(9).to(dtype) for shape in ((), (3, 5), (70_001,), (0, 3))]
    for i, tensor in enumerate(tensors):
        ps.worker.table(1).send(str(i), tensor)
    stub = worker.stub_of(ps)
    for i, tensor in enumerate(tensors):
        item = received(pull(stub, str(i)))
        assert item.tensor is not None
        assert item.tensor.dtype is dtype
        assert torch.equal(item.tensor, tensor)


def test_what_was_received_may_be_written_and_outlives_the_step(pair: tuple[Task, Task]) -> None:
    ps, worker = pair
    stub, kept = worker.stub_of(ps), []
    for i in range(4):
        ps.worker.table(1).send("k", torch.full((50_000,), float(i)))
        item = received(pull(stub, "k"))
        assert item.tensor is not None
        kept.append(item.tensor[1:].add_(10))
    assert [int(tensor[0]) for tensor in kept] == [10, 11, 12, 13]
    assert all(bool((tensor == tensor[0]).all()) for tensor in kept)


def test_blocks_come_back_when_their_tensors_die(pair: tuple[Task, Task]) -> None:
    ps, worker = pair
    stub = worker.stub_of(ps)
    for i in range(3):
        ps.worker.table(1).send(str(i), torch.ones(100_000))
        received(pull(stub, str(i)))
    connection = ps.transport.open_connection(worker.server.address)
    if isinstance(connection, LocalConnection) and connection.pipe.slab is not None:
        slab = connection.pipe.slab
        eventually(lambda: slab.num_taken == 0, "the receiver says that it has read them")


def test_more_than_the_shared_memory_holds_goes_by_the_stream(pair: tuple[Task, Task]) -> None:
    ps, worker = pair
    stub = worker.stub_of(ps)
    received(pull_sent(stub, ps, "warm"))
    without_shared_memory(ps, worker)
    for name, size in (("middle", LARGE_BYTES // 4 - 16), ("large", 3 << 20)):
        ps.worker.table(1).send(name, numbered(size))
        item = received(pull(stub, name))
        assert item.tensor is not None
        assert torch.equal(item.tensor, numbered(size))
