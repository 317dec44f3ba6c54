"""Graphs that strategies built, run on the devices of one task."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from torch import Tensor

from tracer.model.cluster import LOCALHOST, TaskName
from tracer.model.graph import Input
from tracer.model.graph_builder import GraphBuilder
from tracer.model.step import trace_of_step
from tracer.record.recorder import NO_RECORDER
from tracer.runtime.session import Session
from tracer.server import LocalServer, ServerConfig

DEVICES = [str(TaskName(LOCALHOST, 0).device("CPU", number)) for number in range(5)]


@contextmanager
def session(builder: GraphBuilder) -> Iterator[Session]:
    config = ServerConfig(NO_RECORDER, trace_of_step("test", "run", 0, sampled=False))
    devices = tuple(f"cpu:{number}" for number in range(len(DEVICES)))
    with (
        closing(LocalServer(TaskName("worker", 0), devices, config)) as server,
        Session(server.master, builder.graph()) as opened,
    ):
        yield opened


def on_devices(builder: GraphBuilder, wanted: Sequence[Input]) -> list[Tensor]:
    with session(builder) as opened:
        return [
            value
            for value in opened.run([f"{each.node}:{each.port}" for each in wanted])
            if value is not None
        ]
