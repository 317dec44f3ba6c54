"""`StepParts`: the nodes of a captured step by what they are for."""

from collections.abc import Callable, Iterable
from functools import cached_property

from tracer.capture_graph.capture import CapturedStep, variables_of
from tracer.model.graph import Input, Node, TensorSpec
from tracer.ops.infer import infer_specs

Slot = tuple[str, int]  #: an input of a node of the update: the node's name, which of its inputs

INDICES = "_indices"  #: of what gives rows of a gradient: the output with the ids of the rows

_READS = ("ReadVariableOp", "ResourceGather")
_CREATION = ("Initializer", "Assign")


class StepParts:
    """`body`: forward and backward; `update`: what changes variables, each by name.

    `gradients` and `statistics` are where the one enters the other: slot → what the body gives.
    """

    def __init__(self, step: CapturedStep) -> None:
        self.step = step
        self.graph = graph = step.graph
        self.variables = {node.name for node in variables_of(graph)}
        self.updates = graph[step.train].control_inputs
        self.update = self._cone(self.updates, _is_update)
        entering = {
            (node.name, number): source
            for node in self.update.values()
            for number, source in enumerate(node.inputs)
            if source.node not in self.update and not self._is_state(source.node)
        }
        self.gradients = {s: v for s, v in entering.items() if self.is_trained(self.owner(s[0]))}
        self.statistics = {s: v for s, v in entering.items() if s not in self.gradients}
        ends = [Input.parse(step.loss).node, *(source.node for source in entering.values())]
        self.body = self._cone(ends, self._is_computed)

    def spec(self, source: Input) -> TensorSpec:
        """Of a value, also of one that a loop gives, whose nodes do not say it."""
        specs = self.graph[source.node].specs or self._inferred[source.node]
        return specs[source.port]

    @cached_property
    def _inferred(self) -> dict[str, tuple[TensorSpec, ...]]:
        return infer_specs(self.graph)

    @cached_property
    def slices(self) -> dict[Input, Input]:
        """Of the gradients those that are rows of one (TF's `IndexedSlices`) → their ids."""
        told = {s: self.graph[s.node].attrs.get(INDICES, "") for s in self.gradients.values()}
        return {source: Input.parse(ids) for source, ids in told.items() if ids}

    @cached_property
    def of_rows(self) -> frozenset[Input]:
        """What has a row for each id: how many those are, a step says."""
        return frozenset((*self.slices, *self.slices.values()))

    def without_rows(self, source: Input) -> TensorSpec:
        """Of what a batch without rows gives for a gradient."""
        if source not in self.of_rows:
            return self.spec(source)
        if source not in self.slices:
            return TensorSpec(self.graph[source.node].attrs["T"], (0,))
        (slot, *_) = (slot for slot, given in self.gradients.items() if given == source)
        table = self.graph[self.owner(slot[0])]
        return TensorSpec(table.attrs["dtype"], (0, *table.attrs["shape"][1:]))

    def update_of(self, name: str) -> dict[str, Node]:
        """What one of `updates` needs of the update, itself last."""
        return self._cone([name], _is_update)

    @cached_property
    def evaluation(self) -> dict[str, Node]:
        if not self.step.metric:
            return {}
        return self._cone([Input.parse(self.step.metric).node], self._is_computed)

    def read_variable(self, name: str) -> str:
        """The variable that this node reads, "" if it is no such read."""
        node = self.graph[name]
        is_read = node.op == "ReadVariableOp" and node.inputs[0].node in self.variables
        return node.inputs[0].node if is_read else ""

    def used_variable(self, name: str) -> str:
        """The variable that this node reads, be it some rows of it; "" if it reads none."""
        node = self.graph[name]
        is_read = node.op in _READS and node.inputs[0].node in self.variables
        return node.inputs[0].node if is_read else ""

    def owner(self, name: str) -> str:
        """The variable beside which a node of the update is, "" if it serves several."""
        return next(iter(self.graph[name].colocated_with), "")

    def is_trained(self, variable: str) -> bool:
        """By gradients: a parameter or a slot of one. What serves several variables does, too."""
        if not variable:
            return True
        beside = self.graph[variable].colocated_with
        return (beside[0] if beside else variable) in self.step.trainable

    @cached_property
    def backward_start(self) -> Node:
        """What backward starts from: the gradient of the loss by itself, a one."""
        loss = self.graph[Input.parse(self.step.loss).node].inputs[0]
        return next(
            node
            for node in self.body.values()
            if node.op == "aten.ones_like.default"
            and node.inputs == (loss,)
            and node.attrs["_phase"] == "backward"
        )

    def _cone(self, ends: Iterable[str], is_in: Callable[[Node], bool]) -> dict[str, Node]:
        """Those that `ends` need, in the order of the graph."""
        found: set[str] = set()
        open_names = list(ends)
        while open_names:
            name = open_names.pop()
            if name not in found and is_in(node := self.graph[name]):
                found.add(name)
                open_names += [*(source.node for source in node.inputs), *node.control_inputs]
        return {name: node for name, node in self.graph.items() if name in found}

    def _is_computed(self, node: Node) -> bool:
        """Not a variable or its creation."""
        variable, _, last = node.name.rpartition("/")
        is_creation = variable in self.variables and last in _CREATION
        return node.name not in self.variables and not is_creation

    def _is_state(self, name: str) -> bool:
        return name in self.variables or bool(self.read_variable(name))


def _is_update(node: Node) -> bool:
    return bool(node.attrs.get("_phase") == "update")
