"""Follows a run for a day of simulated time and tells, hour by hour, what that holds in memory.

A recorder records two steps a second, the collector's sink takes a turn every `--turn` seconds, and
a listener looks after each, as it would live (a collector's real turn is 0.5 s). Nothing may grow with time but the files: at the end it
says whether memory, maps and open files stayed flat, and exits with 1 if they did not.

    python -m tests.campaign.follow_a_day --hours 24 --turn 5
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
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


def hour(run: GrowingRun, library: Library, trace: str, turn_s: float) -> dict[str, Any]:
    looks = []
    for _ in range(round(3600 / turn_s)):
        for _ in range(round(STEPS / 3600 * turn_s)):
            run.step()
        run.turn()
        begin = time.thread_time()
        state = state_of(library.open(trace), library.outcome(trace))
        looks.append((time.thread_time() - begin) * 1000)
        assert state["spans"] == 4 * run.steps
        assert state["step"] == run.steps
    return {
        "steps": run.steps,
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
        run = GrowingRun(Path(name) / "day.trace", steps=hours * STEPS)
        library = Library()
        trace = library.add(run.folder)
        for number in range(hours):
            told.append({"hour": number + 1, **hour(run, library, trace, turn_s)})
            say(told[-1])
        run.end()
    growth = told[-1]["anonymous_mb"] - told[0]["anonymous_mb"]
    files = {one["files"] for one in told}
    is_flat = growth <= GROWTH_MB and max(one["maps"] for one in told) <= MAPS and len(files) == 1
    say({"growth_mb": growth, "is_flat": is_flat})
    return 0 if is_flat else 1


if __name__ == "__main__":
    sys.exit(main())
