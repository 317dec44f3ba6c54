"""What a replay shows at any instant, against a recount of the spans; and what it tells of them."""

import json
import random
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.store.sample_trace import training_step, write_trace
from tracer.cli import main as tracer
from tracer.model.trace_folder import Flag
from vizdist.analysis.replay import EVENTS, NEVER, NOBODY, Replay, replay_of
from vizdist.figures.replay import replay_bytes
from vizdist.store.columns import SpanRecord
from vizdist.store.details import hex_id
from vizdist.store.trace import StepInfo, Trace, open_trace

FRAMES = Path(__file__).parents[1] / "js" / "replay_frames.mjs"
NUM_INSTANTS = 100
LONG = pytest.param("ps", marks=pytest.mark.slow)  # its graph is captured and trained
RUNS = {
    "loop": ("cross-device-while", "--option", "iterations=6"),
    "ps": ("digits-mlp", "--strategy", "parameter_server_v1", "--workers", "2", "--steps", "3"),
    "dead": ("cross-device-cond",),
}

Recount = dict[str, Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trace]:
    made: dict[str, Trace] = {}

    def captured(name: str) -> Trace:
        if name not in made:
            folder = tmp_path_factory.mktemp("run") / f"{name}.trace"
            assert tracer(["run", *RUNS[name], "--in-process", "--out", str(folder)]) == 0
            made[name] = open_trace(folder)
        return made[name]

    return captured


def recount(trace: Trace, step: StepInfo, instant: int) -> Recount:
    """The state at an instant out of the spans alone, one by one; no code of the replay."""
    spans = trace.spans(step=step)
    kinds, keys = spans.text("kind").tolist(), spans.text("key").tolist()
    sent: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    found: dict[str, list[str]] = defaultdict(list)
    for at, (kind, key) in enumerate(zip(kinds, keys, strict=True)):
        start, end, ready = (int(c[at]) for c in (spans.start, spans.end, spans.ready))
        flags = int(spans.flags[at])
        is_over = end <= instant and not flags & Flag.UNFINISHED
        if kind == "rendezvous.send":
            sent[key] += start <= instant
        if kind == "rendezvous.recv":
            asked[key] += start <= instant
            (lost if flags & Flag.ERROR else taken)[key] += is_over
        if kind in ("op.run", "rendezvous.send") and 0 < ready <= instant < start:
            found["ready"].append(hex_id(int(spans.span[at])))
        if kind == "op.run" and start <= instant and not is_over:
            found["running"].append(hex_id(int(spans.span[at])))
    states = [
        [key, state]
        for key in {*sent, *asked}
        for state in _states(sent[key], asked[key], taken[key], lost[key])
    ]
    return {
        "keys": sorted(states),
        "ready": sorted(found["ready"]),
        "running": sorted(found["running"]),
    }


def _states(sent: int, asked: int, taken: int, lost: int) -> list[str]:
    """A key is used once a step."""
    assert max(sent, asked) <= 1
    if taken:
        return ["taken"]
    if lost:
        return ["lost"]
    if sent and asked:
        return ["flight"]
    return ["early"] * sent + ["waiting"] * asked


def frames(trace: Trace, step: StepInfo, instants: list[int], folder: Path) -> list[Recount]:
    """What the canvas would show."""
    file = folder / "replay.bin"
    file.write_bytes(replay_bytes(trace, replay_of(trace, step)))
    run = subprocess.run(
        ["node", str(FRAMES), str(file)],
        input=json.dumps([instant - step.start for instant in instants]),
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    found: list[Recount] = json.loads(run.stdout)
    return found


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("name", ["loop", "dead", LONG])
def test_mailboxes_queues_and_running_ops_at_any_instant_equal_a_recount_of_the_spans(
    run: Callable[[str], Trace], name: str, tmp_path: Path
) -> None:
    trace = run(name)
    step = trace.steps[-1]
    spans = trace.spans(step=step)
    rng = random.Random(7)
    instants = [rng.randint(step.start, step.end) for _ in range(NUM_INSTANTS // 2)]
    edges = [*spans.start.tolist(), *spans.end.tolist()]
    instants += rng.sample(edges, NUM_INSTANTS // 2)  # where something happens just then
    shown = frames(trace, step, instants, tmp_path)
    for instant, frame in zip(instants, shown, strict=True):
        expected = recount(trace, step, instant)
        assert {name: frame[name] for name in expected} == expected
    assert any(frame["running"] for frame in shown)
    assert {state for frame in shown for _, state in frame["keys"]} >= {"waiting", "taken"}


def named(replay: Replay) -> Counter[str]:
    return Counter(EVENTS[what] for what in replay.events.what.tolist())


@pytest.mark.parametrize("name", ["loop", "dead", LONG])
def test_what_was_sent_was_taken_and_every_span_has_its_events(
    run: Callable[[str], Trace], name: str
) -> None:
    trace = run(name)
    step = trace.steps[-1]
    spans, counts = trace.spans(step=step), named(replay_of(trace, step))
    is_dead = (spans.flags & Flag.DEAD) != 0
    ops = spans.is_kind("op.run")
    assert counts["sent"] == int(spans.is_kind("rendezvous.send").sum())
    assert counts["asked"] == counts["taken"] == int(spans.is_kind("rendezvous.recv").sum())
    assert counts["start"] == counts["end"] == int((ops & ~is_dead).sum())
    assert counts["dead"] == int((ops & is_dead).sum())
    assert counts["turn_begin"] == counts["turn_end"] == int(spans.is_kind("iteration.run").sum())
    assert counts["call"] == counts["answered"] == int(spans.is_kind("rpc.client").sum())


def test_events_come_by_time_and_what_ends_is_told_before_what_begins(
    run: Callable[[str], Trace],
) -> None:
    trace = run("loop")
    events = replay_of(trace, trace.steps[-1]).events
    assert np.array_equal(events.time, np.sort(events.time))
    same = events.time[1:] == events.time[:-1]
    assert np.all(events.what[1:][same] >= events.what[:-1][same])


Change = Callable[[SpanRecord], SpanRecord | None]


def replay_with(folder: Path, change: Change) -> Replay:
    """Of a made step of one tensor, some of its spans changed or left out."""
    spans = [made for span in training_step(1) if (made := change(span)) is not None]
    trace = open_trace(write_trace(folder / "made.trace", spans))
    return replay_of(trace, trace.step(1))


def test_a_recv_that_was_given_up_is_lost_and_never_taken(tmp_path: Path) -> None:
    def given_up(span: SpanRecord) -> SpanRecord | None:
        if span.kind == "rendezvous.recv":
            return span._replace(flags=Flag.ERROR, link=0)
        return None if span.kind == "rendezvous.send" else span

    keys = replay_with(tmp_path, given_up).keys
    assert keys.send.tolist() == [NOBODY]
    assert keys.taken.tolist() == keys.sent.tolist() == keys.met.tolist() == [NEVER]
    assert keys.lost[0] < NEVER


def test_who_was_still_waiting_when_last_seen_waits_for_ever(tmp_path: Path) -> None:
    def unfinished(span: SpanRecord) -> SpanRecord | None:
        if span.kind == "rendezvous.recv":
            return span._replace(flags=Flag.UNFINISHED, link=0)
        return None if span.kind == "rendezvous.send" else span

    replay = replay_with(tmp_path, unfinished)
    assert replay.keys.taken.tolist() == replay.keys.lost.tolist() == [NEVER]
    assert "taken" not in named(replay)
    assert named(replay)["asked"] == 1


def test_a_value_whose_send_was_not_recorded_is_known_by_its_recv(tmp_path: Path) -> None:
    def unseen(span: SpanRecord) -> SpanRecord | None:
        return None if span.kind == "rendezvous.send" else span

    replay = replay_with(tmp_path, unseen)
    [recv] = np.flatnonzero(replay.items.is_kind("rendezvous.recv")).tolist()
    came = replay.items.start[recv] + replay.items.wait[recv]
    assert replay.keys.send.tolist() == [NOBODY]
    assert replay.keys.sent.tolist() == [came]
    assert replay.keys.taken.tolist() == [replay.items.end[recv]]


def test_an_op_that_failed_has_an_event_of_its_own(tmp_path: Path) -> None:
    def failed(span: SpanRecord) -> SpanRecord:
        return span._replace(flags=Flag.ERROR) if span.kind == "op.run" else span

    counts = named(replay_with(tmp_path, failed))
    assert counts["failed"] == counts["start"] > 0
    assert "end" not in counts


def test_a_step_without_transfers_has_no_keys(tmp_path: Path) -> None:
    def alone(span: SpanRecord) -> SpanRecord | None:
        return None if span.kind.startswith("rendezvous") else span

    replay = replay_with(tmp_path, alone)
    assert [len(column) for column in replay.keys] == [0] * 7
    assert named(replay)["start"] > 0
