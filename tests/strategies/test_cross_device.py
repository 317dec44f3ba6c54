"""Sums over replicas have the ops that TensorFlow builds for them, on the same devices."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.strategies.sessions import DEVICES, on_devices
from tracer.model.graph import TensorSpec
from tracer.model.graph_builder import GraphBuilder
from tracer.strategies.contexts import ReplicaContext, current
from tracer.strategies.cross_device import (
    CollectiveAllReduce,
    CrossDeviceOps,
    HierarchicalCopy,
    ReductionToOneDevice,
    cross_device_from,
    groups_by_size,
)
from tracer.strategies.distribution import Distribution
from tracer.strategies.values import PerReplica

GOLDEN = json.loads(
    (Path(__file__).parent.parent / "golden" / "c_cross_device_ops.json").read_text()
)
SHAPES = ((64, 32), (32,), (32, 10), (10,))
COLLECTIVE = "default (CollectiveAllReduce), CommunicationOptions bytes_per_pack"
KINDS: dict[str, Any] = {
    "ReductionToOneDevice()": lambda _: ReductionToOneDevice(),
    "ReductionToOneDevice('CPU:1')": lambda _: ReductionToOneDevice(DEVICES[1]),
    **{
        f"HierarchicalCopyAllReduce(num_packs={packs})": lambda _, p=packs: HierarchicalCopy(p)
        for packs in (0, 1, 2)
    },
    **{
        f"{COLLECTIVE}={text}": lambda n, b=b: CollectiveAllReduce(DEVICES[:n], bytes_per_pack=b)
        for text, b in (("none", 0), ("0", 0), ("200", 200), ("1048576", 1048576))
    },
}
#: ops by which values move and meet; beside them TF adds sizes up at run time, and we know them
COUNTED = ("AddN", "ConcatV2", "SplitV", "Reshape", "CollectiveReduceV2", "Identity")


def reduced(ops: CrossDeviceOps, replicas: int) -> tuple[GraphBuilder, Any]:
    """A graph in which replica r has gradients of ones times r + 1, and their sums."""
    builder = GraphBuilder()
    distribution = Distribution(builder, DEVICES[:replicas], ops)

    def step() -> Any:
        context = current()
        assert isinstance(context, ReplicaContext)
        b, value = context.builder, float(context.replica + 1)
        gradients = []
        for shape in SHAPES:
            filled, specs = b.const(list(shape), "int32"), [TensorSpec("float32", shape)]
            gradients.append(b.op("Fill", filled, b.const(value), specs=specs, T="float32"))
        return context.all_reduce("SUM", gradients)

    with distribution.scope():
        return builder, distribution.run(step)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("replicas", [2, 4])
def test_ops_are_as_many_as_those_of_tensorflow(kind: str, replicas: int) -> None:
    golden = GOLDEN[f"{replicas} replicas: {kind}"]
    builder, sums = reduced(KINDS[kind](replicas), replicas)
    made = Counter(node.op for node in builder.nodes)
    expected = {op: golden["ops"].get(op, 0) for op in COUNTED}
    # each value that enters and leaves the function that TF traced; one pack needs no cut
    expected["Identity"] -= 2 * len(SHAPES) * replicas
    if "num_packs=1" in kind:
        expected["SplitV"] -= replicas
    assert {op: made[op] for op in COUNTED} == expected
    added = Counter(node.requested_device for node in builder.nodes if node.op == "AddN")
    at = Counter({name.removeprefix("/job:localhost/replica:0/task:0"): count
                  for name, count in golden["addn_devices"].items()})  # fmt: skip
    assert {name.rpartition("task:0")[2]: count for name, count in added.items()} == at

    values = on_devices(builder, [each for own in sums.values for each in own])
    firsts = [value.flatten()[0].item() for value in values[:: len(SHAPES)]]
    assert firsts == golden["check_first_value_per_replica"]
    for value, shape in zip(values, SHAPES * replicas, strict=True):
        assert tuple(value.shape) == shape
        assert (value == firsts[0]).all()


@pytest.mark.parametrize("replicas", [1, 3, 5])
def test_odd_numbers_of_replicas_are_summed_too(replicas: int) -> None:
    for ops in (HierarchicalCopy(0), HierarchicalCopy(3), ReductionToOneDevice()):
        builder, sums = reduced(ops, replicas)
        for value in on_devices(builder, [each for own in sums.values for each in own]):
            assert (value == sum(range(replicas + 1))).all()


@pytest.mark.parametrize("packs", [1, 2])
def test_packs_hold_one_dtype_each_and_may_hold_nothing(packs: int) -> None:
    builder = GraphBuilder()
    values: tuple[list[float], ...] = ([1.5, 2.5], [3, 4], [])
    specs = ("float32", "int64", "float64")
    tensors = [
        [builder.const(value, dtype) for _ in range(2)]
        for value, dtype in zip(values, specs, strict=True)
    ]
    sums = HierarchicalCopy(packs).batch_reduce(builder, tensors, DEVICES[:2])
    made = [value.tolist() for value in on_devices(builder, [own for _, own in sums])]
    assert made == [[3.0, 5.0], [6, 8], []]


def test_packs_are_one_unless_said() -> None:
    assert cross_device_from({"cross_device_ops": "hierarchical_copy"}, DEVICES[:2]) == (
        HierarchicalCopy(1)
    )


def test_a_pack_ends_once_it_is_large_enough_or_the_dtype_changes() -> None:
    specs = [TensorSpec("float32", shape) for shape in SHAPES]
    assert groups_by_size(specs, 0) == [[3, 2, 1, 0]]
    assert groups_by_size(specs, 200) == [[3, 2], [1, 0]]
    halves = [*specs[:2], TensorSpec("bfloat16", (4,)), specs[3]]
    assert groups_by_size(halves, 0) == [[3], [2], [1, 0]]


def test_what_run_returned_is_one_value_a_replica() -> None:
    _, sums = reduced(ReductionToOneDevice(), 2)
    assert isinstance(sums, PerReplica)
