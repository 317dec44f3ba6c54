"""Our cut of a graph against what TensorFlow did with it."""

import json
from collections import Counter
from typing import Any

import pytest

from tests.cuts import cut_of
from tests.golden_cases import CASES, CONTROL_FLOW_CASES, GOLDEN, RANDOM_CASES
from tracer.cli import main
from tracer.model.graph_json import GraphFile, graph_file_from_json, graph_to_json
from tracer.passes.describe import cut_graph_file, describe_graph_file

#: cases whose graphs hold small constants used on two devices, which TensorFlow copies
REPLICATED = (
    "i_const",
    "ix_partitioned_ref_mod",
    "ix_partitioned_resource_div",
    "viii_mlp_momentum_2ps",
    "viii_mlp_ref_2ps",
    *RANDOM_CASES,
)
FILES = [
    f"{case}__{runtime}"
    for case in (*CASES, *CONTROL_FLOW_CASES, *RANDOM_CASES, "xii_kernel_error")
    for runtime in ("grpc", "direct")
    if (GOLDEN / f"{case}__{runtime}.json").exists()
]


def golden(case: str) -> dict[str, Any]:
    raw: dict[str, Any] = json.loads((GOLDEN / f"{case}.json").read_text())
    return raw


def given(case: str) -> GraphFile:
    raw = golden(case)
    if "_2ps_" in case:  # the file's letters leave the second ps out
        raw["devices"] = {"ps": 2, "worker": 2}
    return graph_file_from_json(raw)


def ours(case: str) -> dict[str, Any]:
    passes = ["replicate_small_constants"] if case.partition("__")[0] in REPLICATED else []
    return describe_graph_file(given(case), passes)


def theirs(case: str) -> dict[str, Any]:
    summary: dict[str, Any] = golden(case)["summary"]
    return summary


@pytest.mark.parametrize("case", FILES)
def test_the_cut_is_tensorflows(case: str) -> None:
    raw = golden(case)
    assert cut_of(raw, ours(case)) == cut_of(raw, theirs(case))


@pytest.mark.parametrize("case", FILES)
def test_every_node_sits_where_tensorflow_put_it(case: str) -> None:
    raw = golden(case)
    partitions = raw["partitions"]
    expected = {node["name"]: device for device, nodes in partitions.items() for node in nodes}
    got = {row["node"]: row["device"] for row in ours(case)["placements"]}
    stable = {row["name"] for row in raw["client_graph"]} & expected.keys()
    assert {name: got[name] for name in stable} == {name: expected[name] for name in stable}


def control_loops(partitions: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """By device, each node of its control loops, with the ops that it takes its inputs from."""

    def shape(node: dict[str, Any], op_of: dict[str, str]) -> str:
        names = [name.partition(":") for name in node["inputs"]]
        inputs = [f"{op_of[name]}:{port or 0}" for name, _, port in names]
        controls = [op_of[name] for name in node.get("control_inputs", ())]
        attrs = node.get("attrs", {})
        told = [attrs.get(name) for name in ("frame_name", "parallel_iterations", "is_constant")]
        return f"{node['op']}({', '.join(inputs)}) after {controls}, {told}"

    return {
        device: Counter(
            shape(node, {other["name"]: other["op"] for other in nodes})
            for node in nodes
            if node["name"].startswith("_cloop") and node["op"] != "Const"
        )
        for device, nodes in partitions.items()
    }


@pytest.mark.parametrize("case", [name for name in FILES if name.startswith("vi")])
def test_control_loops_turn_as_tensorflows(case: str) -> None:
    _, parts = cut_graph_file(given(case))
    got = {part.place: graph_to_json(part.graph) for part in parts}
    assert control_loops(got) == control_loops(golden(case)["partitions"])


def test_without_the_pass_small_constants_are_sent() -> None:
    file = given("i_const__grpc")
    sources = Counter(row["source"] for row in describe_graph_file(file)["transfers"])
    assert sources["both1"] == 1
    assert "both1" not in {row["source"] for row in ours("i_const__grpc")["transfers"]}


def test_the_command_prints_the_fields_of_a_golden_summary(
    capsys: pytest.CaptureFixture[str],
) -> None:
    case = "i_const__grpc"
    request = ["partition", str(GOLDEN / f"{case}.json"), "--json"]
    assert main([*request, "--passes", "replicate_small_constants"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == ours(case)
    assert theirs(case).keys() | {"placements"} == printed.keys()
