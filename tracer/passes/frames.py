"""The loop frame that each node runs in (TF `control_flow.cc`, `BuildControlFlowInfo`).

An Enter opens the frame that it names, inside the frame of its input. An Exit still belongs to the
frame it ends: what it gives out lies in the parent. Frames nest; the root has the empty name.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tracer.model.graph import Edge, Graph, GraphError, Node

ROOT = ""
SWITCHES = ("Switch", "RefSwitch")
MERGES = ("Merge", "RefMerge")
ENTERS = ("Enter", "RefEnter")
EXITS = ("Exit", "RefExit")
NEXT_ITERATIONS = ("NextIteration", "RefNextIteration")
CONTROL_FLOW = (*SWITCHES, *MERGES, *ENTERS, *EXITS, *NEXT_ITERATIONS, "LoopCond")

_PARALLEL_ITERATIONS = 10  # TF's default
#: the loops of a gradient count in the frames of the loops they count
_COUNTER = "LoopCounter"


@dataclass(frozen=True, slots=True)
class Frame:
    """`loop_cond` names the node that decides on the next iteration; a frame may have none."""

    name: str
    parent: str
    parallel_iterations: int
    loop_cond: str = ""


class Frames:
    """The frames of a graph, by name, and the frame of each of its nodes."""

    def __init__(self, graph: Graph) -> None:
        """Raises GraphError naming the node at which the loops are ill-formed."""
        self._graph = graph
        self._frames: dict[str, Frame] = {}
        self._of: dict[str, str] = {}
        for name in graph.topological():
            node = graph[name]
            self._of[name] = self._place(node)
            if node.op == "LoopCond":
                self._decide(node)
        for edge in graph.edges():
            self._check(edge)

    def __getitem__(self, name: str) -> Frame:
        return self._frames[name]

    def __iter__(self) -> Iterator[Frame]:
        return iter(self._frames.values())

    def of(self, name: str) -> str:
        """The frame that a node runs in."""
        return self._of[name]

    def of_inputs(self, name: str) -> str:
        """The frame that a node's inputs come from."""
        frame = self._of[name]
        return self._frames[frame].parent if self._graph[name].op in ENTERS else frame

    def of_outputs(self, name: str) -> str:
        """The frame that a node's outputs go to."""
        frame = self._of[name]
        return self._frames[frame].parent if self._graph[name].op in EXITS else frame

    def _place(self, node: Node) -> str:
        known = (edge.src for edge in self._graph.in_edges(node.name) if edge.src in self._of)
        first = next(known, None)
        outer = ROOT if first is None else self.of_outputs(first)
        if node.op in ENTERS:
            return self._enter(node, outer)
        if node.op in (*EXITS, *NEXT_ITERATIONS, "LoopCond") and outer == ROOT:
            raise GraphError(f"{_said(node)} is in no loop: no Enter leads to it")
        return outer

    def _enter(self, node: Node, outer: str) -> str:
        name = str(node.attrs.get("frame_name", ""))
        if not name:
            raise GraphError(f"{_said(node)} must have a frame_name")
        width = int(node.attrs.get("parallel_iterations", _PARALLEL_ITERATIONS))
        frame = self._frames.setdefault(name, Frame(name, outer, width))
        if frame.parent != outer:
            raise GraphError(
                f"{_said(node)} enters frame {name!r} from {_frame(outer)}, but others enter it "
                f"from {_frame(frame.parent)}; a frame has one parent"
            )
        return name

    def _decide(self, node: Node) -> None:
        frame = self._frames[self._of[node.name]]
        if frame.loop_cond and _COUNTER not in node.name and _COUNTER not in frame.loop_cond:
            raise GraphError(
                f"loop {frame.name!r} has more than one LoopCond: "
                f"{frame.loop_cond!r} and {node.name!r}"
            )
        self._frames[frame.name] = replace(frame, loop_cond=node.name)

    def _check(self, edge: Edge) -> None:
        given, expected = self.of_outputs(edge.src), self.of_inputs(edge.dst)
        if given != expected:
            raise GraphError(
                f"{_said(self._graph[edge.dst])} has inputs from different frames. The input "
                f"{edge.src!r} is in {_frame(given)}, another is in {_frame(expected)}; what a "
                "loop uses from outside comes in by an Enter, what it gives by an Exit"
            )


def _frame(name: str) -> str:
    return f"frame {name!r}" if name else "the root frame"


def _said(node: Node) -> str:
    return f"{node.op} node {node.name!r}" + (f" ({node.source})" if node.source else "")
