"""Says what three real runs would take if something were faster, makes it so, and runs them again.

Every task is a process of its own. Kernels sleep, or frames come late (--fault). A what-if of a
step of median length is compared with the median of ten steps with the sleep taken away or halved;
it must come within 15 %.

    python -m tests.campaign.what_if_comes_true
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.campaign.sleeper import asleep
from vizdist.analysis.what_if import Change, what_if
from vizdist.store.trace import StepInfo, open_trace

STEPS, FIRST = 13, 3  #: the first ones make graphs and connections
WITHIN = 0.15


@dataclass(frozen=True)
class Run:
    """A workload with its options, and seconds that the kernels of some nodes sleep."""

    arguments: tuple[str, ...]
    sleeps: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    name: str
    slow: Run
    change: Change
    fast: Run


def node(name: str, op: str, task: str, *inputs: str, **attrs: object) -> dict[str, object]:
    given = attrs or {"T": "float32"}
    return {"name": name, "op": op, "inputs": inputs, "requested_device": task, "attrs": given}


PS, LEFT, RIGHT = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"

#: from the ps over both workers and back
BRANCHES = {
    "client_graph": [
        node("one", "Const", PS, dtype="float32", const_shape=[1], const_value=[1.0]),
        node("start", "Abs", PS, "one"),
        node("left", "Neg", LEFT, "start"),
        node("left2", "Square", LEFT, "left"),
        node("right", "Neg", RIGHT, "start"),
        node("join", "AddV2", PS, "left2", "right"),
    ],
    "run": {"init": None, "feeds": {}, "fetches": ["join:0"]},
    "devices": {"A": PS, "B": LEFT, "C": RIGHT},
}


def scenarios(graph: Path) -> tuple[Scenario, ...]:
    branches = (str(graph),)
    digits = ("digits-mlp", "--strategy", "parameter_server_v1", "--ps", "1", "--workers", "1")
    both = {"right": 0.12, "join": 0.04}
    worker = "/job:worker/replica:0/task:0/device:CPU:0"
    return (
        Scenario(
            "an op is free",
            Run(branches, both | {"left": 0.2}),
            Change("op", "left"),
            Run(branches, both),
        ),
        Scenario(
            "a link is twice as fast",
            Run((*digits, "--fault", "delay=120:ps:0@step:1")),
            Change("link", "worker:0→ps:0"),
            Run((*digits, "--fault", "delay=60:ps:0@step:1")),
        ),
        Scenario(
            "a device is twice as fast",
            Run(branches, both | {"left": 0.16, "left2": 0.1}),
            Change("device", worker),
            Run(branches, both | {"left": 0.08, "left2": 0.05}),
        ),
    )


def steps_of(run: Run, folder: Path, name: str) -> list[tuple[StepInfo, Path]]:
    """The steps of a run once all is made, in order of their length."""
    out = folder / f"{name}.trace"
    command = [sys.executable, "-m", "tracer", "run", *run.arguments, "--steps", str(STEPS)]
    subprocess.run(
        [*command, "--out", str(out)], check=True, env=os.environ | asleep(folder, run.sleeps),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    steps = [step for step in open_trace(out).steps if step.number > FIRST]
    return [(step, out) for step in sorted(steps, key=lambda step: step.duration)]


def tried(scenario: Scenario, folder: Path) -> dict[str, object]:
    slow = steps_of(scenario.slow, folder, "slow")
    step, out = slow[len(slow) // 2]
    found = what_if(open_trace(out), step, scenario.change)
    assert found is not None, f"nothing in the step is changed by {scenario.change}"
    again = [one.duration for one, _ in steps_of(scenario.fast, folder, "fast")]
    middle = statistics.median(again)
    return {
        "scenario": scenario.name,
        "took_ms": round(found.took / 1e6, 1),
        "would_take_ms": round(found.would_take / 1e6, 1),
        "took_again_ms": round(middle / 1e6, 1),
        "off_percent": round(100 * (found.would_take - middle) / middle, 1),
        "steps": len(again),
    }


def main() -> int:
    is_true = True
    with tempfile.TemporaryDirectory() as base:
        graph = Path(base) / "branches.json"
        graph.write_text(json.dumps(BRANCHES))
        for number, scenario in enumerate(scenarios(graph)):
            folder = Path(base) / str(number)
            folder.mkdir()
            told = tried(scenario, folder)
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()
            is_true &= abs(float(str(told["off_percent"]))) <= 100 * WITHIN
    return 0 if is_true else 1


if __name__ == "__main__":
    sys.exit(main())
