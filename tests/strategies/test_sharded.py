"""Variables are cut and dealt out as TensorFlow cuts and deals them out (G11, G21)."""

import json
from pathlib import Path

import pytest

from tracer.model.cluster import ClusterSpec
from tracer.model.graph import Node, TensorSpec
from tracer.passes.device_setter import replica_device_setter
from tracer.strategies.contexts import DistributionError
from tracer.strategies.sharded import (
    FixedShards,
    MaxSize,
    MinSize,
    Partitioner,
    checked_parts,
    partitioner_from,
    rows_of_shards,
    shards_of,
)

GOLDEN = json.loads(
    (Path(__file__).parent.parent / "golden" / "b_parameter_server_v2_placement.json").read_text()
)["placement_partitioned"]
PARTITIONERS: dict[str, Partitioner] = {
    "MinSizePartitioner(min_shard_bytes=256<<10 (default), max_shards=2)": MinSize(max_shards=2),
    "MinSizePartitioner(min_shard_bytes=64, max_shards=3)": MinSize(64, 3),
    "FixedShardsPartitioner(3)": FixedShards(3),
    "MaxSizePartitioner(max_shard_bytes=64)": MaxSize(64),
}
TWO_PS = ClusterSpec.of_counts(ps=2, worker=1)


def floats(*shape: int) -> TensorSpec:
    return TensorSpec("float32", shape)


@pytest.mark.parametrize("name", PARTITIONERS)
def test_each_axis_is_cut_in_as_many_parts(name: str) -> None:
    for shape, parts in GOLDEN[name]["partitions per axis for float32 shape"].items():
        assert PARTITIONERS[name](floats(*json.loads(shape))) == parts


@pytest.mark.parametrize(
    ("partitioner", "parts"),
    [(FixedShards(3), [3, 2, 3]), (MinSize(16, 4), [4, 2, 4]), (MaxSize(40), [4, 1, 10])],
)
def test_sizes_in_bytes_decide(partitioner: Partitioner, parts: list[int]) -> None:
    shapes = ((10, 3), (2, 3), (100, 1))
    assert [partitioner(floats(*shape))[0] for shape in shapes] == parts
    assert partitioner(floats()) == []


@pytest.mark.parametrize(
    ("title", "partitioner"),
    [
        ("variables under FixedShardsPartitioner(3) on 2 ps", FixedShards(3)),
        ("variables under MinSizePartitioner(64, max_shards=2) on 2 ps", MinSize(64, 2)),
    ],
)
def test_shards_and_whole_variables_take_turns_over_the_same_ps(
    title: str, partitioner: Partitioner
) -> None:
    setter = replica_device_setter(TWO_PS, "/job:worker/task:0")
    for golden in GOLDEN[title]:
        shards = golden.get("shards", [golden])
        name = shards[0]["name"].partition("/part_")[0].removesuffix(":0")
        made = shards_of(name, floats(*golden["shape"]), partitioner)
        assert [f"{shard.name}:0" for shard in made] == [each["name"] for each in shards]
        devices = [setter(Node(shard.name, "VarHandleOp")) for shard in made]
        assert devices == [task_of(each["device"]) for each in shards]
        if "offsets" in golden:
            assert [shard.rows for shard in made] == [each["shape"][0] for each in shards]
            assert [shard.offset for shard in made] == [at[0] for at in golden["offsets"]]


def task_of(device: str) -> str:
    """What a device setter asks for: it leaves the device of the task open."""
    return device.replace("/replica:0", "").partition("/device:")[0]


def test_the_first_shards_take_what_does_not_divide() -> None:
    assert rows_of_shards(10, 3) == [4, 3, 3]
    assert rows_of_shards(9, 3) == [3, 3, 3]


@pytest.mark.parametrize(
    ("parts", "says"),
    [([1, 2], "along axis 0 only"), ([2], "each axis"), ([0, 1], "from 1 on")],
)
def test_what_no_partitioner_may_answer_is_refused(parts: list[int], says: str) -> None:
    with pytest.raises(DistributionError, match=says):
        checked_parts("emb", floats(4, 2), parts)


def test_a_partitioner_is_named_with_its_number() -> None:
    texts = ("none", "fixed:3", "min_size:64", "max_size:40")
    found = [partitioner_from(text, servers=2) for text in texts]
    assert found == [None, FixedShards(3), MinSize(64, 2), MaxSize(40)]


@pytest.mark.parametrize("text", ["fixed", "fixed:0", "fixed:2.5", "fixed:-1", "rows:2", ""])
def test_what_names_no_partitioner_is_told_what_does(text: str) -> None:
    with pytest.raises(DistributionError, match="is none, fixed:SHARDS, min_size:BYTES or max_"):
        partitioner_from(text, servers=2)
