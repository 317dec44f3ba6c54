"""Graphs as they travel in a trace: a table of nodes in the attributes of `graph.chunk` spans.

The writer (master for full … worker, each worker for device) calls `chunks_of_graph` and records
one `graph.chunk` span a mapping; the reader hands the mappings back to `nodes_of_chunks`. A table
is JSON `{"columns": [...], "rows": [[...]]}`, deflated, base64, in pieces of at most 48 KB; columns
that a reader does not know are ignored.
"""

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tracer.model.graph import HANDLES, Graph, Input, Node, Partition

#: what happens to a graph, in order; a value of `vizdist.graph.stage`
STAGES = ("full", "pruned", "placed", "worker", "device")

CHUNK_BYTES = 48_000  #: base64 letters a chunk holds at most
TABLE_BYTES = 64_000_000  #: an inflated table larger than this is not read
NODES_LIMIT = 1_000_000

#: attributes worth seeing; values of Consts and other bulk stay behind
SHOWN_ATTRS = (
    "tensor_name",
    "send_device",
    "recv_device",
    "edge_kind",
    "client_terminated",
    "shared_name",
    "container",
    "_src",
    "_dst",
    "_class",
    "_synchronization",
    "_aggregation",
    "_copies",
    "_part_of",
    "_offset",
)

#: and of a variable what it holds, since its output is a handle
SHOWN_OF_HANDLES = ("dtype", "shape")


class NodeRow(NamedTuple):
    """A node of one stage. `inputs` are `name`, `name:port` or `^name` (control).

    `partition` is the task prefix (stage worker) or device (stage device) whose graph holds it,
    empty before the cuts. `specs` are (dtype, shape) of its outputs; `bytes` their sum, 0 if
    unknown.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    requested_device: str
    device: str
    reason: str
    partition: str
    specs: tuple[tuple[str, tuple[int, ...]], ...]
    bytes: int
    source: str
    attrs: Mapping[str, Any]


def input_node(text: str) -> str:
    """The node that one of `NodeRow.inputs` names."""
    return Input.parse(text.removeprefix("^")).node


def row_of_node(node: Node, partition: str = "") -> NodeRow:
    return NodeRow(
        node.name,
        node.op,
        (*map(str, node.inputs), *(f"^{name}" for name in node.control_inputs)),
        node.requested_device,
        node.device,
        node.reason,
        partition,
        tuple((spec.dtype, tuple(spec.shape)) for spec in node.specs),
        sum(spec.num_bytes for spec in node.specs),
        node.source,
        {key: node.attrs[key] for key in _shown(node) if key in node.attrs},
    )


def _shown(node: Node) -> tuple[str, ...]:
    return SHOWN_ATTRS + SHOWN_OF_HANDLES if node.op in HANDLES else SHOWN_ATTRS


def chunks_of_graph(
    graph_id: str, stage: str, parts: Graph | Sequence[Partition]
) -> list[dict[str, str | int]]:
    """The attributes of the `graph.chunk` spans that carry one stage: a graph, or its partitions.

    `graph_id` names the registration; master and workers use the same one for one client graph.
    """
    if stage not in STAGES:
        raise ValueError(f"{stage!r} is not a stage of a graph; stages are {', '.join(STAGES)}")
    cuts = [Partition("", parts)] if isinstance(parts, Graph) else parts
    rows = [row_of_node(node, cut.place) for cut in cuts for node in cut.graph.nodes]
    return chunks_of_rows(graph_id, stage, rows)


def chunks_of_rows(
    graph_id: str, stage: str, rows: Sequence[NodeRow], pieces: int = 0
) -> list[dict[str, str | int]]:
    """The same of a table that is there already; `pieces`: in exactly so many."""
    table = {"columns": NodeRow._fields, "rows": rows}
    packed = base64.b64encode(zlib.compress(json.dumps(table, separators=(",", ":")).encode()))
    text = packed.decode()
    count = pieces or -(-len(text) // CHUNK_BYTES)
    size = -(-len(text) // count)
    cut = [text[at * size : (at + 1) * size] for at in range(count)]
    return [
        {
            "vizdist.graph.id": graph_id,
            "vizdist.graph.stage": stage,
            "vizdist.chunk.index": index,
            "vizdist.chunk.count": count,
            "vizdist.chunk.sha256": hashlib.sha256(piece.encode()).hexdigest(),
            "vizdist.chunk.data": piece,
        }
        for index, piece in enumerate(cut)
    ]


class GraphTableError(ValueError):
    """A table that cannot be put together; the text says which piece is at fault."""


def nodes_of_chunks(chunks: Iterable[Mapping[str, Any]]) -> list[NodeRow]:
    """Puts one stage's table together again; the pieces may come in any order and repeatedly."""
    pieces: dict[int, str] = {}
    count = 0
    for chunk in chunks:
        count = int(chunk.get("vizdist.chunk.count", 0))
        index, data = int(chunk.get("vizdist.chunk.index", -1)), chunk.get("vizdist.chunk.data", "")
        digest = hashlib.sha256(data.encode()).hexdigest()
        if digest != chunk.get("vizdist.chunk.sha256"):
            raise GraphTableError(f"chunk {index + 1} of {count} is damaged: its sha256 is wrong")
        pieces[index] = data
    missing = [index + 1 for index in range(count) if index not in pieces]
    if missing or not count:
        listed = ", ".join(map(str, missing[:5]))
        raise GraphTableError(f"{len(missing)} of {count} chunks are missing: {listed}")
    return _rows_of_text(_inflate("".join(pieces[index] for index in range(count))))


def _inflate(text: str) -> bytes:
    """Inflates no more than TABLE_BYTES, whatever the data claims to be."""
    engine = zlib.decompressobj()
    try:
        table = engine.decompress(base64.b64decode(text, validate=True), TABLE_BYTES)
    except (binascii.Error, zlib.error) as error:
        raise GraphTableError(f"the table is not deflated base64: {error}") from None
    if not engine.eof:
        raise GraphTableError(f"the table is cut off, or longer than {TABLE_BYTES:,} bytes")
    return table


def _rows_of_text(text: bytes) -> list[NodeRow]:
    try:
        table = json.loads(text)
        columns = [table["columns"].index(name) for name in NodeRow._fields]
        return [_row(*(row[at] for at in columns)) for row in table["rows"][:NODES_LIMIT]]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise GraphTableError(f"the table has not the form of a graph: {error}") from None


def _row(*cells: Any) -> NodeRow:
    row = NodeRow(*cells)
    return row._replace(
        inputs=tuple(map(str, row.inputs)),
        specs=tuple((str(dtype), tuple(map(int, shape))) for dtype, shape in row.specs),
        bytes=int(row.bytes),
        attrs=dict(row.attrs),
    )
