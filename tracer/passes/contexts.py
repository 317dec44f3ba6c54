"""The conds and loops of a graph, found again in its nodes.

A graph file holds Switches and Merges, not who made them. A branch is known by its predicate (an
Identity of it is the same one), a loop by the name of its frame.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tracer.model.contexts import CondContext, Context, WhileContext, chain, is_within, loop_of
from tracer.model.graph import Graph, GraphError, Input, Node


@dataclass(eq=False, slots=True)
class LoopVar:
    """The nodes that carry one variable of a loop; `next` is empty where nothing goes round."""

    enter: str
    merge: str
    next: str
    switch: str = ""
    exit: str = ""


@dataclass(eq=False, slots=True)
class Loop:
    context: WhileContext
    pivot: str = ""  #: its LoopCond
    variables: list[LoopVar] = field(default_factory=list)


class ControlFlow:
    """`outputs` says where each value lives; `runs_in` where a node reads its inputs."""

    def __init__(self, graph: Graph) -> None:
        self.outputs: dict[str, Context | tuple[Context | None, ...] | None] = {}
        self.loops: dict[WhileContext, Loop] = {}
        self._graph = graph
        self._runs_in: dict[str, Context | None] = {}
        self._frames: dict[tuple[Context | None, str], WhileContext] = {}
        self._branches: dict[tuple[Context | None, Input, int], CondContext] = {}
        for name in graph.topological():
            node = graph[name]
            self._runs_in[name] = self._innermost(node)
            self.outputs[name] = self._outputs(node)

    def runs_in(self, name: str) -> Context | None:
        return self._runs_in[name]

    def lives_in(self, source: Input) -> Context | None:
        found = self.outputs[source.node]
        return found[source.port] if isinstance(found, tuple) else found

    def loop_at(self, name: str) -> WhileContext | None:
        """The loop in whose iterations a node runs."""
        return loop_of(self._runs_in[name])

    def branch(self, outer: Context | None, pred: Input, taken: int) -> CondContext:
        while self._graph[pred.node].op == "Identity":
            pred = self._graph[pred.node].inputs[0]
        place = outer, pred, taken
        return self._branches.setdefault(place, CondContext(outer, pred, taken))

    def is_loop_switch(self, node: Node) -> bool:
        return node.op == "Switch" and self._graph[node.inputs[1].node].op == "LoopCond"

    def is_loop_merge(self, node: Node) -> bool:
        return node.op == "Merge" and any(
            self._graph[source.node].op == "NextIteration" for source in node.inputs
        )

    def _innermost(self, node: Node) -> Context | None:
        places = [self.lives_in(source) for source in self._known(node)]
        return max(places, key=lambda place: len(list(chain(place))), default=None)

    def _known(self, node: Node) -> Iterator[Input]:
        """Inputs but for the back edges of loops."""
        yield from (source for source in node.inputs if source.node in self.outputs)
        yield from (Input(name) for name in node.control_inputs if name in self.outputs)

    def _outputs(self, node: Node) -> Context | tuple[Context | None, ...] | None:
        place = self._runs_in[node.name]
        match node.op:
            case "Enter":
                return self._entered(node, place)
            case "Exit":
                return self._left(node, place)
            case "LoopCond":
                self._loop(place).pivot = node.name
            case "Switch" if self.is_loop_switch(node):
                self._variable(place, node.inputs[0].node).switch = node.name
            case "Switch":
                pred = node.inputs[1]
                return self.branch(place, pred, 0), self.branch(place, pred, 1)
            case "Merge" if self.is_loop_merge(node):
                ends = sorted(node.inputs, key=lambda s: self._graph[s.node].op == "NextIteration")
                variable = LoopVar(ends[0].node, node.name, ends[1].node)
                self._loop(place).variables.append(variable)
            case "Merge":
                places = [self.lives_in(source) for source in node.inputs]
                return next(
                    c for c in (*chain(place), None) if all(is_within(p, c) for p in places)
                )
        return place

    def _entered(self, node: Node, place: Context | None) -> WhileContext:
        key = place, str(node.attrs["frame_name"])
        if key not in self._frames:
            parallel = int(node.attrs.get("parallel_iterations", 10))
            self._frames[key] = WhileContext(*key, parallel)
            self.loops[self._frames[key]] = Loop(self._frames[key])
        return self._frames[key]

    def _left(self, node: Node, place: Context | None) -> Context | None:
        switch = self._graph[node.inputs[0].node]
        if switch.op == "Switch":
            self._variable(place, switch.inputs[0].node).exit = node.name
        loop = loop_of(place)
        return loop.outer if loop else None

    def _loop(self, place: Context | None) -> Loop:
        loop = loop_of(place)
        if loop is None:
            raise GraphError("a LoopCond, or the Merge of a NextIteration, stands in no loop")
        return self.loops[loop]

    def _variable(self, place: Context | None, merge: str) -> LoopVar:
        return next(v for v in self._loop(place).variables if v.merge == merge)
