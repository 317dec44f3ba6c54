"""`partitioned`: a captured step whose variables lie in shards (TF `variable_scope` partitioners).

    v [5, 8]     ─►  v/part_0 [3, 8] · v/part_1 [2, 8]    each with slots of its own
    its value    ─►  their values end to end (ConcatV2)   where somebody reads it
    its gradient ─►  cut into their rows (SplitV)         where it was made
    its update   ─►  one of each shard, beside it

The step stays a captured step: what deals variables out, sums gradients or waits for them never
knows that some variables are shards of another. A variable whose new value does not follow row by
row from its old one stays whole, as one without rows does.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tracer.capture_graph.capture import CapturedStep, variables_of
from tracer.capture_graph.state import const
from tracer.model.graph import HANDLES, ITEM_BYTES, Graph, Input, Literal, Node, TensorSpec
from tracer.model.literal import literal_of
from tracer.ops.aten import is_pointwise
from tracer.strategies.sharded import OFFSET, PART_OF, Partitioner, Shard, shards_of
from tracer.strategies.step_parts import StepParts

#: what changes no more of a variable than a row of its operands says, or only hands on
_BY_ROW = {
    "AssignAddVariableOp",
    "AssignVariableOp",
    "Const",
    "ResourceApplyAdam",
    "ResourceApplyGradientDescent",
    "ResourceApplyMomentum",
    "aten._to_copy.default",
    "aten.detach.default",
}


def partitioned(step: CapturedStep, partitioner: Partitioner) -> CapturedStep:
    """Raises DistributionError for what a partitioner must not answer."""
    return _Cut(step, partitioner).step()


class _Cut:
    def __init__(self, step: CapturedStep, partitioner: Partitioner) -> None:
        self._step = step
        self._parts = StepParts(step)
        self._graph = step.graph
        self._shards: dict[str, tuple[Shard, ...]] = {}
        self._of: dict[str, str] = {}  # node → the variable with whose shards it is multiplied
        for node in variables_of(step.graph):
            if node.colocated_with[:1] == (node.name,) and node.attrs["dtype"] in ITEM_BYTES:
                self._decide(node, partitioner)
        self._evaluation = {*self._parts.evaluation}
        self._made: dict[str, Node] = {}  # concats and splits, by name

    def _decide(self, variable: Node, partitioner: Partitioner) -> None:
        """Cuts it, if the partitioner says so and everything that belongs to it can be cut."""
        shards = shards_of(variable.name, _declared(variable), partitioner)
        if len(shards) == 1:
            return
        mine = {*self._belongings(variable.name)}
        if all(self._can_be_cut(self._graph[name], variable) for name in mine) and all(
            self._is_free(name, mine) for name in mine
        ):
            self._shards[variable.name] = shards
            self._of |= dict.fromkeys(mine, variable.name)

    def _belongings(self, variable: str) -> Iterator[str]:
        """Handles, first values, reads and updates of a variable and its slots."""
        for node in variables_of(self._graph):
            if node.colocated_with[:1] == (variable,):
                names = (f"{node.name}{end}" for end in ("", "/Initializer", "/Assign", "/Read"))
                yield from (name for name in names if name in self._graph)
        yield from (name for name in self._parts.update if self._parts.owner(name) == variable)

    def _can_be_cut(self, node: Node, variable: Node) -> bool:
        rows, rank = _declared(variable).shape[0], len(variable.attrs["shape"])
        if node.op in HANDLES:
            shape = tuple(node.attrs["shape"])
            return not shape or (len(shape) == rank and shape[0] == rows)
        if node.op in _BY_ROW or node.name not in self._parts.update:
            return True
        specs = (*node.specs, *map(self._parts.spec, node.inputs))
        return is_pointwise(node.op) or not any(spec.shape for spec in specs)

    def _is_free(self, name: str, mine: set[str]) -> bool:
        """Whether nobody else's update needs it: that would need the whole of it, on a server."""
        others = [edge for edge in self._graph.out_edges(name) if edge.dst not in mine]
        if any(edge.dst in self._parts.update for edge in others):
            return False
        return name not in self._parts.update or all(edge.is_control for edge in others)

    def step(self) -> CapturedStep:
        if not self._shards:
            return self._step
        nodes: list[Node] = []
        for node in self._graph.nodes:
            copies = [*self._replaced(node)]
            nodes += [*self._made.values(), *copies]
            self._made.clear()
        whole = self._step.trainable - self._shards.keys()
        cut = self._step.trainable & self._shards.keys()
        shards = {shard.name for name in cut for shard in self._shards[name]}
        return replace(self._step, graph=Graph(_unique(nodes)), trainable=whole | shards)

    def _replaced(self, node: Node) -> Iterator[Node]:
        if variable := self._of.get(node.name):
            for number, shard in enumerate(self._shards[variable]):
                yield self._of_shard(node, variable, number, shard)
            return
        where = "evaluation/" if node.name in self._evaluation else ""
        beside = [self._beside(name, 0) for name in node.colocated_with]
        yield node.with_(
            inputs=tuple(self._whole(source, where) for source in node.inputs),
            control_inputs=tuple(each for c in node.control_inputs for each in self._all(c)),
            attrs={**node.attrs, "_class": beside} if beside else node.attrs,
        )

    def _of_shard(self, node: Node, variable: str, number: int, shard: Shard) -> Node:
        attrs = dict(node.attrs)
        if node.colocated_with:
            attrs["_class"] = [self._beside(name, number) for name in node.colocated_with]
        if node.op in HANDLES:
            attrs |= self._handle(node, variable, shard)
        elif node.op == "Const":
            attrs["value"] = self._rows_of(node.attrs["value"], variable, shard)
        return node.with_(
            name=self._named(node.name, number),
            inputs=tuple(self._part(s, variable, number) for s in node.inputs),
            control_inputs=tuple(self._named(c, number) for c in node.control_inputs),
            attrs=attrs,
            specs=tuple(self._cut_spec(spec, variable, shard) for spec in node.specs),
        )

    def _handle(self, node: Node, variable: str, shard: Shard) -> Mapping[str, Any]:
        name, shape = _renamed(node.name, variable, shard), tuple(node.attrs["shape"])
        spec = self._cut_spec(TensorSpec(node.attrs["dtype"], shape), variable, shard)
        part = {PART_OF: node.name, OFFSET: shard.offset} if shape else {}
        return {"shape": list(spec.shape), "shared_name": name, **part}

    def _named(self, name: str, number: int) -> str:
        """What a node is called in shard `number`, where there is one of it in each."""
        variable = self._of.get(name)
        return (
            name if variable is None else _renamed(name, variable, self._shards[variable][number])
        )

    def _beside(self, name: str, number: int) -> str:
        return f"loc:@{self._named(name, number)}"

    def _all(self, name: str) -> list[str]:
        count = len(self._shards[self._of[name]]) if name in self._of else 1
        return [self._named(name, number) for number in range(count)]

    def _is_cut(self, spec: TensorSpec, variable: str) -> bool:
        """Whether a tensor has the rows of a variable, and not one row for all of them."""
        whole = _declared(self._graph[variable]).shape
        return len(spec.shape) == len(whole) and spec.shape[0] == whole[0]

    def _cut_spec(self, spec: TensorSpec, variable: str, shard: Shard) -> TensorSpec:
        if not self._is_cut(spec, variable):
            return spec
        return TensorSpec(spec.dtype, (shard.rows, *spec.shape[1:]))

    def _rows_of(self, value: Literal, variable: str, shard: Shard) -> Literal:
        spec = TensorSpec(value.dtype, value.shape)
        if not self._is_cut(spec, variable):
            return value
        cut = self._cut_spec(spec, variable, shard)
        row = len(value.data) // spec.shape[0]
        data = value.data[shard.offset * row : (shard.offset + shard.rows) * row]
        return Literal(value.dtype, cut.shape, data)

    def _part(self, source: Input, variable: str, number: int) -> Input:
        """What a node of one shard gets for an input of the whole: its rows of it."""
        if source.node in self._of:
            return source._replace(node=self._named(source.node, number))
        spec = self._parts.spec(source)
        if not self._is_cut(spec, variable):
            return source
        return Input(self._split(source, spec, self._shards[variable]), number)

    def _split(self, source: Input, spec: TensorSpec, shards: Sequence[Shard]) -> str:
        name = f"{source.node}/split" + (f"_{source.port}" if source.port else "")
        phase = {"_phase": self._graph[source.node].attrs.get("_phase", "backward")}
        rows = [shard.rows for shard in shards]
        specs = [TensorSpec(spec.dtype, (count, *spec.shape[1:])) for count in rows]
        sizes = const(f"{name}/size_splits", literal_of("int32", rows), phase)
        axis = const(f"{name}/split_dim", literal_of("int32", 0), phase)
        attrs = {"T": spec.dtype, "Tlen": "int32", "num_split": len(rows), **phase}
        inputs = (source, Input(sizes.name), Input(axis.name))
        return self._add(sizes, axis, Node(name, "SplitV", inputs, attrs=attrs, specs=tuple(specs)))

    def _whole(self, source: Input, where: str) -> Input:
        """What somebody outside gets for a read: those of all shards, end to end."""
        variable = self._of.get(source.node)
        if variable is None or self._graph[source.node].op != "ReadVariableOp":
            return source
        (spec,) = self._graph[source.node].specs
        if not self._is_cut(spec, variable):
            return Input(self._named(source.node, 0))
        name, reads = f"{where}{variable}/concat", [Input(each) for each in self._all(source.node)]
        axis = const(f"{name}/axis", literal_of("int32", 0), {"_phase": "forward"})
        attrs = {"T": spec.dtype, "N": len(reads), "_phase": "forward"}
        inputs = (*reads, Input(axis.name))
        return Input(self._add(axis, Node(name, "ConcatV2", inputs, attrs=attrs, specs=(spec,))))

    def _add(self, *nodes: Node) -> str:
        """The last one's name."""
        self._made |= {node.name: node for node in nodes}
        return nodes[-1].name


def _renamed(name: str, variable: str, shard: Shard) -> str:
    """`v/Momentum` → `v/part_0/Momentum`, `train/update_v/mul` → `train/update_v/part_0/mul`."""
    for stem, new in (
        (variable, shard.name),
        (f"train/update_{variable}", f"train/update_{shard.name}"),
    ):
        if name == stem or name.startswith(f"{stem}/"):
            return new + name.removeprefix(stem)
    return f"{name}/{shard.name.rpartition('/')[2]}"


def _declared(variable: Node) -> TensorSpec:
    return TensorSpec(variable.attrs["dtype"], tuple(variable.attrs["shape"]))


def _unique(nodes: Iterable[Node]) -> Iterable[Node]:
    """What several ask for is there once."""
    return {node.name: node for node in nodes}.values()
