"""Interleaved blocks: two programs take turns in one run, so that a noisy minute hits both alike.

A peer is a process that reads `BLOCK SECONDS VARIANT` lines and answers each with one JSON object
{"steps": n, "seconds": s, "cpu_seconds": c}. `ratios` runs them A B B A … and gives medians.
"""

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def serve_blocks(run: Callable[[str, float], Mapping[str, float]]) -> None:
    """The peer's side: says `ready`, then runs a block a line until standard input ends."""
    print("ready", flush=True)
    for line in sys.stdin:
        seconds, variant = line.split()
        print(json.dumps(run(variant, float(seconds))), flush=True)


def drive(
    works: Sequence[Callable[[], object]], seconds: float, cpu: Callable[[], float]
) -> Mapping[str, float]:
    """Each piece of work again and again on a thread of its own: a peer's answer for a block."""
    counts = [0] * len(works)
    before, began = cpu(), time.perf_counter()

    def repeat(number: int) -> None:
        while time.perf_counter() - began < seconds:
            works[number]()
            counts[number] += 1

    threads = [threading.Thread(target=repeat, args=(i,)) for i in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    return {"steps": sum(counts), "seconds": took, "cpu_seconds": cpu() - before}


def at_once(works: Sequence[Callable[[], object]]) -> Callable[[], None]:
    """One piece of work: all of these side by side, until the last has ended."""
    first, *others = works
    pool = ThreadPoolExecutor(len(others))

    def work() -> None:
        running = [pool.submit(other) for other in others]
        first()
        for one in running:
            one.result()

    return work


class Peer:
    """The driver's side of one peer process."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self._process.stdout is not None
        while (line := self._process.stdout.readline()) != "ready\n":
            if not line:
                raise RuntimeError(f"{name} ended before it was ready: {' '.join(command)}")

    def block(self, variant: str, seconds: float) -> Mapping[str, float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{seconds} {variant}\n")
        self._process.stdin.flush()
        answer: Mapping[str, float] = json.loads(self._process.stdout.readline())
        return answer

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and quartiles, three figures."""
    low, middle, high = statistics.quantiles(values, n=4)
    return {"median": round(middle, 3), "p25": round(low, 3), "p75": round(high, 3)}


def interleave(
    one: tuple[Peer, str], other: tuple[Peer, str], rounds: int, seconds: float
) -> dict[str, Any]:
    """Blocks of (peer, variant) in the order A B B A …; `ratio` is one's rate over the other's."""
    pairs: list[tuple[Mapping[str, float], Mapping[str, float]]] = []
    for number in range(rounds):
        order = (one, other) if number % 2 == 0 else (other, one)
        got = {side: side[0].block(side[1], seconds) for side in order}
        pairs.append((got[one], got[other]))
    sides = list(zip(*pairs, strict=True))
    rate = [[block["steps"] / block["seconds"] for block in side] for side in sides]
    cost = [[1e6 * b["cpu_seconds"] / b["steps"] for b in side] for side in sides]
    first, second = (f"{peer.name} {variant}" for peer, variant in (one, other))
    return {
        "rounds": rounds,
        f"{first}: steps_per_s": spread(rate[0]),
        f"{second}: steps_per_s": spread(rate[1]),
        "ratio of rates": spread([a / b for a, b in zip(*rate, strict=True)]),
        f"{first}: cpu_us_per_step": spread(cost[0]),
        f"{second}: cpu_us_per_step": spread(cost[1]),
    }
