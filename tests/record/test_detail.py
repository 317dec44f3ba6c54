"""How much of a run is recorded: steps, calls too, or every op."""

from pathlib import Path

import pytest

from tests.clusters import KINDS, running_cluster
from tests.fakes import FakeClock, SpanData, recorded
from tracer.model.graph_json import read_graph_file
from tracer.model.schema import DETAILS, SPAN_KINDS, kinds_beyond
from tracer.model.step import trace_of_step
from tracer.ops.dtypes import literal_to_tensor
from tracer.runtime.worker_env import ExecutorKind

GRAPH = Path(__file__).parent.parent / "golden" / "i_recv_dedup__grpc.json"
STEP = trace_of_step("run", "worker:0", 3)


def spans_of_a_run(kind: str, executor: ExecutorKind, detail: str) -> list[SpanData]:
    """All spans of three steps; the cluster's own check finds parents that are missing."""
    given = read_graph_file(GRAPH)
    feeds = {name: literal_to_tensor(literal) for name, literal in given.run.feeds.items()}
    cluster = running_cluster(kind, given.cluster, detail=detail, executor=executor)
    with cluster as running:
        session = running.session(given.graph)
        for _ in range(3):
            session.run(given.run.names, feeds)
        running.leave()
        assert running.recording is not None
        spans = running.recording.spans()
        assert running.recording.num_recorded >= len(spans)
    return spans


@pytest.mark.parametrize("executor", ["generated", "queue"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_level_records_its_kinds_and_those_below(kind: str, executor: ExecutorKind) -> None:
    found = {detail: spans_of_a_run(kind, executor, detail) for detail in DETAILS}
    kinds = {detail: {span.kind for span in spans} for detail, spans in found.items()}
    for detail in DETAILS:
        assert not kinds[detail] & kinds_beyond(detail)
    assert kinds["step"] == {k for k in kinds["op"] if SPAN_KINDS[k].detail == "step"}
    assert kinds["rpc"] == {k for k in kinds["op"] if SPAN_KINDS[k].detail in ("step", "rpc")}
    assert "session.run" in kinds["step"]
    assert "partition.run" in kinds["rpc"]
    assert {"op.run", "rendezvous.send", "rendezvous.recv"} <= kinds["op"]
    steps = {detail: {s.step for s in spans if s.step} for detail, spans in found.items()}
    assert all(numbers == {1, 2, 3} for numbers in steps.values())


def test_what_is_inside_a_span_that_is_left_out_belongs_to_what_is_around() -> None:
    with recorded(clock=FakeClock(), detail="rpc") as recording:
        recorder, writer = recording.recorder, recording.recorder.writer()
        op, part = recorder.site("op.run"), recorder.site("partition.run")
        outer = writer.begin(part, STEP, 1)
        left_out = writer.begin(op, STEP.under(outer), 2)
        inner = writer.begin(part, STEP.under(left_out), 3)
        writer.end(3, 4)
        writer.end(2, 5, 0, 64)
        writer.end(1, 6)
        assert writer.record(op, STEP.under(outer), 7, 8) == outer
        waiting = recorder.open(recorder.site("rendezvous.recv"), STEP.under(outer))
        waiting.fail("lost")
        assert waiting.context.span == outer
        waiting.close()
        spans = recording.spans()
    assert [(span.span, span.parent) for span in spans] == [(outer, 0), (inner, outer)]
    assert recording.num_recorded == 2


@pytest.mark.parametrize(("detail", "beyond"), [("step", "rpc.client"), ("rpc", "op.run")])
def test_a_kind_of_the_schema_says_where_it_belongs(detail: str, beyond: str) -> None:
    assert beyond in kinds_beyond(detail)
    assert not kinds_beyond("op")
    assert all(kind.detail in DETAILS for kind in SPAN_KINDS.values())
