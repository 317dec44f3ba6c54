"""Frame and iteration of spans stand in the columns, live ones and those rebuilt alike."""

import shutil
from pathlib import Path

import numpy as np

from tests.clusters import RUN_ID
from tests.runtime.graphs import CLUSTER, PS_0, WORKER_0
from tests.runtime.loops import doubling
from tests.runtime.test_control_flow import count
from tests.store.test_own_folder import table
from tracer.model.step import tag_of, trace_of_step
from tracer.model.trace_folder import COLUMNS, Flag, Manifest
from tracer.record.manifest import write_manifest
from tracer.record.recorder import Recorder
from tracer.record.sink import Sink
from tracer.runtime.near_cluster import NearCluster
from tracer.runtime.session import Session, Tracing
from vizdist.store.trace import open_trace


def record_loop(folder: Path) -> Path:
    """A loop of three iterations over two tasks."""
    folder.mkdir()
    write_manifest(folder, Manifest(RUN_ID))
    scratch = folder.parent / "scratch"
    scratch.mkdir()
    recorders = {task: Recorder(scratch, str(task)) for task in CLUSTER.tasks()}
    with NearCluster(CLUSTER, recorder_of=recorders.__getitem__) as cluster:
        run = trace_of_step(RUN_ID, "run", 0)
        tracing = Tracing(recorders[WORKER_0], run, lambda n: trace_of_step(RUN_ID, "run", n))
        with Session(cluster.masters[WORKER_0], doubling(body_at=PS_0), tracing) as session:
            assert session.run("s:0", count(3)).item() == 8.0
    sink = Sink(folder, scratch)
    sink.turn(0, at_end=True)
    sink.close()
    return folder


def test_a_loop_is_told_alike_both_ways(tmp_path: Path) -> None:
    folder = record_loop(tmp_path / "loop.trace")
    live = open_trace(folder)
    spans = live.all
    doubled = np.flatnonzero(spans.is_kind("op.run") & (spans.text("name") == "loop/doubled"))
    iterations = spans.columns["iteration"][doubled].tolist()
    is_dead = [bool(flags & Flag.DEAD) for flags in spans.flags[doubled]]
    # the last one may be known to be dead before the one before it has run
    assert sorted(zip(iterations, is_dead, strict=True)) == [
        (0, False), (1, False), (2, False), (3, True),
    ]  # fmt: skip
    assert set(spans.text("frame")[doubled]) == {"loop/while_context"}
    (number,) = set(spans.columns["frame_id"][doubled].tolist())
    transfers = np.flatnonzero(spans.is_kind("rendezvous.send") | spans.is_kind("rendezvous.recv"))
    for at in transfers:
        place = int(spans.columns["frame_id"][at]), int(spans.columns["iteration"][at])
        assert place == (tag_of(spans.text("key")[at]) or (0, -1))
        assert place[0] in (0, number)
    (frame,) = np.flatnonzero(spans.is_kind("frame.run") & (spans.task == "ps:0"))
    assert live.span(int(spans.span[frame])).attributes["vizdist.iterations"] == 4
    assert spans.columns["iteration"][frame] == -1
    shutil.rmtree(folder / COLUMNS)
    assert table(open_trace(folder)) == table(live)
