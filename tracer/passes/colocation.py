"""Which nodes must share a device: classes, and ops with the variables they use.

TF `colocation_graph.cc`: a union-find over names. A class that names a pruned node still binds its
members to each other.
"""

from collections.abc import Callable, Iterable, Mapping

from tracer.model.graph import HANDLES, REF_VARIABLE, Graph, Node
from tracer.ops.kernel import OpDef

_PLAIN = ("Identity", "Switch", "Merge", "Enter", "Exit", "NextIteration")

#: ops whose output stands for something that stays in its task
_RESOURCES = (
    "VarHandleOp",
    "FIFOQueueV2",
    "StackV2",
    "ConditionalAccumulator",
    "ResourceConditionalAccumulator",
    "SparseConditionalAccumulator",
)

#: ops that hand on what one of the others stands for: what reads behind them uses that
_HANDS_ON = dict.fromkeys(_PLAIN, _RESOURCES) | {f"Ref{op}": (REF_VARIABLE,) for op in _PLAIN}


class Colocation:
    """Groups of node names. `followers` are the ops that go with a variable, whatever they ask."""

    def __init__(self, graph: Graph, lookup: Callable[[str], OpDef]) -> None:
        self._parent: dict[str, str] = {}
        self.followers: set[str] = set()
        variables = _variables_behind(graph)
        for node in graph.nodes:
            for name in node.colocated_with:
                self._join(name, node.name)
            for name in _needed_beside(graph, node, variables, lookup):
                self._join(name, node.name)
                self.followers.add(node.name)
        self._members: dict[str, list[Node]] = {}
        for node in graph.nodes:
            self._members.setdefault(self._root(node.name), []).append(node)

    def groups(self) -> Iterable[list[Node]]:
        """Members with the variables first, then in creation order, followers last."""
        for members in self._members.values():
            yield sorted(members, key=self._precedence) if len(members) > 1 else members

    def _precedence(self, node: Node) -> int:
        return 0 if node.op in HANDLES else 2 if node.name in self.followers else 1

    def _root(self, name: str) -> str:
        root = name
        while (above := self._parent.get(root, root)) != root:
            root = above
        while name != root:
            self._parent[name], name = root, self._parent.get(name, name)
        return root

    def _join(self, one: str, other: str) -> None:
        one, other = self._root(one), self._root(other)
        if one != other:
            self._parent[other] = one


def _variables_behind(graph: Graph) -> Mapping[str, str]:
    """Node → the variable (or queue, stack, accumulator) that its output stands for."""
    found = {node.name: node.name for node in graph.nodes if node.op in (*HANDLES, *_RESOURCES)}
    hands_on = [node for node in graph.nodes if node.op in _HANDS_ON] if found else []
    before = 0
    while len(found) > before:
        before = len(found)
        for node in hands_on:
            variable = found.get(node.inputs[0].node)
            if variable and graph[variable].op in _HANDS_ON[node.op]:
                found[node.name] = variable
    return found


def _needed_beside(
    graph: Graph, node: Node, variables: Mapping[str, str], lookup: Callable[[str], OpDef]
) -> list[str]:
    """The handles and reference variables that `node` must sit beside.

    A handle (of a queue, stack or accumulator, too) never crosses devices; a reference variable
    may, as a plain value, to its readers.
    """
    found = [variables[i.node] for i in node.inputs if i.node in variables]
    if not found or any(graph[name].op in _RESOURCES for name in found):
        return [name for name in found if graph[name].op in _RESOURCES]
    stays = REF_VARIABLE in _HANDS_ON.get(node.op, ()) or lookup(node.op).writes
    return found[:1] if stays else []
