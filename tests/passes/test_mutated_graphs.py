"""Graph files with faults: each is cut or refused in words, whatever is wrong with it."""

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.golden_cases import CONTROL_FLOW_CASES, GOLDEN
from tracer.model.graph_json import graph_file_from_json
from tracer.model.refusal import Refusal
from tracer.passes.describe import describe_graph_file
from tracer.passes.placer import Placer

Nodes = list[dict[str, Any]]
DEVICES = ("", "/job:ps", "/job:worker/task:1", "/device:CPU:0", "/device:GPU:0")
ROUNDS = 30


def lose_an_input(node: dict[str, Any], _nodes: Nodes, draw: random.Random) -> None:
    if node["inputs"]:
        node["inputs"].pop(draw.randrange(len(node["inputs"])))


def gain_an_input(node: dict[str, Any], nodes: Nodes, draw: random.Random) -> None:
    node["inputs"].append(f"{draw.choice(nodes)['name']}:{draw.randint(0, 2)}")


def wait_for_another(node: dict[str, Any], nodes: Nodes, draw: random.Random) -> None:
    node.setdefault("control_inputs", []).append(draw.choice(nodes)["name"])


def change_op(node: dict[str, Any], nodes: Nodes, draw: random.Random) -> None:
    node["op"] = draw.choice(nodes)["op"]


def move(node: dict[str, Any], _nodes: Nodes, draw: random.Random) -> None:
    node["requested_device"] = draw.choice(DEVICES)


def lose_an_attribute(node: dict[str, Any], _nodes: Nodes, draw: random.Random) -> None:
    if node.get("attrs"):
        node["attrs"].pop(draw.choice(list(node["attrs"])))


def vanish(node: dict[str, Any], nodes: Nodes, _draw: random.Random) -> None:
    nodes.remove(node)


FAULTS: tuple[Callable[[dict[str, Any], Nodes, random.Random], None], ...] = (
    lose_an_input,
    gain_an_input,
    wait_for_another,
    change_op,
    move,
    lose_an_attribute,
    vanish,
)


@pytest.mark.parametrize("placer", ["tf", "cost"])
@pytest.mark.parametrize("case", CONTROL_FLOW_CASES)
def test_a_faulty_graph_is_cut_or_refused_in_words(case: str, placer: str) -> None:
    draw, outcomes = random.Random(case), Counter[str]()
    for _ in range(ROUNDS):
        raw = json.loads((GOLDEN / f"{case}__grpc.json").read_text())
        nodes = raw["client_graph"]
        for _ in range(draw.randint(1, 3)):
            draw.choice(FAULTS)(draw.choice(nodes), nodes, draw)
        try:
            describe_graph_file(graph_file_from_json(raw), placer=Placer(placer))
            outcomes["cut"] += 1
        except Refusal:
            outcomes["refused"] += 1
    assert outcomes["cut"] > 0
    assert outcomes["refused"] > 0
