"""Variables are cut and dealt out as TensorFlow cuts and deals them out (G11, G21)."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.strategies.sessions import DEVICES, session
from tracer.model.graph import TensorSpec
from tracer.model.graph_builder import GraphBuilder
from tracer.strategies.contexts import DistributionError
from tracer.strategies.sharded import (
    FixedShards,
    MaxSize,
    MinSize,
    Partitioner,
    RoundRobin,
    checked_parts,
    rows_of_shards,
    sharded,
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
PS = [f"/job:ps/replica:0/task:{task}/device:CPU:0" for task in range(2)]


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
    turns = RoundRobin(PS)
    for golden in GOLDEN[title]:
        shards = golden.get("shards", [golden])
        name = shards[0]["name"].partition("/part_")[0].removesuffix(":0")
        made = sharded(name, floats(*golden["shape"]), partitioner, turns)
        assert [f"{shard.name}:0" for shard in made.shards] == [each["name"] for each in shards]
        assert [shard.device for shard in made.shards] == [each["device"] for each in shards]
        if "offsets" in golden:
            assert [shard.rows for shard in made.shards] == [each["shape"][0] for each in shards]
            assert [shard.offset for shard in made.shards] == [at[0] for at in golden["offsets"]]


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


def test_shards_are_read_as_the_whole_that_they_were_cut_from() -> None:
    rows: Any = [[float(10 * row + column) for column in range(2)] for row in range(5)]
    builder = GraphBuilder()
    variable = sharded("emb", floats(5, 2), FixedShards(3), RoundRobin(DEVICES[:2]))
    assigned, whole = variable.create(builder, rows), variable.read(builder)
    with session(builder) as opened:
        opened.run([each.node for each in assigned])
        assert opened.run(f"{whole}:0").tolist() == rows
