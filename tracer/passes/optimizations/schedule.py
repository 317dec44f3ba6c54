"""Let a recv begin shortly before its value is needed (whitepaper §5.2; TF `AddControlEdges`).

Otherwise every recv of a step begins at once, and what came early lies about until it is used. The
time at which a node must start for the step to end soonest (as late as possible, a node counting
one) is cut into epochs; a recv waits for a trigger that follows the work of some epochs before its
own.
"""

from bisect import bisect_right
from collections.abc import Mapping

from tracer.model.graph import Edge, Graph, Node, Partition
from tracer.ops.registry import TABLE
from tracer.passes.frames import CONTROL_FLOW, MERGES, NEXT_ITERATIONS, ROOT, Frames
from tracer.passes.keys import RECVS

EPOCHS = 100  #: as in TF
PREFETCH = 6  #: epochs by which a recv begins early, as in TF

_WAITING = frozenset(name for name, op in TABLE.items() if op.is_async)


def schedule_recvs(placed: Graph, partitions: list[Partition]) -> list[Partition]:
    """The partitions with a ControlTrigger and a control edge for each recv that can wait.

    Times are those of the whole placed graph, and grow along all its edges: a recv that follows
    earlier work of its device can close no circle of edges, through whatever tasks. Recvs in loops
    already follow their iteration. A graph with a queue stays as it is: work may wait there for an
    element that no edge shows, and a recv would wait for that work. So may work for a feed of a
    later call: nobody schedules a step that runs in parts.
    """
    if any(node.op in _WAITING for node in placed.nodes):
        return partitions
    starts = latest_starts(placed)
    in_loops = _in_loops(placed)
    outside = {name: start for name, start in starts.items() if name not in in_loops}
    return [Partition(part.place, _Schedule(part.graph, outside).graph()) for part in partitions]


def latest_starts(graph: Graph) -> dict[str, int]:
    """When each node must start, counting nodes, for the longest path to end in time."""
    order = graph.topological()
    after: dict[str, int] = {}  # nodes on the longest way from here to the end
    for name in reversed(order):
        nexts = [edge.dst for edge in graph.out_edges(name) if not _goes_back(graph, edge)]
        after[name] = max((after[each] + 1 for each in nexts), default=0)
    longest = max(after.values(), default=0)
    return {name: longest - after[name] for name in order}


def _goes_back(graph: Graph, edge: Edge) -> bool:
    return graph[edge.src].op in NEXT_ITERATIONS and graph[edge.dst].op in MERGES


def _in_loops(graph: Graph) -> set[str]:
    if not any(node.op in CONTROL_FLOW for node in graph.nodes):
        return set()
    frames = Frames(graph)
    return {name for name in graph if frames.of(name) != ROOT}


class _Schedule:
    """Of one task's graph. `starts` knows the nodes outside loops that the cut did not add."""

    def __init__(self, graph: Graph, starts: Mapping[str, int]) -> None:
        self._graph = graph
        self._starts = starts
        self._resolution = max(starts.values(), default=0) // EPOCHS + 1
        self._triggers: dict[str, Node] = {}
        self._work: dict[str, list[tuple[int, str]]] = {}  # device → its nodes by start
        for node in graph.nodes:
            if node.name in starts:
                self._work.setdefault(node.device, []).append((starts[node.name], node.name))
        for work in self._work.values():
            work.sort()

    def graph(self) -> Graph:
        nodes = [self._waiting(node) for node in self._graph.nodes]
        return Graph([*nodes, *self._triggers.values()])

    def _waiting(self, node: Node) -> Node:
        is_inner = node.op in RECVS and not node.attrs["client_terminated"]
        start = self._needed_at(node.name) if is_inner and not node.control_inputs else None
        epoch = start // self._resolution - PREFETCH if start is not None else -1
        trigger = self._trigger(node, epoch) if epoch >= 0 else None
        return node.with_(control_inputs=(trigger,)) if trigger else node

    def _needed_at(self, name: str) -> int | None:
        """When the first consumer starts; None if one is in a loop.

        The recv of a control edge has one consumer of the cut's, which signals the others.
        """
        readers = self._readers(name)
        if len(readers) == 1 and self._graph[readers[0]].op == "Identity":
            readers = readers if readers[0] in self._starts else self._readers(readers[0])
        starts = [start for each in readers if (start := self._starts.get(each)) is not None]
        return min(starts) if starts and len(starts) == len(readers) else None

    def _readers(self, name: str) -> list[str]:
        return [edge.dst for edge in self._graph.out_edges(name)]

    def _trigger(self, recv: Node, epoch: int) -> str | None:
        """What ends with the device's last work before the epoch's first instant."""
        work = self._work.get(recv.device, [])
        at = bisect_right(work, (epoch * self._resolution, "\U0010ffff"))
        if not at:
            return None
        last = work[at - 1][1]
        name = f"{last}/synch_{epoch}"
        if name not in self._triggers:
            self._triggers[name] = Node(
                name,
                "ControlTrigger",
                control_inputs=(last,),
                device=recv.device,
                reason="schedule_recvs",
                source=self._graph[last].source,
            )
        return name
