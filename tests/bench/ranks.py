"""Programs of several processes that run as often as they are told, measured in turns.

A rank says `ready`, then reads counts, a line each, and answers each with the seconds it took. Ways
take turns, a block of a few runs each, so that a noisy minute hits all alike; one of them is the
yardstick: a ratio is its time by another's, over pairs of neighbouring blocks.
"""

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.bench.blocks import spread
from tracer.launch.environment import process_settings

RANKS = 2
READY = "ready"

Way = Callable[[int], float]  # runs so many, gives the seconds
Child = subprocess.Popen[str]


def serve_counts(run: Way) -> None:
    """The rank's side, until standard input ends."""
    print(READY, flush=True)
    for line in sys.stdin:
        print(run(int(line)), flush=True)
    os._exit(0)


@contextmanager
def children(module: str, commands: Sequence[Sequence[str]]) -> Iterator[list[Child]]:
    """Processes of a module of the benchmarks, each with a share of the cores."""
    started = [
        subprocess.Popen(
            [sys.executable, "-m", f"tests.bench.{module}", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**process_settings(len(commands)), **os.environ},
        )
        for words in commands
    ]
    try:
        yield started
    finally:
        for child in started:
            child.kill()
            child.wait(10)


def said(child: Child) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def tell(child: Child, line: str) -> None:
    assert child.stdin is not None
    child.stdin.write(line + "\n")
    child.stdin.flush()


def in_step(ranks: Sequence[Child]) -> Way:
    """All run as many; the slowest one's time counts."""
    for rank in ranks:
        if (word := said(rank)) != READY:
            raise RuntimeError(f"a rank said {word!r} in place of {READY!r}: {rank.args!r}")

    def run(times: int) -> float:
        for rank in ranks:
            tell(rank, str(times))
        return max(float(said(rank)) for rank in ranks)

    return run


class _Cost(NamedTuple):
    """Of a run; what is not time of the wall is of all processes."""

    wall_s: float
    cpu_s: float
    page_faults: float


def measure(
    ways: Mapping[str, tuple[Way, Sequence[int]]], yardstick: str, blocks: int, each: int
) -> dict[str, dict[str, object]]:
    """`ways` have the ids of their processes; `each` runs make a block."""
    for run, _ in ways.values():
        run(each)
    done: dict[str, list[_Cost]] = {name: [] for name in ways}
    for number in range(blocks):
        order = list(ways) if number % 2 else list(ways)[::-1]
        for name in order:
            run, pids = ways[name]
            cpu_s, faults = _cpu_s(pids), _page_faults(pids)
            took = run(each)
            costs = took, _cpu_s(pids) - cpu_s, _page_faults(pids) - faults
            done[name].append(_Cost(*(cost / each for cost in costs)))
    return {name: _told(found, done[yardstick]) for name, found in done.items()}


def _cpu_s(pids: Sequence[int]) -> float:
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(each.user + each.system for each in times)


def _page_faults(pids: Sequence[int]) -> int:
    """Pages that were touched for the first time; field 10 of a process's `stat`."""
    stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(stat[10 - 3]) for stat in stats)


def _told(done: Sequence[_Cost], raw: Sequence[_Cost]) -> dict[str, object]:
    pairs = list(zip(raw, done, strict=True))
    return {
        "ms": spread([1e3 * cost.wall_s for cost in done]),
        "cpu_ms": round(1e3 * statistics.median(cost.cpu_s for cost in done), 3),
        "page_faults": round(statistics.mean(cost.page_faults for cost in done)),
        "ratio": spread([a.wall_s / b.wall_s for a, b in pairs]),
        "cpu_ratio": round(statistics.median(a.cpu_s / max(b.cpu_s, 1e-9) for a, b in pairs), 3),
    }
