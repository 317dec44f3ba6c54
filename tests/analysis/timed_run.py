"""A near cluster on a clock that moves only by what nodes and links take: every time is known."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tests.analysis.test_gpu_lanes import two_gpus
from tests.fake_gpu import FakeDriver
from tracer.model.cluster import ClusterSpec, DeviceName, TaskName
from tracer.model.graph import Graph, Node
from tracer.model.step import RendezvousKey, SpanContext, trace_of_step
from tracer.model.trace_folder import Manifest
from tracer.ops.kernel import Kernel, OpContext, OpDef
from tracer.ops.registry import lookup
from tracer.record.clock import FakeClock
from tracer.record.manifest import update_manifest, write_manifest
from tracer.record.recorder import RUN_ID, Recorder
from tracer.record.sink import Sink
from tracer.runtime.interfaces import Received, RecvDone
from tracer.runtime.near_cluster import NearCluster
from tracer.runtime.session import Session, Tracing
from tracer.runtime.worker import Worker
from tracer.runtime.worker_env import ExecutorKind
from vizdist.store.trace import Trace, open_trace

WORKER_0 = TaskName("worker", 0)


@dataclass(frozen=True)
class Timed:
    """ns by node, and of every value on its way from one task (first) to another."""

    nodes: Mapping[str, int]
    links: Mapping[tuple[str, str], int]


class _Link:
    """A worker over links that take their time."""

    def __init__(self, worker: Worker, clock: FakeClock, timed: Timed) -> None:
        self._worker, self._clock, self._timed = worker, clock, timed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._worker, name)

    def recv_tensor(
        self, step_id: int, key: str, request_id: int, context: SpanContext, done: RecvDone
    ) -> None:
        arrived = partial(self._arrived, key, done)
        self._worker.recv_tensor(step_id, key, request_id, context, arrived)

    def _arrived(self, text: str, done: RecvDone, received: Received) -> None:
        key = RendezvousKey.parse(text)
        source, target = (
            str(DeviceName.parse(name).task_name) for name in (key.src_device, key.dst_device)
        )
        self._clock.advance(self._timed.links.get((source, target), 0))
        done(received)


class _Cluster(NearCluster):
    def __init__(self, spec: ClusterSpec, timed: Timed, clock: FakeClock, **options: Any) -> None:
        self._timed, self._clock = timed, clock
        super().__init__(spec, clock=clock, lookup=partial(_taking, timed, clock), **options)

    def _stub(self, task: TaskName, _address: str) -> Any:
        return _Link(self.workers[task], self._clock, self._timed)


def _taking(timed: Timed, clock: FakeClock, name: str) -> OpDef:
    """The registry, with kernels that take their node's time."""
    op = lookup(name)

    def bind(node: Node, context: OpContext) -> Kernel:
        inner = op.bind(node, context)
        took = timed.nodes.get(node.name, 0)

        def kernel(*inputs: Any) -> Any:
            clock.advance(took)
            return inner(*inputs)

        return kernel if took else inner

    return replace(op, bind=bind)


def timed_run(
    folder: Path, graph: Graph, fetch: str, timed: Timed, executor: ExecutorKind = "generated"
) -> Trace:
    """Two steps of a ps and two workers."""
    clock = FakeClock()
    spec = ClusterSpec.of_counts(ps=1, worker=2)
    with (
        recording(folder, clock) as (recorder_of, tracing),
        _Cluster(spec, timed, clock, recorder_of=recorder_of, executor=executor) as cluster,
        Session(cluster.masters[WORKER_0], graph, tracing) as session,
    ):
        session.run(fetch)
        session.run(fetch)
    return open_trace(folder / "x.trace")


def gpu_run(folder: Path, took: int, launch: int, copy: int) -> Trace:
    """Two steps over two GPUs of one worker, on which `Neg` takes its time."""
    driver = FakeDriver()
    driver.copy_ns = copy
    with (
        recording(folder, driver.clock) as (recorder_of, tracing),
        NearCluster(
            ClusterSpec.of_counts(worker=1),
            devices={WORKER_0: ("cuda:0", "cuda:0")},
            recorder_of=recorder_of,
            clock=driver.clock,
            lookup=driver.taking("Neg", took, launch_ns=launch),
            driver=driver,
        ) as cluster,
        Session(cluster.masters[WORKER_0], two_gpus(), tracing) as session,
    ):
        session.run("square:0", {"x:0": torch.ones(3)})
        session.run("square:0", {"x:0": torch.ones(3)})
    return open_trace(folder / "x.trace")


@contextmanager
def recording(
    folder: Path, clock: FakeClock, client: str = "client"
) -> Iterator[tuple[Callable[[TaskName], Recorder], Tracing]]:
    """Gives recorders and a client's tracing; what they recorded is then in `x.trace`.

    `client` is the task that the client's spans are told of.
    """
    out, scratch = folder / "x.trace", folder / "scratch"
    for made in (out, scratch):
        made.mkdir(parents=True)
    write_manifest(out, Manifest("r", started_ns=clock.now_ns()))
    recorders: dict[str, Recorder] = {}

    def recorder_of(task: TaskName | str) -> Recorder:
        if str(task) not in recorders:
            recorders[str(task)] = Recorder(scratch, str(task), {RUN_ID: "r"}, clock=clock)
        return recorders[str(task)]

    run = trace_of_step("r", "run", 0)
    contexts = partial(trace_of_step, "r", "run")
    yield recorder_of, Tracing(recorder_of(client), run, contexts)
    for recorder in recorders.values():
        recorder.close()
    sink = Sink(out, scratch)
    sink.turn(clock.now_ns(), at_end=True)
    sink.tell()
    sink.close()
    update_manifest(out, lambda manifest: setattr(manifest, "outcome", "done"))
