"""Turns of replica threads at build time, devices at run time, and what runs where."""

from pathlib import Path

import numpy as np
import pytest

from tests.analysis.test_collectives import run
from tracer.model.graph_table import NodeRow
from vizdist.analysis.collectives import of_step
from vizdist.analysis.replicas import (
    Build,
    Turn,
    Work,
    builds,
    mechanisms,
    overlap,
    role_of,
    works,
)
from vizdist.components.strategy_cards import build_sentence
from vizdist.figures.strategy import build_lanes, run_lanes
from vizdist.store.trace import Trace

MS = 1_000_000


def turn(replica: int | None, start: int, end: int, ended: str = "merge") -> Turn:
    return Turn(replica, "CPU:0", 0, start, end, 3, ended, "ab")


def work(*stretches: tuple[int, int]) -> Work:
    starts, ends = np.array(stretches, np.int64).reshape(-1, 2).T
    return Work("worker:0", "CPU:0", 0, 0, {}, int((ends - starts).sum()), starts, ends)


def row(name: str, op: str) -> NodeRow:
    return NodeRow(name, op, (), "", "", "", "", (), 0, "", {})


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return run(tmp_path_factory.mktemp("ring"), [[0, 1 * MS, 9 * MS]])


def test_a_baton_lets_no_two_replicas_build_at_once() -> None:
    one_by_one = Build("worker:0", (turn(0, 0, 5), turn(1, 5, 9), turn(None, 9, 12)))
    assert (one_by_one.replicas, one_by_one.merges, one_by_one.together) == ([0, 1], 1, 0)
    assert Build("worker:0", (turn(0, 0, 6), turn(1, 5, 9))).together == 1
    told = "".join(str(getattr(p, "children", p)) for p in build_sentence([one_by_one], "en") or ())
    assert "2 replica threads took 2 turns, no two at once, and met in 1 merge." in told


def test_lanes_of_the_build_hand_the_baton_from_turn_to_turn() -> None:
    picture = build_lanes(Build("w", (turn(0, 10, 15), turn(1, 16, 19), turn(None, 20, 30))), "en")
    assert [lane["title"] for lane in picture["lanes"]] == ["replica 0", "replica 1", "merge"]
    assert picture["batons"] == [[0, 5, 1, 6], [1, 9, 2, 10]]
    assert picture["total"] == 20


def test_devices_overlap_where_two_are_at_work() -> None:
    found = overlap([work((0, 10), (20, 30)), work((5, 25))])
    assert (found.one_ns, found.two_ns) == (30, 10)
    assert overlap([]).share == 0


def test_a_node_is_forward_backward_reduce_or_update() -> None:
    assert role_of(row("fc1/addmm", "aten.addmm.default")) == "forward"
    assert role_of(row("replica_1/gradients/fc1/mm", "aten.mm.default")) == "backward"
    assert role_of(row("AddN", "AddN")) == "reduce"
    assert role_of(row("all_reduce/CollectiveReduceV2", "CollectiveReduceV2")) == "reduce"
    assert role_of(row("train/update_w", "ResourceApplyGradientDescent")) == "update"


def test_every_device_of_a_step_has_its_row_and_its_lane(ring: Trace) -> None:
    step = ring.step(1)
    rows = works(ring, [step])
    assert [(one.task, one.device) for one in rows] == [
        ("worker:0", "CPU:0"), ("worker:0", "CPU:1"), ("worker:0", "CPU:2"),
    ]  # fmt: skip
    assert [one.nodes["reduce"] for one in rows] == [1, 1, 1]
    picture = run_lanes(ring, [step], rows)
    assert picture is not None
    assert len(picture["lanes"]) == 3
    assert all(bar["end"] <= picture["total"] for lane in picture["lanes"] for bar in lane["bars"])


def test_a_step_says_what_it_used(ring: Trace) -> None:
    used = mechanisms(ring, [ring.step(1)])
    assert (used.collectives, used.ranks, used.turns) == (1, 3, 0)
    [one] = of_step(ring, 1)
    assert used.passed == sum(rank.sent_bytes for rank in one.ranks) > 0
    assert builds(ring) == ()


def test_of_a_run_without_replicas_the_build_says_so(tmp_path: Path) -> None:
    told = "".join(str(getattr(p, "children", p)) for p in build_sentence([], "en") or ())
    assert told.startswith("Each client built its graph alone")
