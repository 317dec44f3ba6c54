"""A run on GPUs, recorded like any other: streams have lanes, compute is the time of the GPU."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.fake_gpu import FakeDriver
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.graph import Graph
from tracer.model.graph_builder import GraphBuilder
from tracer.model.step import trace_of_step
from tracer.model.trace_folder import Manifest
from tracer.record.manifest import update_manifest, write_manifest
from tracer.record.recorder import RUN_ID, Recorder
from tracer.record.sink import Sink
from tracer.runtime.near_cluster import NearCluster
from tracer.runtime.session import Session, Tracing
from vizdist.analysis.node_measures import measure_nodes
from vizdist.analysis.op_totals import op_totals
from vizdist.analysis.report import report_text
from vizdist.analysis.stalls import stalls
from vizdist.analysis.stalls_told import told
from vizdist.analysis.step_split import split_of_client
from vizdist.figures.timeline import COMPUTE, IDLE, RECV, arrow_ends, hues_of
from vizdist.store.relations import RELATIONS
from vizdist.store.trace import Trace, open_trace

US = 1_000
MS = 1_000 * US
WORKER_0 = TaskName("worker", 0)


def two_gpus() -> Graph:
    """x is negated on GPU:0, squared on GPU:1."""
    b = GraphBuilder()
    with b.device("/job:worker/task:0/device:GPU:0"):
        minus = b.op("Neg", b.placeholder([3], name="x"), name="minus", T="float32")
    with b.device("/job:worker/task:0/device:GPU:1"):
        b.op("Square", minus, name="square", T="float32")
    return b.graph()


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """`minus` is launched in 40 µs and runs for 3 ms; copies take 1 ms each."""
    folder = tmp_path_factory.mktemp("gpu") / "x.trace"
    scratch = folder.parent / "scratch"
    for made in (folder, scratch):
        made.mkdir()
    driver = FakeDriver()
    driver.copy_ns = MS
    write_manifest(folder, Manifest("r", started_ns=driver.clock.now_ns()))
    record(scratch, driver)
    sink = Sink(folder, scratch)
    sink.turn(driver.clock.now_ns(), at_end=True)
    sink.tell()
    sink.close()
    update_manifest(folder, lambda manifest: setattr(manifest, "outcome", "done"))
    return open_trace(folder)


def record(scratch: Path, driver: FakeDriver) -> None:
    recorder = Recorder(scratch, str(WORKER_0), {RUN_ID: "r"}, clock=driver.clock)
    run = trace_of_step("r", "run", 0)
    tracing = Tracing(recorder, run, lambda number: trace_of_step("r", "run", number))
    with (
        NearCluster(
            ClusterSpec.of_counts(worker=1),
            devices={WORKER_0: ("cuda:0", "cuda:0")},
            recorder_of=lambda _: recorder,
            clock=driver.clock,
            lookup=driver.taking("Neg", 3 * MS, launch_ns=40 * US),
            driver=driver,
        ) as cluster,
        Session(cluster.masters[WORKER_0], two_gpus(), tracing) as session,
    ):
        for _ in range(3):
            session.run("square:0", {"x:0": torch.ones(3)})
    recorder.close()


def test_launches_streams_and_copies_have_rows_of_their_own(trace: Trace) -> None:
    lanes = [row.lane for row in trace.rows if "GPU" in row.lane and not row.depth]
    kinds = ["partition", "launch", "stream", "copies", "recv", "anchors"]
    assert [lane for lane in lanes if lane.endswith("GPU:0")] == [f"{k} GPU:0" for k in kinds]
    assert {row.depth for row in trace.rows if row.lane.startswith("stream")} == {0}


def test_every_span_of_a_gpu_says_on_which_one_it_was(trace: Trace) -> None:
    spans = trace.all
    of_gpu = [at for at, text in enumerate(spans.text("device")) if "GPU" in text]
    physical = {a.get("vizdist.device.physical") for a in trace.attributes(of_gpu).values()}
    assert len(of_gpu) > 20
    assert physical == {"cuda:0"}


def test_compute_is_what_the_gpu_took_and_transfer_its_copies(trace: Trace) -> None:
    parts = split_of_client(trace, trace.step(3)).parts
    assert parts["compute"] == 3 * MS
    assert parts["transfer"] == 2 * MS
    assert sum(parts.values()) == trace.step(3).duration


def test_an_op_costs_what_its_gpu_took_not_its_launch(trace: Trace) -> None:
    first = op_totals(trace, trace.step(2))[0]
    assert (first.name, first.count, first.total) == ("minus", 1, 3 * MS)
    measured = measure_nodes(trace, trace.step(2)).nodes["minus"]
    assert (measured.runs, measured.time) == (1, 3 * MS)


def test_launches_are_drawn_pale_and_copies_as_transfers(trace: Trace) -> None:
    spans = trace.all
    hues = {
        kind: set(hues_of(spans.take(spans.is_kind(kind))).tolist())
        for kind in ("op.launch", "op.run", "copy.run")
    }
    assert hues == {"op.launch": {IDLE}, "op.run": {COMPUTE}, "copy.run": {RECV}}


def test_the_report_of_such_a_run_can_be_read(trace: Trace) -> None:
    text = report_text(trace)
    assert "worker:0 GPU:1 stood idle 4.00 ms" in text
    assert "Tensors on their way are 2.00 ms of the critical path of a step, 40.0 % of it" in text
    assert "takes longest, 1.00 ms" in text
    assert not trace.problems


def test_every_op_on_a_stream_is_linked_to_its_launch(trace: Trace) -> None:
    source, target, code = trace.relations
    launched = code == RELATIONS.index("launch")
    above, below = trace.all.take(source[launched]), trace.all.take(target[launched])
    streamed = trace.all.is_kind("op.run") & np.isin(trace.all.parent, above.span)
    assert len(below) == streamed.sum() == trace.all.is_kind("op.launch").sum() > 0
    assert above.text("name").tolist() == below.text("name").tolist()
    assert (above.start <= below.start).all(), "an arrow never points backwards"
    lanes = {(a.split()[0], b.split()[0]) for a, b in zip(above.lane, below.lane, strict=True)}
    assert lanes == {("launch", "stream")}
    step = trace.step(2)
    drawn = arrow_ends(trace, trace.arrows(step.start, step.end))
    assert drawn["relation"].count("launch") == 2


def test_a_gpu_that_stands_idle_says_which_gpu_it_waited_for(trace: Trace) -> None:
    said = [told(trace, stall) for stall in stalls(trace, trace.step(2))]
    longest = next(one for one in said if one.values["task"] == "worker:0 GPU:1")
    assert (longest.key, longest.values["at"], longest.values["name"]) == (
        "ran", "worker:0 GPU:0", "minus",
    )  # fmt: skip
    assert longest.values["part"] == "3.00 ms"
