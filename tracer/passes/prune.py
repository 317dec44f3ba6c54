"""Keep what a request needs, and put the client's ends on it (whitepaper §4.2).

A feed replaces an output by a node that takes the value from the client, so that what only served
the fed output falls away; a fetch adds a node that hands the value back. In a cluster these are
client-terminated `_Recv`/`_Send` on the client's device, in one task without a cluster
`_Arg`/`_Retval` (TF `subgraph.cc`).
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tracer.model.cluster import LOCALHOST, DeviceName
from tracer.model.dtypes import dtype_of, num_outputs
from tracer.model.graph import Graph, GraphError, Input, Node

PLACEHOLDERS = ("Placeholder", "PlaceholderV2")


class _End(NamedTuple):
    """How a value comes from the client or goes back to it."""

    op: str
    name: str
    dtype_attr: str
    edge_kind: str


_FEED = _End("_Recv", "_recv_{node}_{port}", "tensor_type", "feed")
_FETCH = _End("_Send", "_send_{node}_{port}", "T", "fetch")
_ARG = _End("_Arg", "_arg_{node}_{port}_{index}", "T", "feed")
_RETVAL = _End("_Retval", "_retval_{node}_{port}_{index}", "T", "fetch")


def prune(
    graph: Graph,
    feeds: Iterable[str],
    fetches: Iterable[str],
    targets: Iterable[str],
    client_device: DeviceName,
    *,
    is_partial: bool = False,
) -> Graph:
    """The subgraph that `fetches` (`node:port`) and `targets` (`node`) need once `feeds` are given.

    Where they come in several calls (`is_partial`), they meet in a rendezvous even in one task.

    An output both fed and fetched leaves no node: the client answers it. A feed that nothing needs
    is no error and leaves none either. Raises GraphError if a name is none of the graph.
    """
    fed = _outputs(graph, feeds, "feed")
    fetched = [output for output in _outputs(graph, fetches, "fetch") if output not in fed]
    wanted = [_target(graph, name) for name in targets]
    in_call = is_direct(client_device) and not is_partial
    feed_end, fetch_end = (_ARG, _RETVAL) if in_call else (_FEED, _FETCH)
    entries = {
        output: _client_node(graph, output, index, feed_end, client_device)
        for index, output in enumerate(fed)
    }
    exits = [
        _client_node(graph, output, index, fetch_end, client_device).with_(
            inputs=(output,), specs=()
        )
        for index, output in enumerate(fetched)
    ]
    nodes = {node.name: node for node in (*_rewired(graph, entries), *exits)}
    needed = _needed(nodes, [*wanted, *(node.name for node in exits)])
    return Graph(node for name, node in nodes.items() if name in needed)


def is_direct(client_device: DeviceName) -> bool:
    """True for one task without a cluster, where values come and go as `_Arg` and `_Retval`."""
    return client_device.job == LOCALHOST


def _outputs(graph: Graph, names: Iterable[str], role: str) -> list[Input]:
    """In the order of their names, as TF numbers arguments (`build_graph_options.cc`)."""
    return [_output(graph, name, role) for name in sorted(set(names))]


def _output(graph: Graph, name: str, role: str) -> Input:
    output = Input.parse(name)
    if output.node not in graph:
        raise GraphError(f"{role} {name!r}: {_no_node(graph, output.node)}")
    if output.port >= (count := num_outputs(graph[output.node])):
        outputs = "1 output" if count == 1 else f"{count} outputs"
        raise GraphError(
            f"{role} {name!r}: operation {output.node!r} exists but has only {outputs}"
        )
    return output


def _target(graph: Graph, name: str) -> str:
    if name not in graph:
        raise GraphError(f"target {name!r}: {_no_node(graph, name)}")
    return name


def _no_node(graph: Graph, name: str) -> str:
    near = difflib.get_close_matches(name, graph, n=3)
    hint = f"; near are {', '.join(near)}" if near else ""
    return f"the graph of {len(graph)} nodes has no operation {name!r}{hint}"


def _client_node(
    graph: Graph, output: Input, index: int, end: _End, client_device: DeviceName
) -> Node:
    attrs: dict[str, Any] = {
        "tensor_name": f"{output.node}:{output.port}",
        "edge_kind": end.edge_kind,
        end.dtype_attr: dtype_of(graph, output),
    }
    if end in (_ARG, _RETVAL):
        attrs["index"] = index
    else:
        ends = ("send_device", "recv_device")
        attrs |= {"client_terminated": True, **dict.fromkeys(ends, str(client_device))}
    return Node(
        end.name.format(node=output.node, port=output.port, index=index),
        end.op,
        requested_device=str(client_device),
        attrs=attrs,
        specs=graph[output.node].specs[output.port : output.port + 1],
        source=graph[output.node].source,
    )


def _rewired(graph: Graph, entries: Mapping[Input, Node]) -> Iterator[Node]:
    """All nodes, with fed outputs read from their entry nodes, which stand at the fed node's place.

    Control edges follow only from a placeholder; another fed node still runs for them, as in TF.
    """
    entries_of: dict[str, list[Node]] = {}
    for output, entry in entries.items():
        entries_of.setdefault(output.node, []).append(entry)
    moved = {n: e[0].name for n, e in entries_of.items() if graph[n].op in PLACEHOLDERS}
    for node in graph.nodes:
        yield from entries_of.get(node.name, ())
        if any(source in entries for source in node.inputs) or moved.keys() & node.control_inputs:
            yield node.with_(
                inputs=tuple(Input(entries[i].name) if i in entries else i for i in node.inputs),
                control_inputs=tuple(moved.get(name, name) for name in node.control_inputs),
            )
        else:
            yield node


def _needed(nodes: Mapping[str, Node], ends: Iterable[str]) -> set[str]:
    """Everything from which one of `ends` is reached, over data and control edges."""
    needed = set(ends)
    pending = list(needed)
    while pending:
        node = nodes[pending.pop()]
        for source in (*(i.node for i in node.inputs), *node.control_inputs):
            if source not in needed:
                needed.add(source)
                pending.append(source)
    return needed
