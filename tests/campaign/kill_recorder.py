"""Kills a recording process at random moments and counts what its trace lost: it must be nothing.

A child records on several threads as fast as it can and notes in shared memory, after each span,
that it ended. It is killed with SIGKILL; then every noted span must stand in its span file once,
whole, and the spans that were open must be there too, marked unfinished.

    python tests/campaign/kill_recorder.py --kills 50 --seed 1
"""

import argparse
import json
import mmap
import random
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tracer.model.step import SpanContext, trace_of_step
from tracer.model.trace_folder import Manifest, spans_path
from tracer.record.collector import Counts, start_collector
from tracer.record.manifest import read_manifest, write_manifest
from tracer.record.recorder import Recorder

TASK = "worker:0"
THREADS = 3
RING_CAPACITY = 200  # small, so that files fill, are drained and used again all the time
NOTE = struct.Struct("<Q")
LONGEST_LIFE_S = 0.4


def record_for_ever(scratch: Path, notes_file: Path) -> None:
    """The child: says `ready`, then records until it is killed."""
    recorder = Recorder(scratch, TASK, ring_capacity=RING_CAPACITY)
    with notes_file.open("r+b") as file:
        notes = mmap.mmap(file.fileno(), 0)
    ready = threading.Barrier(THREADS + 1)
    for number in range(THREADS):
        threading.Thread(target=_record, args=(recorder, notes, number, ready)).start()
    ready.wait(30)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    threading.Event().wait(60)


def _record(recorder: Recorder, notes: mmap.mmap, number: int, ready: threading.Barrier) -> None:
    """Ends spans 1, 2, 3 … of its own name; the number travels as their byte count."""
    context = trace_of_step("kills", "run", 1)
    name = f"thread {number}"
    op = recorder.site("op.run", name=name)
    recorder.writer().begin(recorder.site("partition.run", name=name), context, recorder.now())
    recorder.open(recorder.site("rendezvous.recv", name=name), context)
    ready.wait(30)
    for count in range(1, 1 << 40):
        _one_span(recorder, op, context, count)
        NOTE.pack_into(notes, number * NOTE.size, count)
        if not count % 100:
            time.sleep(0.001)


def _one_span(recorder: Recorder, op: int, context: SpanContext, count: int) -> None:
    """One span in one of the three ways, in turn."""
    writer, start = recorder.writer(), recorder.now()
    match count % 3:
        case 0:
            writer.begin(op, context, start)
            writer.end(start, recorder.now(), num_bytes=count)
        case 1:
            writer.record(op, context, start, recorder.now(), num_bytes=count)
        case _:
            recorder.open(op, context).close(num_bytes=count)


@dataclass
class Outcome:
    """What came of a campaign. `ended` counts spans noted as ended by their threads."""

    kills: int = 0
    ended: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    unmarked: list[str] = field(default_factory=list)
    counts: Counts | None = None
    manifest_outcome: str = ""

    @property
    def is_clean(self) -> bool:
        wrong = self.lost or self.doubled or self.unmarked
        counts = self.counts
        return not wrong and counts is not None and counts.recorded == counts.written > 0


def run(folder: Path, kills: int, seed: int) -> Outcome:
    """Lives and deaths of one task under one collector."""
    trace, scratch = folder / "kills.trace", folder / "scratch"
    trace.mkdir()
    scratch.mkdir()
    write_manifest(trace, Manifest("kills"))
    collector = start_collector(trace, scratch, "kills")
    chance = random.Random(seed)
    try:
        noted = [_one_life(scratch, chance) for _ in range(kills)]
    finally:
        counts = collector.stop(10)
    outcome = Outcome(kills=kills, counts=counts)
    outcome.manifest_outcome = next(
        task.outcome for task in read_manifest(trace).tasks if task.task == TASK
    )
    for attempt, notes in enumerate(noted):
        _judge(outcome, attempt, notes, spans_of(spans_path(trace, TASK, attempt)))
    return outcome


def _one_life(scratch: Path, chance: random.Random) -> tuple[int, ...]:
    """Starts a child and kills it; returns how many spans each of its threads noted as ended."""
    with tempfile.NamedTemporaryFile() as notes:
        notes.truncate(NOTE.size * THREADS)
        command = [sys.executable, __file__, "--child", str(scratch), notes.name]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            time.sleep(chance.uniform(0, LONGEST_LIFE_S))
            child.kill()
        return struct.unpack(f"<{THREADS}Q", Path(notes.name).read_bytes())


def spans_of(path: Path) -> list[dict[str, Any]]:
    """The spans of a file of whole gzip members, attributes as a mapping."""
    text = zlib.decompressobj(31)
    left, lines = path.read_bytes(), b""
    while left:
        lines += text.decompress(left)
        left, text = text.unused_data, zlib.decompressobj(31)
    return [
        span | {"attributes": {a["key"]: a["value"] for a in span["attributes"]}}
        for line in lines.splitlines()
        for span in json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    ]


def _judge(
    outcome: Outcome, attempt: int, notes: tuple[int, ...], spans: list[dict[str, Any]]
) -> None:
    unfinished = Counter(s["name"] for s in spans if "vizdist.unfinished" in s["attributes"])
    ended = Counter(
        (span["name"], int(span["attributes"]["vizdist.bytes"]["intValue"]))
        for span in spans
        if "vizdist.unfinished" not in span["attributes"]
    )
    outcome.doubled += [f"{attempt}: {one}" for one, times in ended.items() if times > 1]
    for number, last in enumerate(notes):
        name = f"thread {number}"
        outcome.ended += last
        missing = [count for count in range(1, last + 1) if (name, count) not in ended]
        outcome.lost += [f"{attempt}: {name} span {count}" for count in missing]
        if unfinished[name] not in (2, 3):  # the two left open, and perhaps one in its middle
            outcome.unmarked.append(f"{attempt}: {name} has {unfinished[name]} unfinished spans")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--child", nargs=2, type=Path, metavar=("SCRATCH", "NOTES"))
    told = parser.parse_args()
    if told.child:
        record_for_ever(*told.child)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(Path(folder), told.kills, told.seed)
    sys.stdout.write(json.dumps(asdict(outcome), indent=1) + "\n")
    return 0 if outcome.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
