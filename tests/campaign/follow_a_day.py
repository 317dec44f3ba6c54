"""Follows a run for a day of simulated time and tells, hour by hour, what that holds in memory.

A child records two steps a second and the collector's sink takes a turn every `--turn` seconds; a
listener looks after each, as it would live (a collector's real turn is 0.5 s). Nothing may grow
with time but the files: at the end it says whether memory, maps and open files stayed flat, and
exits with 1 if they did not.

    python -m tests.campaign.follow_a_day --hours 24 --turn 5
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.store.growing_trace import GrowingRun
from vizdist.routes.live import state_of
from vizdist.store.library import Library

STEPS = 7200  #: an hour's, two a second
GROWTH_MB = 24  #: of memory that is not mapped files, from the first hour to the last
MAPS = 64


def memory_mb(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(field))


def train(folder: Path, turn_s: float, orders: Connection) -> None:
    """The child: takes a turn for each order, and tells the steps so far."""
    run = GrowingRun(folder)
    orders.send(0)
    while orders.recv():
        for _ in range(round(STEPS / 3600 * turn_s)):
            run.step()
        run.turn()
        orders.send(run.steps)


def hour(child: Connection, library: Library, trace: str, turn_s: float) -> dict[str, Any]:
    looks = []
    for _ in range(round(3600 / turn_s)):
        child.send(True)
        steps = child.recv()
        begin = time.thread_time()
        state = state_of(library.open(trace), library.outcome(trace))
        looks.append((time.thread_time() - begin) * 1000)
        assert state["spans"] == 4 * steps
        assert state["step"] == steps
    return {
        "steps": steps,
        "spans": state["spans"],
        "rss_mb": memory_mb("VmRSS"),
        "anonymous_mb": memory_mb("RssAnon"),
        "maps": Path("/proc/self/maps").read_text().count(".arrow"),
        "files": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "look_cpu_ms": round(statistics.median(looks), 2),
    }


def say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--turn", type=float, default=0.5)
    hours, turn_s = vars(parser.parse_args()).values()
    told = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "day.trace"
        spawn = get_context("spawn")
        child, orders = spawn.Pipe()
        process = spawn.Process(target=train, args=(folder, turn_s, orders))
        process.start()
        child.recv()
        library = Library()
        trace = library.add(folder)
        for number in range(hours):
            told.append({"hour": number + 1, **hour(child, library, trace, turn_s)})
            say(told[-1])
        child.send(False)
        process.join()
    growth = told[-1]["anonymous_mb"] - told[0]["anonymous_mb"]
    files = {one["files"] for one in told}
    is_flat = growth <= GROWTH_MB and max(one["maps"] for one in told) <= MAPS and len(files) == 1
    say({"growth_mb": growth, "is_flat": is_flat})
    return 0 if is_flat else 1


if __name__ == "__main__":
    sys.exit(main())
