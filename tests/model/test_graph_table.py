"""Graph tables survive the trip through `graph.chunk` spans, and damage is said."""

import random

import pytest

from tracer.model.graph import Graph, Input, Node, Partition, TensorSpec
from tracer.model.graph_table import GraphTableError, chunks_of_graph, nodes_of_chunks

GRAPH = Graph(
    [
        Node(
            "w", "VarHandleOp", requested_device="/job:ps", device="/job:ps/task:0", reason="asked"
        ),
        Node("x", "Placeholder", specs=(TensorSpec("float32", (8, 64)),)),
        Node("y", "MatMul", (Input("x"), Input("w", 1)), ("w",), source="train.py:7"),
    ]
)


def large_graph() -> Graph:
    noise = random.Random(0)
    return Graph(Node(f"n{i}/{noise.randbytes(40).hex()}", "NoOp") for i in range(3000))


def test_a_graph_comes_back_as_it_was() -> None:
    chunks = chunks_of_graph("g1", "placed", GRAPH)
    w, x, y = nodes_of_chunks(chunks)
    assert (w.name, w.requested_device, w.reason) == ("w", "/job:ps", "asked")
    assert (x.specs, x.bytes) == ((("float32", (8, 64)),), 2048)
    assert (y.inputs, y.source) == (("x", "w:1", "^w"), "train.py:7")
    assert chunks[0]["vizdist.graph.stage"] == "placed"


def test_partitions_keep_their_place() -> None:
    parts = [Partition("/job:ps/replica:0/task:0", GRAPH), Partition("/job:worker/task:0", GRAPH)]
    rows = nodes_of_chunks(chunks_of_graph("g1", "worker", parts))
    assert [row.partition for row in rows] == [part.place for part in parts for _ in range(3)]


def test_chunks_come_in_any_order() -> None:
    chunks = chunks_of_graph("g1", "full", large_graph())
    assert len(chunks) > 2
    assert max(len(str(chunk["vizdist.chunk.data"])) for chunk in chunks) <= 48_000
    assert len(nodes_of_chunks(reversed(chunks))) == 3000


def test_a_missing_chunk_is_named() -> None:
    chunks = chunks_of_graph("g1", "full", large_graph())
    with pytest.raises(GraphTableError, match=f"1 of {len(chunks)} chunks are missing: 2"):
        nodes_of_chunks([chunks[0], *chunks[2:]])


def test_a_damaged_chunk_is_named() -> None:
    chunk = chunks_of_graph("g1", "full", GRAPH)[0]
    with pytest.raises(GraphTableError, match="chunk 1 of 1 is damaged"):
        nodes_of_chunks([chunk | {"vizdist.chunk.data": "AAAA"}])


def test_an_unknown_stage_is_refused() -> None:
    with pytest.raises(ValueError, match="stages are full, pruned"):
        chunks_of_graph("g1", "plaecd", GRAPH)
