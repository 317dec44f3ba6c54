"""Lets one rank of ten real runs come 20 ms late, and asks the trace which one it was.

Three workers train digits-mlp (multi_worker_mirrored); a kernel of one of them, drawn anew for each
run, sleeps in every step. The analysis must name it as the one that was last most often, and of
every collective the parts must add up to its time: a rank's wait and its hops to its span, to the
nanosecond. Prints JSON, a line a run.

    python -m tests.campaign.late_rank --runs 10 --late-ms 20
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.campaign.sleeper import asleep
from tracer.model.cluster import TaskName
from vizdist.analysis.collectives import Collective, collectives, hops_of, lateness, latest
from vizdist.store.trace import Trace, open_trace

WORKERS, STEPS, FIRST = 3, 15, 3  #: the first ones make graphs and connections
NODE = "relu"  #: of every worker's forward pass


def recorded(folder: Path, late: int, late_ms: float) -> Trace:
    """A run in which worker `late` sleeps."""
    device = TaskName("worker", late).device()
    environment = asleep(folder, {f"{NODE} on {device}": late_ms / 1000})
    out = folder / "run.trace"
    arguments = ["digits-mlp", "--strategy", "multi_worker_mirrored", "--workers", str(WORKERS)]
    command = [sys.executable, "-m", "tracer", "run", *arguments, "--steps", str(STEPS)]
    subprocess.run(
        [*command, "--out", str(out)], check=True, env=os.environ | environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return open_trace(out)


def parts_add_up(trace: Trace, one: Collective) -> bool:
    """Wait and hops of each rank, one after the other, are all of its time."""
    hops = hops_of(trace, one.ranks)
    return all(
        rank.end - rank.arrived
        == rank.wait_ns + sum(hop.end - hop.start for hop in hops[rank.span])
        for rank in one.ranks
    )


def judged(folder: Path, late: int, late_ms: float) -> dict[str, object]:
    trace = recorded(folder, late, late_ms)
    rows = [row for row in lateness(trace) if row.step > FIRST]
    found, all_of_them = latest(rows), collectives(trace)
    assert found is not None, "no step of the run has a collective"
    return {
        "late": late,
        "named": found.rank,
        "in_steps": found.steps,
        "of": found.of,
        "stands_out": found.stands_out,
        "lost_ms_a_step": round(found.lost_ns / found.steps / 1e6, 1),
        "collectives": len(all_of_them),
        "add_up": sum(parts_add_up(trace, one) for one in all_of_them),
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--late-ms", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    dice = random.Random(asked.seed)
    right = 0
    for number in range(asked.runs):
        with tempfile.TemporaryDirectory() as folder:
            told = judged(Path(folder), dice.randrange(WORKERS), asked.late_ms)
        is_right = (told["named"], told["add_up"]) == (told["late"], told["collectives"])
        right += is_right and bool(told["stands_out"])
        sys.stdout.write(json.dumps({"run": number, **told}) + "\n")
        sys.stdout.flush()
    sys.stdout.write(json.dumps({"right": right, "of": asked.runs}) + "\n")
    return 0 if right == asked.runs else 1


if __name__ == "__main__":
    sys.exit(main())
