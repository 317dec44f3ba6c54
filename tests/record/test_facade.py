"""Where users' spans belong: inside steps, around them, over threads, coroutines and processes."""

import asyncio
import contextvars
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from opentelemetry import propagate, trace

from tests.record.users import Users, attributes, id_of, users_of
from tests.record.written_trace import WrittenTrace, read_table, segment_paths
from tracer.model.step import trace_of_step
from tracer.record.facade import TracerProvider
from tracer.record.recorder import NO_RECORDER

STEP = trace_of_step("", "worker:0", 3)
RUN = trace_of_step("", "run", 0)


@pytest.fixture
def users(tmp_path: Path) -> Iterator[Users]:
    with users_of(tmp_path) as users:
        yield users


def test_spans_are_nested_as_they_are_current(users: Users) -> None:
    with users.tracer.start_as_current_span("outer") as outer:
        with users.tracer.start_as_current_span("inner"):
            pass
        users.tracer.start_span("sibling").end()
    users.tracer.start_span("after").end()
    spans = users.spans()
    assert spans["inner"].parent_span_id == spans["sibling"].parent_span_id == id_of(outer)
    assert spans["outer"].parent_span_id == spans["after"].parent_span_id == b""
    assert {span.trace_id.hex() for span in spans.values()} == {RUN.trace_id}


def test_a_span_inside_a_step_is_its_child_and_a_span_around_it_is_linked(users: Users) -> None:
    with users.tracer.start_as_current_span("experiment") as experiment:
        with (
            users.recorder.span("session.run", STEP) as step,
            users.tracer.start_as_current_span("augment"),
        ):
            pass
        users.tracer.start_span("between").end()
    spans = users.spans()
    assert spans["augment"].parent_span_id == step.span.to_bytes(8)
    assert spans["augment"].trace_id.hex() == STEP.trace_id
    assert attributes(spans["augment"])["vizdist.step.number"] == 3
    assert spans["between"].parent_span_id == id_of(experiment)
    (link,) = spans["session.run"].links
    assert (link.span_id, attributes(link)) == (id_of(experiment), {"link.kind": "enclosing"})
    assert link.trace_id.hex() == RUN.trace_id


def test_only_the_root_of_a_step_is_linked(users: Users) -> None:
    with users.tracer.start_as_current_span("outside"):
        with (
            users.recorder.span("session.run", STEP) as step,
            users.recorder.span("graph.place", step.context),
        ):
            pass
        with users.recorder.span("session.close", RUN):
            pass
    spans = users.spans()
    assert spans["session.run"].links
    assert not spans["graph.place"].links
    assert not spans["session.close"].links


def test_nothing_is_recorded_inside_a_step_that_is_not(users: Users) -> None:
    quiet = STEP._replace(sampled=False)
    with (
        users.recorder.span("data.next", quiet),
        users.tracer.start_as_current_span("outer") as outer,
        users.tracer.start_as_current_span("inner") as inner,
    ):
        assert not outer.is_recording()
        assert not inner.is_recording()
    users.tracer.start_span("after").end()
    assert set(users.spans()) == {"after"}


def test_the_parent_goes_along_to_a_pool_that_takes_the_context(users: Users) -> None:
    def work() -> None:
        users.tracer.start_span("in the pool").end()

    with ThreadPoolExecutor(1) as pool, users.recorder.span("session.run", STEP) as step:
        pool.submit(contextvars.copy_context().run, work).result()
    assert users.spans()["in the pool"].parent_span_id == step.span.to_bytes(8)


def test_coroutines_keep_their_parents_and_a_cancelled_one_ends(users: Users) -> None:
    async def wait_for_ever() -> None:
        with users.tracer.start_as_current_span("cancelled"):
            await asyncio.sleep(100)

    async def main() -> None:
        with users.tracer.start_as_current_span("main"):
            tasks = [asyncio.create_task(wait_for_ever()), asyncio.create_task(quick())]
            await tasks[1]
            tasks[0].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @users.tracer.start_as_current_span("quick")
    async def quick() -> None:
        await asyncio.sleep(0)
        users.tracer.start_span("inside").end()

    asyncio.run(main())
    spans = users.spans()
    assert spans["quick"].parent_span_id == spans["cancelled"].parent_span_id
    assert spans["quick"].parent_span_id == spans["main"].span_id
    assert spans["inside"].parent_span_id == spans["quick"].span_id


def test_a_generator_that_another_task_closes_leaves_no_error_in_the_log(
    users: Users, caplog: pytest.LogCaptureFixture
) -> None:
    async def numbers() -> AsyncIterator[int]:
        with users.tracer.start_as_current_span("numbers"):
            yield 1
            yield 2

    async def main() -> None:
        generator = numbers()
        await anext(generator)
        await asyncio.create_task(generator.aclose())  # type: ignore[attr-defined]

    with caplog.at_level(logging.DEBUG):
        asyncio.run(main())
    assert not [record for record in caplog.records if "etach" in record.message]
    assert "numbers" in users.spans()


def test_a_data_set_that_keeps_its_span_open_between_batches_is_linked(users: Users) -> None:
    def batches() -> Generator[int, None, None]:
        with users.tracer.start_as_current_span("epoch"):
            yield from range(2)

    source = batches()
    roots = []
    for number in (1, 2):
        ctx = trace_of_step("", "worker:0", number)
        with users.recorder.span("data.next", ctx):
            next(source)
        with users.recorder.span("session.run", ctx, name=f"step {number}") as root:
            roots.append(root.span)
            users.tracer.start_span(f"in {number}").end()
    source.close()
    users.tracer.start_span("after").end()
    spans = users.spans()
    assert [spans[f"in {n}"].parent_span_id for n in (1, 2)] == [s.to_bytes(8) for s in roots]
    assert [link.span_id for link in spans["step 2"].links] == [spans["epoch"].span_id]
    assert len({span.parent_span_id for name, span in spans.items() if name == "after"}) == 1


def test_a_function_may_be_decorated_and_each_call_is_a_span(users: Users) -> None:
    @users.tracer.start_as_current_span("call")
    def double(number: int) -> int:
        return 2 * number

    assert [double(1), double(2)] == [2, 4]
    users.recorder.close()
    users.trace.finish()
    _, rows = read_table(segment_paths(users.trace.folder)[0])
    assert [row["name"] for row in rows] == ["call", "call"]


def test_the_context_travels_as_the_propagators_have_it(users: Users) -> None:
    carrier: dict[str, str] = {}
    with (
        users.recorder.span("session.run", STEP),
        users.tracer.start_as_current_span("client") as client,
    ):
        propagate.inject(carrier)
    span_id = client.get_span_context().span_id
    assert carrier["traceparent"] == f"00-{STEP.trace_id}-{span_id:016x}-01"
    users.tracer.start_span("server", context=propagate.extract(carrier)).end()
    server = users.spans()["server"]
    assert (server.trace_id.hex(), server.parent_span_id) == (STEP.trace_id, span_id.to_bytes(8))


def test_it_costs_a_span_of_ours_nothing_until_there_is_a_tracer(tmp_path: Path) -> None:
    recorder = WrittenTrace(tmp_path).recorder()
    provider = TracerProvider(recorder)
    provider.follow([recorder])
    followed = [recorder.enter is not None]
    provider.get_tracer("x")
    followed.append(recorder.enter is not None)
    provider.follow([])
    followed.append(recorder.enter is not None)
    assert followed == [False, True, False]
    recorder.close()


PROGRAM = """
import sys, pathlib
from opentelemetry import trace
early = trace.get_tracer("before the provider is there")
from tracer.record.recorder import Recorder
from tracer.record.facade import install
recorder = Recorder(pathlib.Path(sys.argv[1]), "worker:0")
leave = install(recorder)
for tracer in (early, trace.get_tracer("after")):
    with tracer.start_as_current_span("s"):
        assert trace.get_current_span().is_recording()
leave()
assert not trace.get_tracer("late").start_span("s").is_recording()
recorder.close()
print(recorder.writer().ring.num_begun(), "opentelemetry.sdk" in sys.modules)
"""


@pytest.mark.parametrize(("disabled", "says"), [("", "2 False"), ("true", "0 False")])
def test_it_is_the_provider_of_a_process_and_needs_no_sdk(
    tmp_path: Path, disabled: str, says: str
) -> None:
    program = PROGRAM.replace("assert trace.get_cur", "trace.get_cur") if disabled else PROGRAM
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={"OTEL_SDK_DISABLED": disabled, "PYTHONPATH": "."},
    )
    assert (done.stdout.strip(), done.stderr) == (says, "")


def test_without_a_recorder_spans_go_nowhere() -> None:
    tracer = TracerProvider(NO_RECORDER).get_tracer("x")
    with tracer.start_as_current_span("s") as span:
        span.set_attribute("a", 1)
        assert not span.is_recording()


def test_after_the_run_spans_inside_those_of_others_go_nowhere(users: Users) -> None:
    """What is current may be a span of another process, which is recorded there."""
    remote = trace.SpanContext(7 << 64 | 1, 9, True, trace.TraceFlags(trace.TraceFlags.SAMPLED))
    tracer = TracerProvider(NO_RECORDER).get_tracer("x")
    around = trace.set_span_in_context(trace.NonRecordingSpan(remote))
    span = tracer.start_span("s", around, start_time=NO_RECORDER.epoch_ns())
    assert not span.is_recording()
    assert span.get_span_context().span_id == remote.span_id
    assert NO_RECORDER.reading_of(NO_RECORDER.epoch_ns()) <= NO_RECORDER.now()
    assert users.spans() == {}


def test_spans_of_a_thread_of_its_own_belong_to_the_run(users: Users) -> None:
    def work() -> None:
        users.tracer.start_span("apart").end()

    with users.recorder.span("session.run", STEP):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert users.spans()["apart"].trace_id.hex() == RUN.trace_id
