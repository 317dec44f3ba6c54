"""Control flow over several devices (TF `graph_partition.cc`, `AddControlFlow`).

A device that takes part in a loop must know whether another iteration comes. The owner of the
LoopCond tells all of them: each device that receives a tensor inside the loop, the owner's own
included, gets a *control loop* of its own, which turns as the predicate says and computes nothing.
Its Merge starts the `_Recv`s of an iteration.
"""

from itertools import count
from typing import Any

from tracer.model.graph import (
    CONTROL_LOOP,
    Edge,
    Graph,
    GraphError,
    Input,
    Literal,
    Node,
    TensorSpec,
)
from tracer.passes.frames import (
    CONTROL_FLOW,
    EXITS,
    MERGES,
    ROOT,
    SWITCHES,
    Frame,
    Frames,
)

NOTHING = Literal("float32", (0,), b"")
NOTHING_SPEC = TensorSpec("float32", (0,))
_INDEX = TensorSpec("int32", ())
_T = {"T": "float32"}


def colocate_control_flow(graph: Graph) -> Graph:
    """Moves control flow to its data, whatever was asked for: so conditions and loops cross less.

    A Switch goes with its data, an Exit with what it ends, an Enter or NextIteration with its first
    consumer, and each as far as that one goes itself. For a placed graph. TF walks it depth-first,
    from sources in the order of their addresses: in some sessions that leaves a Switch behind a
    Switch where the first one was, in others of the same graph it does not. Here it never does.
    """
    if not any(node.op in CONTROL_FLOW for node in graph.nodes):
        return graph
    order = graph.topological()
    position = {name: i for i, name in enumerate(order)}
    leader = {name: _leader(graph, name, position) for name in order}
    device = {name: graph[_last_leader(name, leader, position)].device for name in order}
    return Graph(
        node
        if node.device == device[node.name]
        else node.with_(device=device[node.name], reason="control_flow")
        for node in graph.nodes
    )


def _leader(graph: Graph, name: str, position: dict[str, int]) -> str:
    """With which node this one goes; itself if it stays."""
    node = graph[name]
    if node.op in (*SWITCHES, *EXITS):
        return node.inputs[0].node
    if node.op in ("Enter", "NextIteration"):
        consumers = [edge.dst for edge in graph.out_edges(name) if not edge.is_control]
        return min(consumers, key=position.__getitem__, default=name)
    return name


def _last_leader(name: str, leader: dict[str, str], position: dict[str, int]) -> str:
    """Who stays; of an Enter and the Switch of its value, which follow each other, the Switch."""
    way = [name]
    while leader[way[-1]] not in way:
        way.append(leader[way[-1]])
    circle = way[way.index(leader[way[-1]]) :]
    return max(circle, key=position.__getitem__)


def add_control_loops(graph: Graph) -> Graph:
    """The placed graph with a control loop in each frame and on each device that needs one.

    A node that receives gets a control edge from its Merge. Raises GraphError if loops are
    ill-formed or one that crosses devices has no LoopCond.
    """
    if not any(node.op in CONTROL_FLOW for node in graph.nodes):
        return graph
    frames = Frames(graph)
    loops = _ControlLoops(graph, frames)
    starts: dict[str, str] = {}
    for edge in graph.edges():
        frame, receiver = frames.of_inputs(edge.dst), graph[edge.dst]
        if frame != ROOT and graph[edge.src].device != receiver.device:
            starts[receiver.name] = loops.merge(frames[frame], receiver)
    waiting = (
        node.with_(control_inputs=(*node.control_inputs, starts[node.name]))
        if node.name in starts
        else node
        for node in graph.nodes
    )
    return Graph([*waiting, *loops.nodes]) if starts else graph


def starts_iteration(graph: Graph, name: str) -> bool:
    """Whether this is the Merge of a control loop."""
    return name.startswith(CONTROL_LOOP) and graph[name].op in MERGES


def is_predicate(graph: Graph, edge: Edge) -> bool:
    """Whether the edge tells a device of a loop's next iteration, or passes that on."""
    source = graph[edge.src]
    return source.op == "LoopCond" or source.attrs.get("edge_kind") == "loop"


class _ControlLoops:
    """Makes each control loop once: Enter → Merge → Switch (by the LoopCond) → NextIteration."""

    def __init__(self, graph: Graph, frames: Frames) -> None:
        self.nodes: list[Node] = []
        self._numbers = count()
        self._graph = graph
        self._frames = frames
        self._merges: dict[tuple[str, str], str] = {}

    def merge(self, frame: Frame, receiver: Node) -> str:
        """The Merge of the frame's control loop on the receiver's device.

        Loops nest as their frames do: what enters one is the Merge of the outer one, and a constant
        at the root.
        """
        key = frame.name, receiver.device
        if key not in self._merges:
            if not frame.loop_cond:
                raise GraphError(
                    f"A cross-device loop must have a pivot predicate: {frame.name} has no "
                    f"LoopCond, but node {receiver.name!r} in it receives from another device"
                )
            if frame.parent == ROOT:
                outer = self._constant(receiver)
            else:
                outer = self.merge(self._frames[frame.parent], receiver)
            self._merges[key] = self._loop(frame, receiver, outer)
        return self._merges[key]

    def _constant(self, receiver: Node) -> str:
        attrs = {"dtype": "float32", "value": NOTHING}
        return self._add(self._name(receiver), "Const", receiver, (), attrs=attrs)

    def _loop(self, frame: Frame, receiver: Node, outer: str) -> str:
        enter, merge, switch, again = (self._name(receiver) for _ in range(4))
        opening = {
            "frame_name": frame.name,
            "is_constant": False,
            "parallel_iterations": frame.parallel_iterations,
        }
        is_far = self._graph[frame.loop_cond].device != receiver.device
        self._add(enter, "Enter", receiver, (outer,), attrs={**opening, **_T})
        self._add(merge, "Merge", receiver, (enter, again), _INDEX, attrs={"N": 2, **_T})
        self._add(
            switch,
            "Switch",
            receiver,
            (merge, frame.loop_cond),
            NOTHING_SPEC,
            attrs=_T,
            control_inputs=(merge,) if is_far else (),
        )
        self._add(again, "NextIteration", receiver, (Input(switch, 1),), attrs=_T)
        return merge

    def _name(self, receiver: Node) -> str:
        return f"{CONTROL_LOOP}{receiver.name}_S{next(self._numbers)}"

    def _add(
        self,
        name: str,
        op: str,
        beside: Node,
        inputs: tuple[str | Input, ...],
        *more: TensorSpec,
        **fields: Any,
    ) -> str:
        """Adds a node whose first output is nothing, and `more` what its others are."""
        sources = tuple(Input(i) if isinstance(i, str) else i for i in inputs)
        self.nodes.append(
            Node(
                name,
                op,
                sources,
                device=beside.device,
                reason="control_loop",
                specs=(NOTHING_SPEC, *more),
                source=beside.source,
                **fields,
            )
        )
        return name
