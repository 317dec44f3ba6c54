"""A run of one ps and two workers, written by the real recorder, whose every number is known."""

from pathlib import Path

from tracer.model.graph import Graph, Input, Node, Partition, TensorSpec
from tracer.model.graph_table import chunks_of_graph
from tracer.model.step import RendezvousKey, SpanContext, trace_of_step
from tracer.model.trace_folder import Flag, Manifest, TaskRecord
from tracer.record.clock import FakeClock
from tracer.record.manifest import update_manifest, write_manifest
from tracer.record.recorder import Recorder
from tracer.record.sink import Sink
from vizdist.store.trace import Trace, open_trace

EPOCH = 1_700_000_000_000_000_000
PS = "/job:ps/replica:0/task:0/device:CPU:0"
W_BYTES = 64
LOSSES = (2.5, 2.0, 1.5)
STEP_NS = 10_000
SLOW_STEP = 3  #: on worker:1, whose op then runs SLOW_NS longer
SLOW_NS = 9_000


def worker_device(index: int) -> str:
    return f"/job:worker/replica:0/task:{index}/device:CPU:0"


def sample_run(folder: Path, **manifest: object) -> Trace:
    """Worker 1 writes after worker 0 what it read before: its every update missed one version."""
    folder.mkdir()
    tasks = [TaskRecord("launcher", 1, outcome="done"), TaskRecord("collector", 2, outcome="done")]
    write_manifest(folder, Manifest("run-1", workload="digits-mlp", tasks=tasks))
    scratch = folder.parent / f"{folder.name}-scratch"
    scratch.mkdir()
    clock = FakeClock(EPOCH)
    ps, *workers = (
        Recorder(scratch, task, clock=clock) for task in ("ps:0", "worker:0", "worker:1")
    )
    for index, worker in enumerate(workers):
        _record_graph(worker, index)
        for number in (1, 2, 3):
            _record_step(worker, ps, index, number)
    return ended(folder, scratch, **manifest)


def ended(folder: Path, scratch: Path, **manifest: object) -> Trace:
    """The trace of what recorders left in `scratch`: all tasks are done, as is the run."""
    sink = Sink(folder, scratch)
    sink.turn(EPOCH + 1_000_000, at_end=True)
    sink.tell()
    sink.close()

    def tell(told: Manifest) -> None:
        for task in told.tasks:
            task.outcome = "done"
        for name, value in ({"outcome": "done"} | manifest).items():
            setattr(told, name, value)

    update_manifest(folder, tell)
    return open_trace(folder)


def _graph(index: int) -> Graph:
    """A variable on the ps, read by the worker, whose gradient goes back; one control edge."""
    value, device = (TensorSpec("float32", (4, 4)),), worker_device(index)
    send = {"client_terminated": False, "edge_kind": "data"}
    return Graph(
        [
            Node("w", "VarHandleOp", device=PS),
            Node("w/Read", "ReadVariableOp", (Input("w"),), device=PS, specs=value),
            Node("mm", "MatMul", (Input("w/Read"),), device=device, specs=value),
            Node("update_w", "ResourceApplyGradientDescent", (Input("w"), Input("mm")), device=PS),
            Node("s1", "_Send", (Input("w/Read"),), device=PS, attrs=send),
            Node("s2", "_Send", (Input("mm"),), device=device, attrs=send),
            Node("s3", "_Send", device=device, attrs=send | {"edge_kind": "control"}),
        ]
    )


def _record_graph(worker: Recorder, index: int) -> None:
    graph, context = _graph(index), trace_of_step("run-1", f"worker:{index}", 0)
    stages: dict[str, Graph | list[Partition]] = {
        "full": graph,
        "pruned": graph,
        "placed": graph,
        "device": [Partition(PS, graph)],
    }
    for stage, content in stages.items():
        for chunk in chunks_of_graph(f"g{index}", stage, content):
            with worker.span("graph.chunk", context, name=stage) as span:
                for name, value in chunk.items():
                    span.set(name, value)


def _record_step(worker: Recorder, ps: Recorder, index: int, number: int) -> None:
    """100-200 wait for w, 200-300 its way, 300-1000 mm, 1000-1200 back, 1200-1300 update."""
    at = EPOCH + number * 3 * STEP_NS + index * 50
    slow = SLOW_NS if (index, number) == (1, SLOW_STEP) else 0
    context = trace_of_step("run-1", f"worker:{index}", number)
    write = worker.writer()
    root = write.begin(worker.site("session.run"), context, at)
    worker.annotate(root, {"vizdist.loss": LOSSES[number - 1] + index})
    step = context.under(root)
    partition = worker.site(
        "partition.run", name="CPU:0", attributes={"vizdist.graph.id": f"g{index}"}
    )
    write.record(partition, step, at + 100, at + 1200 + slow)
    _transfer(ps, worker, step, PS, worker_device(index), "edge_1_w/Read", at + 200)
    mm = worker.site("op.run", name="mm", attributes={"vizdist.op": "MatMul"})
    write.record(mm, step, at + 300, at + 1000 + slow, ready=at + 300, num_bytes=W_BYTES)
    _transfer(worker, ps, step, worker_device(index), PS, "edge_2_mm", at + 1100 + slow)
    _versions(ps, step, at + slow, 2 * number + index)
    write.end(at, at + 1400 + slow)


def _versions(ps: Recorder, step: SpanContext, at: int, version: int) -> None:
    """Both workers of a step read version 2n; worker 0 writes 2n + 1, worker 1 writes 2n + 2."""
    read = ps.site("op.run", name="w/Read", attributes={"vizdist.op": "ReadVariableOp"})
    update = ps.site(
        "op.run", name="update_w", attributes={"vizdist.op": "ResourceApplyGradientDescent"}
    )
    ps.writer().record(read, step, at + 150, at + 160, ready=at + 150, extra=version // 2 * 2)
    ps.writer().record(update, step, at + 1200, at + 1300, ready=at + 1200, extra=version + 1)


def _transfer(
    source: Recorder, target: Recorder, step: SpanContext, src: str, dst: str, edge: str, at: int
) -> None:
    """A value that exists at `at`, asked for 100 before, there 100 later."""
    key = str(RendezvousKey(src, 1, dst, edge))
    node = edge.split("_", 2)[2]
    sent = source.writer().record(
        source.site("rendezvous.send", name=f"{node}_S", attributes={"vizdist.edge.kind": "data"}),
        step, at - 10, at, num_bytes=W_BYTES, key=source.key(key),
    )  # fmt: skip
    target.writer().record(
        target.site("rendezvous.recv", name=f"{node}_R", attributes={"vizdist.edge.kind": "data"}),
        step, at - 100, at + 100, num_bytes=W_BYTES, key=target.key(key), link=sent, extra=100,
        flags=Flag.REMOTE,
    )  # fmt: skip
