import os
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.fakes import FakeClock, check, recorded
from tracer.model.step import SpanContext, trace_of_step
from tracer.model.trace_folder import Flag
from tracer.record.recorder import NO_RECORDER, Recorder

STEP = trace_of_step("run", "worker:0", 3)
SECOND = 1_000_000_000  #: more than the clock drifts in a test
QUIET = STEP._replace(sampled=False)


def in_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)


def test_a_span_is_as_long_as_the_clock_says() -> None:
    clock = FakeClock()
    with recorded(clock=clock) as recording:
        recorder = recording.recorder
        op = recorder.site("op.run", name="mm", attributes={"vizdist.op": "MatMul"})
        writer, start = recorder.writer(), recorder.now()
        span = writer.begin(op, STEP.under(7), start)
        clock.advance(7_000_000)
        writer.end(start, recorder.now(), start - 5, 64, recorder.key("77:4"), 0, Flag.DEAD, 2)
        (seen,) = recording.spans()
    assert (seen.kind, seen.name, seen.task, seen.lane) == ("op.run", "mm", "worker:0", "executor")
    assert seen.end - seen.start == 7_000_000
    assert (seen.span, seen.parent, seen.step) == (span, 7, 3)
    assert (seen.trace_hi, seen.trace_lo) == (STEP.trace_hi, STEP.trace_lo)
    assert (seen.ready, seen.num_bytes, seen.key) == (start - 5, 64, "77:4")
    assert seen.attributes == {
        "vizdist.op": "MatMul",
        "vizdist.dead": True,
        "vizdist.step.number": 3,
        "vizdist.ready_ns": start - 5,
        "vizdist.bytes": 64,
        "vizdist.frame.id": "77",  # of an op the key says where it ran
        "vizdist.iteration": 4,
        "vizdist.variable.version": 2,
    }


def test_a_span_of_the_systems_clock_has_times_since_the_epoch() -> None:
    before = time.time_ns()
    with recorded() as recording:
        recorder = recording.recorder
        with recorder.span("graph.prune", STEP):
            pass
        (span,) = recording.spans()
    drift = 10 * SECOND  # the system's clock may be set while the process runs; ours never jumps
    assert before - drift <= span.start <= span.end <= time.time_ns() + drift


def test_spans_nested_on_a_thread_lie_one_row_deeper_in_their_lane() -> None:
    with recorded(clock=FakeClock()) as recording:
        recorder, writer = recording.recorder, recording.recorder.writer()
        part = recorder.site("partition.run", lane="executor CPU:0")
        op = recorder.site("op.run", lane="executor CPU:0")
        send = recorder.site("rendezvous.send", lane="transfer")
        writer.begin(part, STEP, 1)
        writer.begin(send, STEP, 2)
        writer.begin(op, STEP, 3)
        writer.record(op, STEP, 4, 5)
        writer.end(3, 6)
        writer.end(2, 7)
        writer.record(op, STEP, 8, 9)
        writer.end(1, 10)
        rows = [(span.start, span.lane, span.depth) for span in recording.spans()]
    assert rows == [
        (1, "executor CPU:0", 0),
        (2, "transfer", 0),
        (3, "executor CPU:0", 1),
        (4, "executor CPU:0", 2),
        (8, "executor CPU:0", 1),
    ]


def test_two_threads_at_once_in_a_lane_get_rows_of_their_own() -> None:
    with recorded(clock=FakeClock()) as recording:
        recorder, writer = recording.recorder, recording.recorder.writer()
        part = recorder.site("partition.run", lane="executor CPU:0")
        writer.begin(part, STEP, 1)

        def other() -> None:
            mine = recorder.writer()
            mine.begin(part, STEP, 2)
            mine.end(2, 3)

        in_thread(other)
        writer.end(1, 4)
        writer.begin(part, STEP, 5)
        writer.end(5, 6)
        lanes = [(span.start, span.lane) for span in recording.spans()]
    assert lanes == [(1, "executor CPU:0"), (2, "executor CPU:0 (2)"), (5, "executor CPU:0")]


def test_a_span_may_end_on_another_thread_and_out_of_order() -> None:
    with recorded(clock=FakeClock()) as recording:
        recorder = recording.recorder
        recv = recorder.site("rendezvous.recv", name="w")
        first = recorder.open(recv, STEP, recorder.key("a"))
        second = recorder.open(recv, STEP, recorder.key("b"))
        in_thread(lambda: first.close(num_bytes=1, extra=9, link=11))
        third = recorder.open(recv, STEP, recorder.key("c"))
        third.close()
        second.close(flags=Flag.REMOTE)
        spans = {span.key: span for span in recording.spans()}
    assert [spans[key].depth for key in "abc"] == [0, 1, 0]
    assert spans["a"].attributes["vizdist.wait_ns"] == 9
    assert spans["c"].attributes["vizdist.wait_ns"] == 0  # waited for nothing: told, not left out
    assert spans["a"].link == 11
    assert spans["b"].attributes["vizdist.remote"] is True


def test_only_the_first_close_of_a_span_counts() -> None:
    with recorded(clock=FakeClock()) as recording:
        waiting = recording.recorder.open(recording.recorder.site("rendezvous.recv"), STEP)
        waiting.close(end=waiting.start + 1, num_bytes=5)
        waiting.close(end=waiting.start + 2, num_bytes=6)
        (span,) = recording.spans()
    assert (span.num_bytes, span.end - span.start) == (5, 1)


def test_records_of_the_past_that_overlap_do_not_share_a_row() -> None:
    with recorded(clock=FakeClock()) as recording:
        writer = recording.recorder.writer()
        served = recording.recorder.site("rpc.server", name="RecvTensor")
        for start, end in ((10, 20), (12, 22), (20, 30), (5, 11)):
            writer.record(served, STEP, start, end)
        rows = {(span.start, span.end): span.depth for span in recording.spans()}
    assert rows == {(10, 20): 0, (12, 22): 1, (20, 30): 0, (5, 11): 2}


def test_a_rare_span_takes_attributes_until_it_ends_and_its_error() -> None:
    at_start: dict[str, Any] = {"vizdist.graph.nodes_before": 9}
    with recorded(clock=FakeClock()) as recording:
        with suppress(KeyError), recording.recorder.span("graph.prune", STEP, **at_start) as outer:
            with recording.recorder.span("graph.place", outer.context) as inner:
                inner.set("vizdist.graph.nodes", 4)
            raise KeyError("w")
        prune, place = recording.spans()
        assert check([prune, place]) == []
    assert place.parent == prune.span
    assert (place.depth, place.flags, place.attributes["vizdist.graph.nodes"]) == (1, 0, 4)
    assert prune.attributes["vizdist.graph.nodes_before"] == 9
    assert prune.flags & Flag.ERROR
    assert prune.error == "KeyError: 'w'"


def test_what_is_told_of_a_span_takes_none_of_its_time() -> None:
    clock = FakeClock()
    with recorded(clock=clock) as recording:
        with recording.recorder.span("session.run", STEP) as span:
            clock.advance(70)
            span.stop_clock()
            clock.advance(5)
            span.set("vizdist.loss", 0.5)
            span.stop_clock()
        (run,) = recording.spans()
    assert run.end - run.start == 70
    assert run.attributes["vizdist.loss"] == 0.5


def test_an_aborted_recv_says_why() -> None:
    with recorded(clock=FakeClock()) as recording:
        recv = recording.recorder.open(recording.recorder.site("rendezvous.recv"), STEP)
        recv.fail("ABORTED: worker:1 is gone")
        recv.close()
        (span,) = recording.spans()
        assert check([span]) == []
    assert span.error == "ABORTED: worker:1 is gone"


def test_what_is_not_sampled_is_not_recorded() -> None:
    with recorded(clock=FakeClock()) as recording:
        recorder = recording.recorder
        waiting = recorder.open(recorder.site("rendezvous.recv"), QUIET)
        with recorder.span("graph.prune", waiting.context) as span:
            span.set("vizdist.graph.nodes", 1)
            span.fail("no")
        waiting.set("vizdist.node", "w")
        waiting.close()
        assert recording.spans() == []
    assert (waiting.span, span.span, span.context) == (0, 0, QUIET)


def test_the_null_recorder_has_every_method_and_does_nothing() -> None:
    assert {name for name in vars(Recorder) if not name.startswith("_")} <= set(dir(NO_RECORDER))
    writer = NO_RECORDER.writer()
    writer.begin(NO_RECORDER.site("op.run"), STEP, 1)
    writer.end(1, 2)
    writer.record(0, STEP, 1, 2)
    NO_RECORDER.open(0, STEP, NO_RECORDER.key("k")).close()
    with NO_RECORDER.span("anything", STEP) as span:
        span.set("x", 1)
    NO_RECORDER.step_boundary()
    NO_RECORDER.close()
    assert span.span == 0


def test_a_full_ring_goes_on_in_a_further_file_and_is_used_again_when_drained() -> None:
    with recorded(clock=FakeClock()) as recording:
        recorder = recording.add("worker:1", ring_capacity=10)
        writer, op = recorder.writer(), recorder.site("op.run")
        left_open = recorder.open(op, STEP)
        sizes = []
        for turn in range(20):
            for number in range(25):
                writer.record(op, STEP, turn, turn + 1, num_bytes=25 * turn + number + 1)
            spans = recording.spans()
            sizes.append(writer.ring.num_files)
        left_open.close(num_bytes=501)
        spans = recording.spans()
    assert sorted(span.num_bytes for span in spans) == list(range(1, 502))
    assert sizes[0] == 3
    assert sizes[-1] <= 5  # the open span keeps one file; the others take turns


def test_a_thread_that_ends_leaves_its_ring_to_the_next() -> None:
    with recorded(clock=FakeClock()) as recording:
        recorder = recording.recorder
        op = recorder.site("op.run")
        for _ in range(50):
            in_thread(lambda: recorder.writer().record(op, STEP, 1, 2))
        assert len(recording.spans()) == 50
        assert recording.num_rings == 1


def test_what_a_dead_thread_left_open_stays_open_and_bothers_nobody() -> None:
    with recorded(clock=FakeClock()) as recording:
        recorder = recording.recorder
        part = recorder.site("partition.run")
        in_thread(lambda: recorder.writer().begin(part, STEP, 1))
        writer = recorder.writer()
        writer.begin(part, STEP, 2)
        writer.end(2, 3)
        recorder.close()
        unfinished, ended = recording.spans()
    assert unfinished.flags == Flag.UNFINISHED
    assert (ended.lane, ended.depth) == ("executor (2)", 0)
    assert unfinished.attributes["vizdist.unfinished"] is True
    assert unfinished.attributes["vizdist.last_seen_ns"] == unfinished.end == 3


def test_span_ids_are_unique_over_threads_and_tasks() -> None:
    with recorded(clock=FakeClock()) as recording:
        recorders = [recording.recorder, recording.add("ps:0")]
        for recorder in recorders:
            op = recorder.site("op.run")

            def work(r: Recorder = recorder, site: int = op) -> None:
                for _ in range(100):
                    r.writer().record(site, STEP, 1, 2)

            in_thread(work)
            work()
        ids = [span.span for span in recording.spans()]
    ids += [recorder.new_span() for recorder in recorders for _ in range(100)]
    assert len(set(ids)) == 600
    assert 0 not in ids


def test_a_failed_call_costs_only_its_own_span() -> None:
    with recorded(clock=FakeClock()) as recording:
        writer, op = recording.recorder.writer(), recording.recorder.site("op.run")
        with pytest.raises(struct.error):
            writer.record(op, STEP, "soon", 2)  # type: ignore[arg-type]
        writer.record(op, STEP, 1, 2)
        assert len(recording.spans()) == 1


def test_an_unknown_kind_is_refused_with_the_nearest_ones() -> None:
    with (
        recorded(clock=FakeClock()) as recording,
        pytest.raises(ValueError, match=r"nearest: op\.run"),
    ):
        recording.recorder.site("op.rum")


def test_a_forked_child_records_in_a_folder_of_its_own() -> None:
    with recorded(clock=FakeClock()) as recording:
        recording.recorder.close()  # what it held is free for the next to take
        recorder = recording.add("worker:1")
        op = recorder.site("op.run", name="w")
        recorder.writer().record(op, STEP, 1, 2)
        if (child := os.fork()) == 0:
            recorder.writer().record(op, STEP, 3, 4)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        recorder.writer().record(op, STEP, 5, 6)
        spans = recording.spans()
    assert [(span.start, span.name) for span in spans] == [(1, "w"), (3, "w"), (5, "w")]
    assert len({span.span for span in spans}) == 3


def test_a_forked_child_ends_none_of_its_parents_spans() -> None:
    with recorded(clock=FakeClock()) as recording:
        recorder = recording.recorder
        waiting = recorder.open(recorder.site("rpc.client"), STEP)
        with recorder.span("session.run", STEP) as span:
            span.set("vizdist.session.handle", "mine")
            if (child := os.fork()) == 0:
                span.set("vizdist.session.handle", "the child's")
                span.__exit__(ValueError, ValueError("in the child"), None)
                waiting.close(flags=Flag.ERROR)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            assert recording.spans() == []
        waiting.close()
        spans = recording.spans()
    assert [(span.kind, span.flags) for span in spans] == [("rpc.client", 0), ("session.run", 0)]
    assert spans[1].attributes["vizdist.session.handle"] == "mine"


def test_the_checks_find_what_is_wrong() -> None:
    with recorded(clock=FakeClock()) as recording:
        recorder, writer = recording.recorder, recording.recorder.writer()
        part = recorder.site("partition.run", attributes={"vizdist.loss": 1})
        writer.record(part, SpanContext(1, 1, span=5), 10, 20, extra=3, span=6)
        writer.record(recorder.site("op.run"), SpanContext(1, 1, span=6), 5, 4)
        writer.record(recorder.site("rendezvous.recv", name="r"), STEP, 1, 2, key=recorder.key("k"))
        recorder.open(recorder.site("rpc.client"), STEP)
        wrong = check(recording.spans(at_end=True))
    for fault in (
        "partition.run 'partition.run': attribute vizdist.loss is not in the schema",
        "partition.run 'partition.run': extra is 3 but has no meaning for this kind",
        "partition.run 'partition.run': its parent was not recorded",
        "op.run 'op.run': ends 1 ns before it starts",
        "op.run 'op.run': lies outside its parent partition.run 'partition.run'",
        "rendezvous.recv 'r': completed without a link to its send",
        "rpc.client 'rpc.client': is unfinished",
    ):
        assert fault in wrong


def test_closing_twice_or_recording_after_does_no_harm() -> None:
    with recorded(clock=FakeClock()) as recording:
        recorder = recording.recorder
        writer, op = recorder.writer(), recorder.site("op.run")
        for number in range(1000):  # more than a ring file holds
            writer.record(op, STEP, number, number + 1)
        recorder.close()
        recorder.close()
        writer.record(op, STEP, 1, 2, key=recorder.key("nobody was told"))
        writer.record(recorder.site("op.run", name="nobody was told"), STEP, 1, 2)
        assert len(recording.spans()) == 1001
        assert recording.num_recorded == 1002
