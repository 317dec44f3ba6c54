"""A trace folder that the real recorder and the collector's sink write while the test looks on."""

import os
import socket
from pathlib import Path

from tracer.model.graph import Graph, Input, Node
from tracer.model.graph_table import chunks_of_graph
from tracer.model.step import trace_of_step
from tracer.model.trace_folder import Manifest, TaskRecord
from tracer.record.clock import FakeClock
from tracer.record.manifest import update_manifest, write_manifest
from tracer.record.recorder import Recorder
from tracer.record.sink import Sink

EPOCH = 1_700_000_000_000_000_000
STEP_NS = 10_000


class GrowingRun:
    """One worker that trains: `step` records a step, `turn` is the collector's, `end` the run's."""

    def __init__(self, folder: Path, steps: int = 40) -> None:
        folder.mkdir()
        scratch = folder.parent / f"{folder.name}-scratch"
        scratch.mkdir()
        tasks = [TaskRecord("worker:0", os.getpid())]
        host = socket.gethostname()
        manifest = Manifest("run-1", host=host, started_ns=EPOCH, steps=steps, tasks=tasks)
        write_manifest(folder, manifest)
        self.folder = folder
        self.steps = 0
        self._recorder = Recorder(scratch, "worker:0", clock=FakeClock(EPOCH))
        self._sink = Sink(folder, scratch)

    def register(self, graph_id: str) -> None:
        """The chunks of a graph of two nodes."""
        context = trace_of_step("run-1", graph_id, 0)
        graph = Graph([Node("w", "VarHandleOp"), Node("mm", "MatMul", (Input("w"),))])
        for chunk in chunks_of_graph(graph_id, "full", graph):
            with self._recorder.span("graph.chunk", context, name="full") as span:
                for name, value in chunk.items():
                    span.set(name, value)

    def step(self, num_ops: int = 3) -> None:
        """A root with its loss and some ops in it; lanes appear as they are used."""
        self.steps += 1
        at = EPOCH + self.steps * STEP_NS
        context = trace_of_step("run-1", "run", self.steps)
        write = self._recorder.writer()
        root = self._recorder.site("session.run", name="step")
        inner = context.under(write.begin(root, context, at))
        op = self._recorder.site("op.run", name="mm", attributes={"vizdist.op": "MatMul"})
        for number in range(num_ops):
            begin = at + 100 + number * 200
            write.record(op, inner, begin, begin + 100, ready=begin)
        write.end(at, at + 9000)

    def turn(self) -> None:
        self._sink.turn(EPOCH + self.steps * STEP_NS)
        self._sink.tell()

    def end(self, outcome: str = "done", error: str = "") -> None:
        self._recorder.close()
        self._sink.turn(EPOCH + self.steps * STEP_NS, at_end=True)
        self._sink.close()
        self._sink.tell()

        def close(manifest: Manifest) -> None:
            manifest.outcome, manifest.error = outcome, error

        update_manifest(self.folder, close)
