"""`by_rows`: tables are looked up and updated by the rows that a step uses (TF `IndexedSlices`).

    ids ─► Unique ─► ResourceGather, beside the table ─► rows ─► GatherV2, in the order of the ids
             │                                                     · forward · backward ·
             └─► ids ──────► ScatterSub, beside the table ◄── rows' gradients ◄─┘ UnsortedSegmentSum

A captured step reads a table whole (`aten.embedding`) and makes a gradient of its whole shape. Here
each id that occurs crosses once, its row comes back, and its gradient goes there; gradients of one
id are summed before they cross. Of a table in shards each has its own ids, and whose none are is
asked for none (`embedding_lookup` with "div"). An update that moves rows without a gradient too,
by momentum or decay, gets the whole gradient again, made beside the table: the values stay those of
dense training. A table that something else reads as well has a dense gradient, and keeps it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tracer.capture_graph.capture import CapturedStep
from tracer.capture_graph.state import const, together
from tracer.model.graph import Graph, Input, Node, TensorSpec
from tracer.model.graph_builder import GraphBuilder
from tracer.model.literal import literal_of
from tracer.strategies.sharded import rows_of_shards
from tracer.strategies.step_parts import INDICES, StepParts

LOOKUP, GRADIENT = "aten.embedding.default", "aten.embedding_dense_backward.default"

_DESCENT = "ResourceApplyGradientDescent"


def by_rows(step: CapturedStep) -> CapturedStep:
    return _Rows(step).step()


@dataclass(frozen=True, slots=True)
class Lookup:
    """Rows of a table for some ids. `table`: its shards; `name`: that of its nodes."""

    name: str
    table: tuple[str, ...]
    ids: Input
    spec: TensorSpec  #: of the whole table

    @property
    def unique(self) -> Input:
        """Each id once, in the order of first sight; port 1: where among them each id's is."""
        return Input(f"{self.name}/Unique")

    def ids_of(self, shard: int) -> Input:
        """Within the shard."""
        return self.unique if len(self.table) == 1 else Input(f"{self.name}/ids", shard)

    def places_of(self, shard: int) -> Input:
        """Of the shard's ids among all."""
        return Input(f"{self.name}/places", shard)


class _Rows:
    def __init__(self, step: CapturedStep) -> None:
        self._step = step
        self._graph = step.graph
        self._parts = StepParts(step)
        self._lookups = {
            node.name: made for node in step.graph.nodes if (made := self._lookup(node)) is not None
        }
        self._changed: dict[str, Node] = {}  # nodes of updates
        self._gradients = {
            node.name: [*self._by_rows(node, own)]
            for node in step.graph.nodes
            if (own := self._lookup_of(node)) is not None
        }

    def step(self) -> CapturedStep:
        if not self._lookups:
            return self._step
        nodes: list[Node] = []
        for node in self._graph.nodes:
            nodes += self._gradients.get(node.name, ())
            if lookup := self._lookups.get(node.name):
                nodes += self._looked_up(node, lookup)
            else:
                nodes.append(self._changed.get(node.name, node))
        return replace(self._step, graph=Graph(_without_unused(nodes, {*self._replaced()})))

    def _lookup(self, node: Node) -> Lookup | None:
        if node.op != LOOKUP:
            return None
        weight, ids = _arguments(node, 2)
        table = self._table(weight)
        if not table or self._is_read_whole(weight, node):
            return None
        return Lookup(node.name, table, ids, self._parts.spec(weight))

    def _table(self, weight: Input) -> tuple[str, ...]:
        """The variables whose values are read there, end to end."""
        node = self._graph[weight.node]
        reads = node.inputs[:-1] if node.op == "ConcatV2" else (weight,)
        names = tuple(self._parts.read_variable(read.node) for read in reads)
        return names if all(names) else ()

    def _is_read_whole(self, weight: Input, lookup: Node) -> bool:
        """Whether the whole table crosses anyway, since something beside lookups wants it."""
        parts = self._parts
        where = parts.body if lookup.name in parts.body else parts.evaluation
        readers = (self._graph[edge.dst] for edge in self._graph.out_edges(weight.node))
        return any(reader.name in where and reader.op != LOOKUP for reader in readers)

    def _replaced(self) -> Iterator[str]:
        """What puts tables together and takes gradients apart, where nobody needs it any more."""
        for name in self._lookups:
            (weight,) = _arguments(self._graph[name], 1)
            if self._graph[weight.node].op == "ConcatV2":
                yield weight.node
        for name in self._gradients:
            yield name
            yield from (edge.dst for edge in self._graph.out_edges(name))

    def _lookup_of(self, node: Node) -> Lookup | None:
        """That whose gradient a node is, if nobody but the table's updates wants it."""
        if node.op != GRADIENT:
            return None
        _, ids = _arguments(node, 2)
        padding, scales_by_frequency = node.attrs["args"][3:]
        if padding >= 0 or scales_by_frequency:
            return None
        table = tuple(dict.fromkeys(self._parts.owner(slot[0]) for slot, _ in self._slots(node)))
        body = self._parts.body
        found = (
            own
            for name, own in self._lookups.items()
            if name in body and (own.table, own.ids) == (table, ids)
        )
        return next(found, None)

    def _slots(self, node: Node) -> Iterator[tuple[tuple[str, int], int]]:
        """Inputs of updates that a gradient goes to, each with the number of its shard."""
        for edge in self._graph.out_edges(node.name):
            consumer, port = self._graph[edge.dst], edge.dst_port
            assert port is not None
            if consumer.op == "SplitV":
                for part in self._graph.out_edges(consumer.name):
                    assert part.src_port is not None
                    assert part.dst_port is not None
                    yield (part.dst, part.dst_port), part.src_port
            elif edge.dst in self._parts.update:
                yield (edge.dst, port), 0
            else:
                yield (edge.dst, port), -1

    def _by_rows(self, node: Node, lookup: Lookup) -> Iterator[Node]:
        """A gradient as rows, and the updates that take it so."""
        gradient, _ = _arguments(node, 2)
        build = _Builder(node.name, "backward")
        flat = build.rows(gradient, lookup.spec)
        count = build("Size", lookup.unique, out_type="int32")
        wide = len(lookup.table) > 1
        attrs = {"T": lookup.spec.dtype, "Tindices": "int32", "Tnumsegments": "int32"}
        told = {} if wide else {INDICES: str(lookup.ids_of(0))}
        summed = build("UnsortedSegmentSum", flat, lookup.unique._replace(port=1), count,
                       **attrs, **told)  # fmt: skip
        values = [summed]
        if wide:
            axis = build.const("axis", 0)
            values = [
                build("GatherV2", summed, lookup.places_of(shard), axis, name=f"part_{shard}",
                      Tparams=lookup.spec.dtype, **{INDICES: str(lookup.ids_of(shard))})
                for shard in range(len(lookup.table))
            ]  # fmt: skip
        yield from build.nodes
        made: dict[str, Node] = {}
        for (name, port), shard in self._slots(node):
            update = _Update(self._graph, lookup.table[shard], values[shard], lookup.ids_of(shard))
            changed = self._changed.get(name, self._graph[name])
            self._changed[name] = update.taking(changed, port, made)
        yield from made.values()

    def _looked_up(self, node: Node, lookup: Lookup) -> list[Node]:
        """What gives the same rows without the table; the last is named as the node was."""
        build = _Builder(node.name, node.attrs.get("_phase", "forward"))
        dtype = self._parts.spec(lookup.ids).dtype
        shape = self._parts.spec(lookup.ids).shape
        flat = build.reshaped("ids/flat", lookup.ids, [-1], dtype)
        build("Unique", flat, T=dtype, out_idx="int32")
        if len(lookup.table) == 1:
            rows = build.gathered(lookup, 0)
        else:
            rows = _from_shards(build, lookup, dtype)
        places = lookup.unique._replace(port=1)
        inputs = rows, build.reshaped("order", places, list(shape), "int32"), build.const("axis", 0)
        attrs = {"Tparams": lookup.spec.dtype, "Tindices": "int32", **build.phase}
        return [*build.nodes, node.with_(op="GatherV2", inputs=inputs, attrs=attrs)]


def _from_shards(build: "_Builder", lookup: Lookup, dtype: str) -> Input:
    """Ids are dealt out to the shards that hold their rows, and these put together again."""
    count, rows = len(lookup.table), lookup.spec.shape[0]
    shard, within = _div(build, lookup.unique, dtype, rows_of_shards(rows, count))
    shard = build("Cast", shard, name="shard/Cast", SrcT=dtype, DstT="int32")
    build("DynamicPartition", within, shard, name="ids", T=dtype, num_partitions=count)
    size = build("Size", lookup.unique, name="Size", T=dtype, out_type="int32")
    first, one = build.const("range/start", 0), build.const("range/delta", 1)
    every = build("Range", first, size, one, name="range", Tidx="int32")
    build("DynamicPartition", every, shard, name="places", T="int32", num_partitions=count)
    places = [lookup.places_of(number) for number in range(count)]
    found = [build.gathered(lookup, number) for number in range(count)]
    return build("DynamicStitch", *places, *found, name="rows", T=lookup.spec.dtype, N=count)


def _div(build: "_Builder", ids: Input, dtype: str, sizes: Sequence[int]) -> tuple[Input, Input]:
    """Shard of each id, and its row there: the first shards have a row more than the last."""

    def op(op: str, x: Input, y: Input | int, name: str) -> Input:
        other = y if isinstance(y, Input) else build.const(f"{name}/y", y, dtype)
        return build(op, x, other, name=name, T=dtype)

    more, least = sum(size > sizes[-1] for size in sizes), sizes[-1]
    if not more:
        return op("FloorDiv", ids, least, "shard"), op("FloorMod", ids, least, "within")

    rest = op("Sub", ids, more, "shard/rest")
    first = op("FloorDiv", ids, least + 1, "shard/if_first")
    last = op("FloorDiv", rest, least, "shard/if_last")
    shard = op("Maximum", first, last, "shard")
    first = op("FloorMod", ids, least + 1, "within/if_first")
    last = op("FloorMod", rest, least, "within/if_last")
    is_first = op("Less", shard, more, "within/is_first")
    return shard, build("Select", is_first, first, last, name="within", T=dtype)


@dataclass(frozen=True, slots=True)
class _Update:
    """How what updates a table, or a shard of one, takes a gradient that comes as rows."""

    graph: Graph
    table: str
    values: Input
    ids: Input

    def taking(self, node: Node, port: int, made: dict[str, Node]) -> Node:
        """The node, changed; what it needs beside it goes to `made`."""
        beside = {**together(self.table), "_phase": "update"}
        if node.op == _DESCENT:
            handle, rate, _ = node.inputs
            dtype = str(self.graph[self.table].attrs["dtype"])
            scaled = Node(
                f"{node.name}/mul", "Mul", (self.values, rate), attrs={"T": dtype, **beside}
            )
            made[scaled.name] = scaled
            attrs = {"dtype": dtype, **beside}
            rows = (handle, self.ids, Input(scaled.name))
            return node.with_(op="ResourceScatterSub", inputs=rows, attrs=attrs)
        inputs = list(node.inputs)
        inputs[port] = self._whole(beside, made)
        return node.with_(inputs=tuple(inputs))

    def _whole(self, beside: Mapping[str, Any], made: dict[str, Node]) -> Input:
        """Zeros but for the rows that came."""
        handle, name = self.graph[self.table], f"train/update_{self.table}/UnsortedSegmentSum"
        spec = TensorSpec(handle.attrs["dtype"], tuple(handle.attrs["shape"]))
        rows = const(f"{name}/num_segments", literal_of("int32", spec.shape[0]), beside)
        whole = Node(
            name,
            "UnsortedSegmentSum",
            (self.values, self.ids, Input(rows.name)),
            attrs={"T": spec.dtype, **beside},
            specs=(spec,),
        )
        made |= {rows.name: rows, name: whole}
        return Input(name)


class _Builder:
    """Adds nodes of one phase under one name."""

    def __init__(self, name: str, phase: str) -> None:
        self.nodes: list[Node] = []
        self.phase = {"_phase": phase}
        self._name = name

    def __call__(self, op: str, *inputs: Input, name: str = "", **attrs: Any) -> Input:
        made = Node(f"{self._name}/{name or op}", op, inputs, attrs={**attrs, **self.phase})
        self.nodes.append(made)
        return Input(made.name)

    def const(self, name: str, value: Any, dtype: str = "int32") -> Input:
        made = const(f"{self._name}/{name}", literal_of(dtype, value), self.phase)
        self.nodes.append(made)
        return Input(made.name)

    def reshaped(self, name: str, source: Input, shape: list[int], dtype: str) -> Input:
        return self("Reshape", source, self.const(f"{name}/shape", shape), name=name, T=dtype)

    def rows(self, source: Input, table: TensorSpec) -> Input:
        return self.reshaped("rows", source, [-1, *table.shape[1:]], table.dtype)

    def gathered(self, lookup: Lookup, shard: int) -> Input:
        table = lookup.table[shard]
        name = f"Gather_{shard}" if len(lookup.table) > 1 else "Gather"
        attrs = {"dtype": lookup.spec.dtype, "validate_indices": True, **together(table)}
        return self("ResourceGather", Input(table), lookup.ids_of(shard), name=name, **attrs)


def _arguments(node: Node, count: int) -> list[Input]:
    """The first arguments of a call, which are tensors."""
    return [node.inputs[each["input"]] for each in node.attrs["args"][:count]]


def _without_unused(nodes: Sequence[Node], candidates: set[str]) -> list[Node]:
    """Without those of `candidates`, and what only they need, that nobody needs any more.

    Reads stay: by them others know whether variables have values.
    """
    by_name = {node.name: node for node in nodes}
    used = Graph(nodes)
    uses = {name: len(used.out_edges(name)) for name in by_name}
    open_names = [name for name in candidates if not uses[name]]
    while open_names:
        node = by_name.pop(open_names.pop())
        for source in node.inputs:
            uses[source.node] -= 1
            kept = by_name[source.node].op == "ReadVariableOp"
            if not uses[source.node] and not kept:
                open_names.append(source.node)
    return [*by_name.values()]


def summed_rows(
    builder: GraphBuilder, values: Sequence[Input], ids: Sequence[Input]
) -> tuple[Input, Input]:
    """The rows of several replicas as those of one: each id once, its gradients summed."""
    dtype, kind = builder.dtype_of(values[0]), builder.dtype_of(ids[0])
    with builder.name_scope(f"{values[0].node}/of_replicas"):
        axis = builder.const(0, "int32", name="axis")
        count: dict[str, Any] = {"N": len(ids)}
        every = builder.op("ConcatV2", *ids, axis, name="ids", T=kind, **count)
        rows = builder.op("ConcatV2", *values, axis, name="rows", T=dtype, **count)
        unique = builder.op("Unique", every, name="Unique", T=kind, out_idx="int32")
        size = builder.op("Size", unique, name="Size", T=kind, out_type="int32")
        attrs: dict[str, Any] = {"T": dtype, INDICES: str(unique)}
        places = unique._replace(port=1)
        summed = builder.op("UnsortedSegmentSum", rows, places, size, name="sum", **attrs)
    return summed, unique
