"""Kernels that wait without a thread: they end once, on any thread, and within their step."""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import torch

from tests.clusters import TestCluster, running_cluster
from tests.rpc.tasks import eventually
from tests.runtime.graphs import CLUSTER, PS_0, WORKER_0, WORKER_1
from tests.runtime.loops import at, choice
from tracer.model.graph import Graph, Node
from tracer.model.graph_builder import GraphBuilder
from tracer.ops.kernel import Cancel, Done, Kernel, OpContext, OpDef, OpError
from tracer.ops.registry import lookup
from tracer.runtime import turn
from tracer.runtime.interfaces import StepError
from tracer.runtime.queue_run import QueueRun

Start = Callable[..., TestCluster]


@pytest.fixture(params=["near generated", "near queue", "grpc generated"])
def start_cluster(request: pytest.FixtureRequest) -> Iterator[Start]:
    """Both executors run such kernels."""
    kind, executor = request.param.split()
    with ExitStack() as stack:
        yield lambda spec, **options: stack.enter_context(
            running_cluster(kind, spec, executor=executor, **options)
        )


class Mailbox:
    """`Square` waits until `Neg` gives it one more than what it is asked to negate."""

    def __init__(self) -> None:
        self.dones: list[Done] = []
        self.cancelled = 0

    def lookup(self, name: str) -> OpDef:
        ops = {
            "Square": OpDef("Square", self.bind_wait, is_async=True),
            "Neg": OpDef("Neg", self.bind_give),
        }
        return ops.get(name) or lookup(name)

    def bind_wait(self, _node: Node, _context: OpContext) -> Kernel:
        def wait(done: Done, _: torch.Tensor) -> Cancel:
            self.dones.append(done)
            return lambda: self.cancel(done)

        return wait

    def bind_give(self, _node: Node, _context: OpContext) -> Kernel:
        def give(x: torch.Tensor) -> torch.Tensor:
            for done in self.dones:
                threading.Thread(target=done, args=(x + 1,)).start()
            return -x

        return give

    def cancel(self, done: Done) -> None:
        self.cancelled += 1
        done(error=OpError("CANCELLED", "the mailbox was closed"))


def mail() -> Graph:
    """`got` waits before `given` runs, on one device; `twice` on worker:1 waits for `got`."""
    b = GraphBuilder()
    with b.device(at(PS_0)):
        got = b.op("Square", b.const([5.0], name="letter"), name="got", T="float32")
        b.op("Neg", b.const([7.0]), name="given", T="float32")
    with b.device(at(WORKER_1)):
        b.op("AddV2", got, got, name="twice", T="float32")
    with b.device(at(WORKER_0)):
        b.op("MatMul", b.const([[1.0, 2.0]]), b.const([[1.0]]), name="bad", T="float32")
    return b.graph()


def test_a_kernel_waits_while_others_run(start_cluster: Start) -> None:
    mailbox = Mailbox()
    cluster = start_cluster(CLUSTER, lookup=mailbox.lookup)
    twice, given = cluster.session(mail()).run(["twice:0", "given:0"])
    assert (twice.tolist(), given.tolist()) == ([16.0], [-7.0])
    assert not mailbox.cancelled
    (op,) = (span for span in cluster.spans("op.run") if span.name == "got")
    assert op.num_bytes == 4
    (neg,) = (span for span in cluster.spans("op.run") if span.name == "given")
    assert op.start < neg.start  # it lay open while the other ran
    assert op.end > neg.start


def test_what_a_kernel_tells_other_tasks_leaves_before_more_is_computed(
    start_cluster: Start,
) -> None:
    told: list[str] = []

    def bind_tell(_node: Node, _context: OpContext) -> Kernel:
        def tell(done: Done, x: torch.Tensor) -> None:
            turn.at_end(lambda: told.append("left"))
            turn.run(lambda: done(x))

        return tell

    def bind_compute(_node: Node, _context: OpContext) -> Kernel:
        def compute(x: torch.Tensor) -> torch.Tensor:
            told.append("computed")
            return x

        return compute

    ops = {
        "Square": OpDef("Square", bind_tell, is_async=True),
        "Neg": OpDef("Neg", bind_compute),
    }
    b = GraphBuilder()
    with b.device(at(PS_0)):
        x = b.placeholder([2], name="x")
        b.op("Square", x, name="got", T="float32")
        b.op("Neg", x, name="given", T="float32")
    cluster = start_cluster(CLUSTER, lookup=lambda name: ops.get(name) or lookup(name))
    session = cluster.session(b.graph())
    session.run(["got:0", "given:0"], {"x:0": torch.ones(2)})
    assert told == ["left", "computed"]


def test_what_nobody_waits_for_runs_before_a_kernel_has_ended(start_cluster: Start) -> None:
    """Of one device: what comes before it, beside it, and after it."""
    mailbox = Mailbox()
    b = GraphBuilder()
    with b.device(at(PS_0)):
        start = b.op("Neg", b.const([-5.0]), name="start", T="float32")
        got = b.op("Square", start, name="got", T="float32")
        beside = b.op("AddV2", start, start, name="beside", T="float32")
        with b.control_dependencies([beside]):
            b.op("Neg", b.const([7.0]), name="given", T="float32")
        b.op("AddV2", got, beside, name="after", T="float32")
    session = start_cluster(CLUSTER, lookup=mailbox.lookup).session(b.graph())
    assert session.run(["after:0", "given:0"])[0].tolist() == [18.0]


def test_a_kernel_whose_input_is_dead_is_dead_and_never_begun(start_cluster: Start) -> None:
    mailbox = Mailbox()
    waiting = choice(lambda b, x: b.op("Square", x, name="got", T="float32"))
    session = start_cluster(CLUSTER, lookup=mailbox.lookup).session(waiting)
    feeds = {"pred:0": torch.tensor(False), "x:0": torch.tensor([3.0, 4.0])}
    assert session.run("out:0", feeds).tolist() == [-3.0, -4.0]
    assert not mailbox.dones


def test_only_the_first_end_of_a_kernel_counts(start_cluster: Start) -> None:
    def twice(_node: Node, _context: OpContext) -> Kernel:
        def kernel(done: Done, x: torch.Tensor) -> None:
            done(x)
            done(error=ValueError("it has ended already"))

        return kernel

    def with_twice(name: str) -> OpDef:
        return OpDef(name, twice, is_async=True) if name == "Square" else lookup(name)

    session = start_cluster(CLUSTER, lookup=with_twice).session(mail())
    assert session.run("twice:0").tolist() == [10.0]


def test_what_a_kernel_was_given_is_let_go_when_it_ends(start_cluster: Start) -> None:
    """Its cancel may know it, and knows the end, which knows the cancel: no gc need find that."""
    given: list[weakref.ref[torch.Tensor]] = []

    def bind(_node: Node, _context: OpContext) -> Kernel:
        def kernel(done: Done, x: torch.Tensor) -> Cancel:
            given.append(weakref.ref(x))
            done(x + 1)
            return lambda: done(x)

        return kernel

    def with_giver(name: str) -> OpDef:
        return OpDef(name, bind, is_async=True) if name == "Square" else lookup(name)

    b = GraphBuilder()
    with b.device(at(PS_0)):
        x = b.placeholder([2], name="x")
        b.op("Square", b.op("AddV2", x, x, T="float32"), name="got", T="float32")
    session = start_cluster(CLUSTER, lookup=with_giver).session(b.graph())
    gc.disable()
    try:
        session.run("got:0", {"x:0": torch.ones(2)})
        assert [ref() for ref in given] == [None]
    finally:
        gc.enable()


def queue_runs() -> list[object]:
    return [each for each in gc.get_objects() if issubclass(type(each), QueueRun)]


def test_a_run_from_the_queue_is_let_go_when_it_ends() -> None:
    """No gc need find it, with all values of its step."""
    with running_cluster("near", CLUSTER, executor="queue") as cluster:
        b = GraphBuilder()
        with b.device(at(PS_0)):
            b.op("Neg", b.const([7.0]), name="given", T="float32")
        session = cluster.session(b.graph())
        gc.collect()
        gc.disable()
        try:
            session.run("given:0")
            eventually(lambda: not queue_runs(), "the run is gone")  # from its thread's frames too
        finally:
            gc.enable()


@pytest.mark.parametrize("when", ["at once", "later"])
def test_a_kernel_that_fails_names_its_node(start_cluster: Start, when: str) -> None:
    def failing(_node: Node, _context: OpContext) -> Kernel:
        def kernel(done: Done, _: torch.Tensor) -> None:
            error = OpError("OUT_OF_RANGE", "the queue is closed")
            if when == "at once":
                raise error
            threading.Thread(target=done, kwargs={"error": error}).start()

        return kernel

    def with_failing(name: str) -> OpDef:
        return OpDef(name, failing, is_async=True) if name == "Square" else lookup(name)

    session = start_cluster(CLUSTER, lookup=with_failing).session(mail())
    with pytest.raises(StepError, match="the queue is closed") as failed:
        session.run("twice:0")
    error = failed.value
    assert (error.code, error.task, error.node) == ("OUT_OF_RANGE", "ps:0", "got")


def test_an_error_elsewhere_takes_the_wait_back(start_cluster: Start) -> None:
    mailbox = Mailbox()
    session = start_cluster(CLUSTER, lookup=mailbox.lookup).session(mail())
    with pytest.raises(StepError, match="shapes cannot be multiplied") as failed:
        session.run(["twice:0", "bad:0"])
    assert failed.value.node == "bad"
    assert mailbox.cancelled == len(mailbox.dones) <= 1


def test_a_wait_for_nothing_ends_at_the_step_timeout(start_cluster: Start) -> None:
    mailbox = Mailbox()
    session = start_cluster(CLUSTER, lookup=mailbox.lookup, step_timeout_s=0.3).session(mail())
    with pytest.raises(StepError) as failed:
        session.run("twice")
    assert failed.value.code == "DEADLINE_EXCEEDED"
    assert mailbox.cancelled == 1
