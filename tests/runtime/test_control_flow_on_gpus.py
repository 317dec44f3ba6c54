"""Loops on GPU devices: predicates are read on the host, values stay where they are computed.

The GPUs are fake and the values real.
"""

import pytest
import torch

from tests.fake_gpu import FakeDriver
from tests.runtime.test_control_flow import count
from tests.runtime.test_device_streams import X, direct
from tracer.model.graph import Graph, Input
from tracer.model.graph_builder import GraphBuilder
from tracer.model.trace_folder import Flag

DEVICES = ("CPU:0", "GPU:0", "GPU:1")


def doubling(loop_on: str, body_on: str) -> Graph:
    """`s` is the fed x, doubled as often as the fed `n` says."""
    b = GraphBuilder()

    def again(i: Input, s: Input) -> list[Input]:
        with b.device(f"/device:{body_on}"):
            doubled = b.op("AddV2", s, s, name="doubled", T="float32")
        return [b.op("AddV2", i, b.const(1, "int32"), T="int32"), doubled]

    with b.device(f"/device:{loop_on}"):
        n = b.placeholder([], "int32", name="n")
        start = [b.const(0, "int32"), b.placeholder([3], name="x")]
        _, s = b.while_loop(lambda i, _: b.op("Less", i, n, T="int32"), again, start, name="loop")
        b.op("Identity", s, name="s", T="float32")
    return b.graph()


@pytest.mark.parametrize("loop_on", DEVICES)
@pytest.mark.parametrize("body_on", DEVICES)
def test_a_loop_runs_over_any_devices(loop_on: str, body_on: str) -> None:
    driver = FakeDriver()
    with direct(doubling(loop_on, body_on), driver) as (session, _):
        for n in (3, 0, 5):
            got = session.run("s:0", {**count(n), "x:0": X})
            torch.testing.assert_close(got, X * 2**n)


def test_what_ran_on_a_stream_says_in_which_iteration() -> None:
    driver = FakeDriver()
    with direct(doubling("GPU:0", "GPU:0"), driver) as (session, recording):
        session.run("s:0", {**count(3), "x:0": X})
    doubled = [span for span in recording.spans() if span.name == "loop/doubled"]
    launches = [span for span in doubled if span.kind == "op.launch"]
    ran = [span for span in doubled if span.kind == "op.run"]
    assert [span.attributes["vizdist.iteration"] for span in launches] == [0, 1, 2, 3]
    assert [bool(span.flags & Flag.DEAD) for span in launches] == [False, False, False, True]
    assert [span.attributes["vizdist.iteration"] for span in ran] == [0, 1, 2]
    assert {span.attributes["vizdist.frame.name"] for span in ran} == {"loop/while_context"}
