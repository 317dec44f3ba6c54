"""GPU devices of a task: streams of their own, values in order, ops timed where they ran.

The GPUs are fake and the values real: kernels compute on the CPU and take time on a fake stream.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from tests.clusters import KINDS, TestCluster, running_cluster
from tests.fake_gpu import FakeDriver
from tests.fakes import Recording, SpanData, check, recorded
from tests.golden_cases import CASES, CONTROL_FLOW_CASES
from tests.golden_on_gpus import check_step_on_gpus
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.graph import Graph
from tracer.model.graph_builder import GraphBuilder
from tracer.model.step import trace_of_step
from tracer.runtime.devices import make_devices
from tracer.runtime.interfaces import StepError
from tracer.runtime.session import DirectSession, Tracing
from tracer.runtime.worker_env import ExecutorKind

MS = 1_000_000
US = 1_000
EXECUTORS: tuple[ExecutorKind, ...] = ("generated", "queue")
PS_0, WORKER_0 = TaskName("ps", 0), TaskName("worker", 0)
CLUSTER = ClusterSpec.of_counts(ps=1, worker=1)
TWO_GPUS = ("cuda:0", "cuda:0")
X = torch.tensor([1.0, 2.0, 3.0])

each_executor = pytest.mark.parametrize("executor", EXECUTORS)


def test_gpus_stand_beside_a_cpu_and_share_a_physical_device() -> None:
    devices = make_devices(WORKER_0, TWO_GPUS, driver=FakeDriver())
    assert [device.name.short for device in devices] == ["CPU:0", "GPU:0", "GPU:1"]
    assert [device.attributes.physical for device in devices] == ["cpu", "cuda:0", "cuda:0"]
    _, one, other = devices
    assert one.gpu is not None
    assert other.gpu is not None
    assert one.gpu.compute is not other.gpu.compute
    assert one.incarnation != other.incarnation


def chain(job: str = "localhost") -> Graph:
    """x is fed at CPU:0, negated twice on GPU:0, squared on GPU:1, fetched at CPU:0."""
    b = GraphBuilder()
    with b.device(f"/job:{job}/task:0/device:GPU:0"):
        x = b.placeholder([3], name="x")
        minus = b.op("Neg", x, name="minus", T="float32")
        again = b.op("Neg", minus, name="again", T="float32")
    with b.device(f"/job:{job}/task:0/device:GPU:1"):
        b.op("Square", again, name="square", T="float32")
    return b.graph()


@contextmanager
def direct(
    graph: Graph, driver: FakeDriver, executor: ExecutorKind = "generated"
) -> Iterator[tuple[DirectSession, Recording]]:
    """A traced task without a cluster, with two logical GPUs; its spans are checked at the end."""
    with recorded("worker:0", driver.clock) as recording:
        run = trace_of_step("t", "run", 0)
        tracing = Tracing(recording.recorder, run, lambda n: trace_of_step("t", "run", n))
        with DirectSession(graph, TWO_GPUS, tracing, executor=executor, driver=driver) as session:
            yield session, recording
        assert not check(recording.spans(at_end=True))


@each_executor
def test_each_crossing_waits_once_and_holds_once(executor: ExecutorKind) -> None:
    driver = FakeDriver()
    with direct(chain(), driver, executor) as (session, _):
        for steps in (1, 2, 3):
            assert session.run("square:0", {"x:0": X}).equal(X * X)
            crossings = 3 * steps  # host to GPU:0, GPU:0 to GPU:1, GPU:1 to host
            assert (driver.num_waits, driver.num_held) == (crossings, crossings)


@each_executor
def test_without_tracing_values_cross_alike(executor: ExecutorKind) -> None:
    driver = FakeDriver()
    with DirectSession(chain(), TWO_GPUS, executor=executor, driver=driver) as session:
        assert session.run("square:0", {"x:0": X}).equal(X * X)
    assert (driver.num_waits, driver.num_held) == (3, 3)


@each_executor
def test_within_a_device_nothing_waits(executor: ExecutorKind) -> None:
    b = GraphBuilder()
    with b.device("/job:localhost/task:0/device:GPU:0"):
        value = b.const([1.0, 2.0, 3.0])
        for number in range(5):
            value = b.op("Neg", value, name=f"n{number}", T="float32")
        b.op("NoOp", control_inputs=[value], name="done")
    driver = FakeDriver()
    with direct(b.graph(), driver, executor) as (session, _):
        session.run("done")
        assert (driver.num_waits, driver.num_held) == (0, 0)


def named(recording: Recording, kind: str, name: str) -> SpanData:
    (span,) = (span for span in recording.of(kind) if span.name == name)
    return span


@each_executor
def test_the_launch_is_short_and_the_op_as_long_as_its_gpu_took(executor: ExecutorKind) -> None:
    driver = FakeDriver()
    lookup = driver.taking("Neg", 7 * MS, launch_ns=20 * US)
    with on_worker(driver, lookup=lookup, executor=executor) as cluster:
        cluster.session(chain("worker")).run("square:0", {"x:0": X})
        cluster.leave()
        for device in cluster.workers[WORKER_0].env.devices:
            device.close()
        assert cluster.recording is not None
        launch = named(cluster.recording, "op.launch", "again")
        run = named(cluster.recording, "op.run", "again")
        first = named(cluster.recording, "op.run", "minus")
        part = next(s for s in cluster.recording.of("partition.run") if s.span == launch.parent)
    assert launch.end - launch.start == 20 * US
    assert run.end - run.start == 7 * MS
    assert first.end - first.start == 7 * MS + 20 * US, "an idle stream takes the launch for work"
    assert run.start == first.end
    assert run.parent == launch.span
    assert run.ready == launch.start
    assert part.end >= run.end, "a partition is over when its GPU is"
    assert (launch.lane, run.lane) == ("launch GPU:0", "stream GPU:0")
    for span in (launch, run, part):
        assert span.attributes["vizdist.device.physical"] == "cuda:0"


@contextmanager
def on_worker(driver: FakeDriver, kind: str = "near", **options: Any) -> Iterator[TestCluster]:
    with running_cluster(
        kind,
        CLUSTER,
        devices={WORKER_0: TWO_GPUS},
        driver=driver,
        clock=driver.clock,
        **options,
    ) as cluster:
        yield cluster


def variable_on(device: str) -> Graph:
    """`v` on `device` is [1, 1, 1] after `init`; `step` adds the negated `x` on GPU:0."""
    b = GraphBuilder()
    with b.device(device):
        v = b.op("VarHandleOp", name="v", dtype="float32", shape=[3])
        b.op("AssignVariableOp", v, b.const([1.0, 1.0, 1.0]), name="init", dtype="float32")
    with b.device("/job:worker/task:0/device:GPU:0"):
        x = b.placeholder([3], name="x")
        delta = b.op("Neg", x, name="delta", T="float32")
    with b.device(device):
        b.op("AssignAddVariableOp", v, delta, name="step", dtype="float32")
        b.op("ReadVariableOp", v, name="read", dtype="float32")
    return b.graph()


@each_executor
@pytest.mark.parametrize("kind", KINDS)
def test_what_another_task_asks_for_is_copied_and_then_sent(
    executor: ExecutorKind, kind: str
) -> None:
    driver = FakeDriver()
    driver.copy_ns = 3 * MS
    with on_worker(driver, kind, executor=executor) as cluster:
        session = cluster.session(variable_on("/job:ps/task:0"))
        session.run("init")
        session.run("step", {"x:0": X})
        assert session.run("read:0").equal(torch.tensor([0.0, -1.0, -2.0]))
        cluster.leave()
        for device in cluster.workers[WORKER_0].env.devices:
            device.close()
        assert cluster.recording is not None
        copies = cluster.recording.of("copy.run")
        owners = {span.span: span for span in cluster.recording.spans()}
    assert {copy.end - copy.start for copy in copies} == {3 * MS}
    assert [owners[copy.parent].kind for copy in copies] == ["rendezvous.recv", "rendezvous.send"]
    assert {copy.lane for copy in copies} == {"copies GPU:0"}
    assert {copy.num_bytes for copy in copies} == {12}
    there, back = copies
    assert owners[back.parent].kind == "rendezvous.send"
    [arrived] = [span for span in owners.values() if span.link == back.parent]
    assert arrived.end >= back.end
    assert there.start <= back.start


@each_executor
def test_an_update_tells_the_version_with_the_op_that_ran(executor: ExecutorKind) -> None:
    driver = FakeDriver()
    with on_worker(driver, executor=executor) as cluster:
        session = cluster.session(variable_on("/job:worker/task:0/device:GPU:1"))
        session.run("init")
        session.run("step", {"x:0": X})
        cluster.leave()
        for device in cluster.workers[WORKER_0].env.devices:
            device.close()
        assert cluster.recording is not None
        step = named(cluster.recording, "op.run", "step")
        launch = named(cluster.recording, "op.launch", "step")
    assert (step.extra, launch.extra) == (2, 0)


@each_executor
def test_a_gpu_that_fails_after_its_launches_fails_the_step(executor: ExecutorKind) -> None:
    driver = FakeDriver()
    with direct(chain(), driver, executor) as (session, _):
        session.run("square:0", {"x:0": X})
        driver.fails_with = RuntimeError("CUDA error: device-side assert triggered")
        with pytest.raises(StepError, match=r"cuda:0.*device-side assert") as caught:
            session.run("square:0", {"x:0": X})
        driver.fails_with = None
    assert caught.value.code == "INTERNAL"


@each_executor
def test_shapes_and_strings_stay_on_the_host(executor: ExecutorKind) -> None:
    b = GraphBuilder()
    with b.device("/job:localhost/task:0/device:GPU:0"):
        x = b.placeholder([3], name="x")
        flat = b.op("Reshape", x, b.const([3, 1], "int32"), name="flat", T="float32")
        shape = b.op("Shape", flat, name="shape", T="float32")
        b.op("Fill", shape, b.const(2.0), name="filled", T="float32")
        b.op("Identity", b.const("text", "string"), name="text", T="string")
    driver = FakeDriver()
    with direct(b.graph(), driver, executor) as (session, _):
        filled = session.run("filled:0", {"x:0": X})
        assert filled.equal(torch.full((3, 1), 2.0))
        crossings = driver.num_waits
        assert crossings == 2, "what is fed, what is fetched"
        session.run("text:0")
        assert driver.num_waits == crossings


def test_a_shape_that_was_computed_on_the_gpu_is_brought_to_the_host() -> None:
    b = GraphBuilder()
    with b.device("/job:localhost/task:0/device:GPU:0"):
        x = b.placeholder([3], name="x")
        half = b.placeholder([2], "int32", name="half")
        shape = b.op("AddV2", half, half, name="shape", T="int32")
        b.op("Reshape", x, shape, name="flat", T="float32")
    driver = FakeDriver()
    with direct(b.graph(), driver) as (session, _):
        given = torch.tensor([2, 0], dtype=torch.int32)
        with pytest.raises(StepError, match=r"shape '\[4, 0\]' is invalid"):
            session.run("flat:0", {"x:0": X, "half:0": given})


@each_executor
@pytest.mark.parametrize("case", [*CASES, *CONTROL_FLOW_CASES])
def test_a_step_on_gpus_gives_what_tensorflow_gave(case: str, executor: ExecutorKind) -> None:
    driver = FakeDriver()
    check_step_on_gpus(case, executor, driver, driver.clock)
    assert driver.num_waits > 0, "nothing went to a GPU"


def test_a_task_that_ends_tells_how_its_clocks_stood() -> None:
    driver = FakeDriver()
    with recorded("worker:0", driver.clock) as recording:
        for device in make_devices(WORKER_0, TWO_GPUS, recording.recorder, driver):
            device.close()
        anchors = recording.of("device.anchor")
    assert sorted(span.name for span in anchors) == ["GPU:0", "GPU:0", "GPU:1", "GPU:1"]
    assert {span.attributes["vizdist.device.physical"] for span in anchors} == {"cuda:0"}
