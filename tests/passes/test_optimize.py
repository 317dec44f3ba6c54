"""Optimizations change what is computed where and when, never what comes out."""

import json
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given

from tests.clusters import TestCluster, running_cluster
from tests.fakes import SpanData
from tests.golden_cases import GOLDEN
from tests.passes.placed_graphs import placed_graphs
from tracer.model.cluster import ClusterSpec
from tracer.model.graph import Graph, Input, Literal, Node, Partition
from tracer.model.graph_builder import GraphBuilder
from tracer.model.graph_json import read_graph_file
from tracer.model.literal import value_of
from tracer.ops.dtypes import literal_to_tensor
from tracer.ops.registry import lookup
from tracer.passes.describe import describe_graph_file
from tracer.passes.keys import RECVS
from tracer.passes.optimizations import schedule
from tracer.passes.optimizations.schedule import PREFETCH, latest_starts, schedule_recvs
from tracer.passes.optimize import (
    MOVED,
    OPTIMIZATIONS,
    PLACED,
    named_passes,
    optimize,
    optimize_cut,
)
from tracer.passes.partition import check_partitions, partition_by_device, partition_by_worker

PS, WORKER = "/job:ps/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:0/device:CPU:0"
CLUSTER = ClusterSpec.of_counts(ps=1, worker=1)
LIVES = {PS: 1, WORKER: 2}
DTYPES = {float: "float32", int: "int32", str: "string"}


def op(name: str, kind: str, *inputs: str, on: str = WORKER, after: str = "", **attrs: Any) -> Node:
    controls = (after,) if after else ()
    sources = tuple(map(Input.parse, inputs))
    return Node(name, kind, sources, controls, on, on, "requested", attrs or {"T": "float32"})


def const(name: str, value: Any, on: str = WORKER, after: str = "") -> Node:
    builder = GraphBuilder()
    first = value[0] if isinstance(value, list) else value
    builder.const(value, DTYPES[type(first)], name=name)
    controls = (after,) if after else ()
    return builder.graph()[name].with_(
        requested_device=on, device=on, reason="requested", control_inputs=controls
    )


def run(graph: Graph, *fetches: str, passes: tuple[str, ...] = (), kind: str = "near") -> list[Any]:
    with running_cluster(kind, CLUSTER, trace=False, passes=passes) as cluster:
        return list(cluster.session(graph).run(list(fetches)))


def data_recvs(cluster: TestCluster) -> list[SpanData]:
    """Of worker:0, whatever the client fetches."""
    spans = [span for span in cluster.spans("rendezvous.recv") if span.task == "worker:0"]
    return [span for span in spans if span.attributes["vizdist.edge.kind"] == "data"]


def bf16_loss(values: list[Any], exact: list[Any]) -> float:
    return max(
        float(((value - true).abs() / true.abs()).max())
        for value, true in zip(values, exact, strict=True)
    )


# --- constant folding


@pytest.mark.parametrize("runtime", ["direct", "grpc"])
def test_a_diamond_of_constants_folds_as_tensorflows_does(runtime: str) -> None:
    path = GOLDEN / f"iii_diamond_optimized__{runtime}.json"
    expected = json.loads(path.read_text())["summary"]
    got = describe_graph_file(read_graph_file(path), ["fold_constants"])
    assert got["counts"] == expected["counts"]
    assert got["dropped_client_nodes"] == expected["dropped_client_nodes"]
    fields = ("kind", "source", "send_device", "recv_device", "dtype", "consumers")
    rows = [[[row[f] for f in fields] for row in s["transfers"]] for s in (got, expected)]
    assert rows[0] == rows[1]


def test_a_folded_node_keeps_its_name_its_device_and_what_its_operands_waited_for() -> None:
    graph = Graph(
        [
            op("first", "NoOp"),
            const("a", [1.0, 2.0], after="first"),
            const("b", 3.0),
            op("sum", "AddV2", "a", "b", on=PS),
            op("out", "Neg", "sum"),
            op("seen", "Assert", "b"),
        ]
    )
    folded = optimize(graph, ["fold_constants"])
    assert list(folded) == ["first", "b", "out", "seen"]
    out = folded["out"]
    assert (out.op, out.device, out.control_inputs) == ("Const", WORKER, ("first",))
    assert value_of(out.attrs["value"]) == [-4.0, -5.0]


def test_what_may_differ_from_step_to_step_is_not_folded() -> None:
    graph = Graph(
        [
            const("shape", [2, 2]),
            op("drawn", "RandomUniform", "shape", dtype="float32", seed=1),
            op("v", "VarHandleOp", dtype="float32", shape=[]),
            op("fed", "Placeholder", dtype="float32", shape=[]),
            op("sum", "AddV2", "fed", "fed"),
            op("fails", "MatMul", "shape", "shape"),
        ]
    )
    assert optimize(graph, ["fold_constants"]) == graph


def test_a_constant_is_not_blown_up() -> None:
    graph = Graph([const("dims", [300, 300]), const("x", 1.0), op("big", "Fill", "dims", "x")])
    assert optimize(graph, ["fold_constants"])["big"].op == "Fill"
    far = Graph([const("dims", [10**6, 10**6]), const("x", 1.0), op("big", "Fill", "dims", "x")])
    assert optimize(far, ["fold_constants"])["big"].op == "Fill"  # 4 TB, never made
    text = Graph([const("word", "a"), op("same", "Identity", "word", T="string")])
    assert optimize(text, ["fold_constants"])["same"].op == "Const"


# --- common subexpressions


def test_equal_nodes_on_one_device_are_computed_once() -> None:
    graph = Graph(
        [
            op("x", "Placeholder", dtype="float32", shape=[2]),
            const("one", 1.0),
            const("uno", 1.0),
            op("a", "AddV2", "x", "one"),
            op("b", "AddV2", "uno", "x"),
            op("far", "AddV2", "x", "one", on=PS),
            op("late", "AddV2", "x", "one", after="far"),
            op("minus", "Sub", "x", "one"),
            op("sunim", "Sub", "one", "x"),
            op("out", "Mul", "a", "b"),
        ]
    )
    merged = optimize(graph, ["merge_common_subexpressions"])
    assert graph.keys() - merged.keys() == {"uno", "b"}
    assert merged["out"].inputs == (Input("a"), Input("a"))


def test_draws_and_reads_of_variables_stay_apart() -> None:
    graph = Graph(
        [
            const("shape", [2]),
            op("u", "RandomUniform", "shape", dtype="float32", seed=1),
            op("w", "RandomUniform", "shape", dtype="float32", seed=1),
            op("v", "VariableV2", dtype="float32", shape=[]),
            op("before", "Identity", "v"),
            op("after", "Identity", "v"),
        ]
    )
    assert optimize(graph, ["merge_common_subexpressions"]) == graph


# --- bfloat16 between tasks


def halves() -> Graph:
    """A product on ps:0 that worker:0 reads twice, behind a signal."""
    thirds = [1 / 3, -2 / 3, 1e30, 1e-30]
    return Graph(
        [
            const("w", thirds, on=PS),
            op("p", "Identity", "w", on=PS),
            const("n", [1, 2], on=PS),
            op("whole", "Identity", "n", on=PS, T="int32"),
            op("x", "Identity", "p", after="p"),
            op("y", "Neg", "p"),
            op("z", "Neg", "whole", T="int32"),
        ]
    )


def test_only_float32_between_tasks_is_cast_and_once_for_each_task() -> None:
    sent = optimize(halves(), ["send_bf16"])
    casts = {name: node for name, node in sent.items() if node.op == "Cast"}
    assert sorted(node.device for node in casts.values()) == [PS, WORKER]
    assert sent["x"].inputs == sent["y"].inputs
    assert sent["x"].control_inputs == ("p",)
    assert sent["z"].inputs == (Input("whole"),)
    parts = partition_by_worker(sent, LIVES)
    check_partitions(sent, parts)
    sends = [n.attrs["T"] for part in parts for n in part.graph.nodes if n.op == "_Send"]
    assert sorted(sends) == ["bfloat16", "float32", "int32"]  # float32: the empty control signal


def test_bytes_halve_and_the_error_is_that_of_bfloat16(
    start_cluster: Callable[..., TestCluster],
) -> None:
    fetches = ["x:0", "y:0"]
    exact = run(halves(), *fetches)
    num_bytes = {}
    for passes in ((), ("send_bf16",)):
        cluster = start_cluster(CLUSTER, passes=passes)
        values = cluster.session(halves()).run(fetches)
        num_bytes[passes] = sum(span.num_bytes for span in data_recvs(cluster))
        assert bf16_loss(values, exact) <= (2**-8 if passes else 0)
    assert num_bytes["send_bf16",] * 2 == num_bytes[()] == 16


# --- when recvs begin


def chain(length: int) -> Graph:
    """ps:0 gives a value early, which worker:0 needs at the end of a chain of its own."""
    steps = [op(f"s{i}", "Neg", f"s{i - 1}" if i else "start") for i in range(length)]
    return Graph(
        [
            const("early", [1.0, 2.0], on=PS),
            op("sent", "Identity", "early", on=PS),
            const("start", [1.0, 1.0]),
            *steps,
            op("out", "AddV2", f"s{length - 1}", "sent"),
        ]
    )


def recvs(parts: list[Partition]) -> list[Node]:
    return [node for part in parts for node in part.graph.nodes if node.op in RECVS]


def test_times_are_as_late_as_the_longest_path_lets_them_be() -> None:
    starts = latest_starts(chain(10))
    assert (starts["start"], starts["s0"], starts["out"]) == (0, 1, 11)
    assert (starts["early"], starts["sent"]) == (9, 10)


def test_a_recv_waits_until_some_epochs_before_its_value_is_needed() -> None:
    graph = chain(20)
    (recv,) = recvs(schedule_recvs(graph, partition_by_worker(graph, LIVES)))
    (trigger,) = recv.control_inputs
    assert trigger == f"s{20 - PREFETCH}/synch_{21 - PREFETCH}"
    (soon,) = recvs(schedule_recvs(chain(4), partition_by_worker(chain(4), LIVES)))
    assert not soon.control_inputs


def test_of_a_long_graph_an_epoch_holds_several_nodes() -> None:
    graph = chain(500)
    (recv,) = recvs(schedule_recvs(graph, partition_by_worker(graph, LIVES)))
    first, epoch = recv.control_inputs[0].split("/synch_")
    assert int(epoch) == 501 // 6 - PREFETCH
    assert first == f"s{int(epoch) * 6 - 1}"


def test_a_scheduled_recv_is_asked_for_after_the_work_it_waits_for(
    start_cluster: Callable[..., TestCluster],
) -> None:
    began = {}
    for passes in ((), ("schedule_recvs",)):
        cluster = start_cluster(CLUSTER, passes=passes)
        (value,) = cluster.session(chain(20)).run(["out:0"])
        assert value.tolist() == [2.0, 3.0]
        ends = {span.name: span.end for span in cluster.spans("op.run")}
        (recv,) = data_recvs(cluster)
        began[passes] = recv.start - ends[f"s{20 - PREFETCH}"]
    assert began[()] < 0 <= began["schedule_recvs",]


def ladder(rungs: int) -> Graph:
    """ps:0 gives values, the last first, which worker:0 adds up, the first first."""
    nodes = [const("sum0", 0.0)]
    for i in range(rungs):
        later = f"p{i + 1}" if i + 1 < rungs else ""
        nodes.append(const(f"c{i}", 1.0, on=PS))
        nodes.append(op(f"p{i}", "Identity", f"c{i}", on=PS, after=later))
        nodes += [op(f"x{i}", "Neg", f"sum{i}"), op(f"y{i}", "Neg", f"x{i}")]
        nodes.append(op(f"sum{i + 1}", "AddV2", f"y{i}", f"p{i}"))
    return Graph(nodes)


def most_at_once(cluster: TestCluster) -> int:
    """How many received values lay about, not added yet."""
    ends = {span.name: span.end for span in cluster.spans("op.run")}
    changes: list[tuple[int, int]] = []
    for recv in data_recvs(cluster):
        number = int(recv.name.removeprefix("p").partition("_")[0])
        changes += [(recv.end, 1), (ends[f"sum{number + 1}"], -1)]
    return max(accumulate(change for _, change in sorted(changes)))


def test_values_that_are_needed_later_do_not_pile_up(
    start_cluster: Callable[..., TestCluster],
) -> None:
    piled = {}
    for passes in ((), ("schedule_recvs",)):
        cluster = start_cluster(CLUSTER, passes=passes)
        assert cluster.session(ladder(20)).run("sum20:0").item() == 20.0
        piled[passes] = most_at_once(cluster)
    assert piled["schedule_recvs",] <= PREFETCH < piled[()]


@given(placed_graphs())
def test_no_recv_waits_for_what_needs_its_value(graph: Graph) -> None:
    lives = dict.fromkeys((node.device for node in graph.nodes), 1)
    with patch.object(schedule, "PREFETCH", 1):  # small graphs have few epochs
        parts = schedule_recvs(graph, partition_by_worker(graph, lives))
    waits: dict[str, list[str]] = {}
    for part in parts:
        for recv in recvs([part]):
            for trigger in recv.control_inputs:
                last = part.graph[trigger].control_inputs
                for edge in part.graph.out_edges(recv.name):
                    waits.setdefault(edge.dst, []).extend(last)
    joined = (
        node.with_(control_inputs=(*node.control_inputs, *waits.get(node.name, ())))
        for node in graph.nodes
    )
    known = set(graph)
    Graph(
        node.with_(control_inputs=tuple(c for c in node.control_inputs if c in known))
        for node in joined
    ).topological()


# --- all of them


@given(placed_graphs())
def test_any_graph_can_still_be_cut(graph: Graph) -> None:
    known = {"Op": lookup("AddV2")}
    placed = optimize(graph, (*PLACED, *MOVED), lambda name: known.get(name) or lookup(name))
    lives = dict.fromkeys((node.device for node in graph.nodes), 1)
    parts = optimize_cut(placed, partition_by_worker(placed, lives), OPTIMIZATIONS)
    for part in parts:
        part.graph.topological()
    check_partitions(placed, [d for part in parts for d in partition_by_device(part.graph, lives)])


@pytest.mark.parametrize(
    "passes", [tuple(PLACED)[:3], ("send_bf16",), ("schedule_recvs",), OPTIMIZATIONS]
)
@pytest.mark.parametrize(
    "name",
    [
        *("i_const__grpc", "ix_partitioned_ref_mod__grpc", "viii_mlp_ref_1ps__grpc"),
        *("v_cond__grpc", "vii_nested_while__grpc"),
        *("xiv_random_017__grpc", "xiv_random_155__grpc"),
    ],
)
def test_a_golden_graph_gives_the_same_with_passes(name: str, passes: tuple[str, ...]) -> None:
    file, expected = read_graph_file(GOLDEN / f"{name}.json"), result_of(name)
    counts = Counter(device.task_name for device in file.devices)
    devices = {task: ("cpu:0",) * count for task, count in counts.items()}
    tolerance = 2**-6 if "send_bf16" in passes else 1e-6
    with running_cluster("near", file.cluster, passes=passes, devices=devices) as cluster:
        session = cluster.session(file.graph, file.client_device.task_name)
        if file.run.init:
            session.run(file.run.init)
        feeds = {name: literal_to_tensor(value) for name, value in file.run.feeds.items()}
        values = session.run(file.run.names, feeds)
    for fetch, value in zip(file.run.names, values, strict=True):
        if expected[fetch] is None or isinstance(value, Literal):
            continue
        true = torch.tensor(expected[fetch], dtype=value.dtype)
        torch.testing.assert_close(value, true, rtol=tolerance, atol=tolerance)


def result_of(name: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())["result"]
    return result


def test_the_trace_says_what_each_pass_did(start_cluster: Callable[..., TestCluster]) -> None:
    file = read_graph_file(GOLDEN / "iii_diamond_optimized__grpc.json")
    cluster = start_cluster(file.cluster, passes=("fold_constants", "schedule_recvs"))
    assert cluster.session(file.graph).run("bottom:0").tolist() == [0.0, 2.0, 6.0]
    fold, schedule = cluster.spans("graph.optimize")
    told = fold.attributes
    assert (fold.name, told["vizdist.pass.name"]) == ("fold_constants", "fold_constants")
    assert (told["vizdist.graph.nodes_before"], told["vizdist.graph.nodes"]) == (6, 2)
    assert told["vizdist.pass.removed_nodes"] == "top_const, top, left, right"
    assert (told["vizdist.pass.changed"], told["vizdist.pass.changed_nodes"]) == (1, "bottom")
    assert schedule.attributes["vizdist.pass.added"] == 0


def test_passes_run_in_their_own_order_and_each_once() -> None:
    named = named_passes("send_bf16, fold_constants,send_bf16")
    assert named == ("fold_constants", "send_bf16")
