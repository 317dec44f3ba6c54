"""A trace folder that the real recorder and the collector's sink wrote, without processes."""

from pathlib import Path

from tracer.model.graph import Graph, Input, Node, Partition
from tracer.model.graph_table import chunks_of_graph
from tracer.model.step import trace_of_step
from tracer.model.trace_folder import Flag, Manifest
from tracer.record.clock import FakeClock
from tracer.record.manifest import update_manifest, write_manifest
from tracer.record.recorder import Recorder
from tracer.record.sink import Sink

EPOCH = 1_700_000_000_000_000_000
KEY = (
    "/job:ps/replica:0/task:0/device:CPU:0;0000000000000001;"
    "/job:worker/replica:0/task:0/device:CPU:0;edge_1_w;0:0"
)

CLIENT_GRAPH = Graph([Node("w", "VarHandleOp"), Node("mm", "MatMul", (Input("w"),))])


def record_trace(folder: Path, num_steps: int = 3) -> Path:
    """Two tasks, some steps with ops, a linked recv, an RPC pair, an error, an unfinished span."""
    folder.mkdir()
    write_manifest(folder, Manifest("run-1", started_ns=EPOCH))
    scratch = folder.parent / "scratch"
    scratch.mkdir()
    clock = FakeClock(EPOCH)
    worker = Recorder(scratch, "worker:0", clock=clock)
    ps = Recorder(scratch, "ps:0", clock=clock)
    _record_graph(worker)
    for number in range(1, num_steps + 1):
        _record_step(worker, ps, EPOCH + number * 10_000, number)
    worker.open(worker.site("rpc.client", name="RecvTensor"), trace_of_step("run-1", "run", 9))
    sink = Sink(folder, scratch)
    sink.turn(EPOCH + 100_000, at_end=True)
    sink.tell()
    sink.close()
    update_manifest(folder, lambda manifest: setattr(manifest, "outcome", "done"))
    return folder


def _record_graph(worker: Recorder) -> None:
    context = trace_of_step("run-1", "run", 0)
    cuts = [Partition("/job:ps/replica:0/task:0", CLIENT_GRAPH)]
    for stage, graph in (("full", CLIENT_GRAPH), ("worker", cuts)):
        for chunk in chunks_of_graph("g1", stage, graph):
            with worker.span("graph.chunk", context, name=stage) as span:
                for name, value in chunk.items():
                    span.set(name, value)


def _record_step(worker: Recorder, ps: Recorder, at: int, number: int) -> None:
    context = trace_of_step("run-1", "run", number)
    write = worker.writer()
    root = write.begin(worker.site("session.run", name=f"step {number}"), context, at)
    inner = context.under(root)
    run = worker.site("partition.run", name="CPU:0", attributes={"vizdist.graph.id": "g1"})
    part = write.begin(run, inner, at + 100)
    mm = worker.site("op.run", name="mm", attributes={"vizdist.op": "MatMul"})
    write.record(mm, inner.under(part), at + 200, at + 400, ready=at + 150)
    write.end(at + 100, at + 500)
    call = worker.open(worker.site("rpc.client", name="RecvTensor"), inner)
    serve = ps.site("rpc.server", name="RecvTensor")
    ps.writer().record(serve, inner.under(call.span), at + 520, at + 560, flags=Flag.DEFERRED)
    send = ps.writer().record(
        ps.site("rendezvous.send", name="w"), inner, at + 510, at + 515, num_bytes=64,
        key=ps.key(KEY),
    )  # fmt: skip
    call.close(end=at + 570)
    recv = worker.site("rendezvous.recv", name="w", attributes={"vizdist.edge.kind": "data"})
    write.record(
        recv, inner, at + 500, at + 600, num_bytes=64, key=worker.key(KEY), link=send, extra=10,
        flags=Flag.REMOTE,
    )  # fmt: skip
    update = worker.site("op.run", name="up", attributes={"vizdist.op": "AssignVariableOp"})
    write.record(update, inner, at + 700, at + 800, ready=at + 700, extra=number)
    with worker.span("data.next", inner) as span:
        span.set("vizdist.batch", 64)
        span.fail(ValueError("no more examples"))
    write.end(at, at + 1000)
