"""`StepGraph`: collects the nodes of one graph, part by part: step, evaluation, groups."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor, fx

from tracer.capture_graph.lower import Lowering
from tracer.capture_graph.randomness import SEED
from tracer.capture_graph.state import StateValues, const, together
from tracer.capture_graph.trace import Traced
from tracer.capture_graph.updates import Update, cone_owners, updates_of
from tracer.model.graph import Graph, Input, Node
from tracer.model.graph_builder import GraphBuilder
from tracer.ops.dtypes import spec_of, tensor_to_literal, torch_dtype

INIT, TRAIN, LOSS, LOGITS, METRIC = "init", "train", "loss", "logits", "metric"

#: what people run a graph by
GIVEN_NAMES = frozenset({"x", "y", SEED, INIT, TRAIN, LOSS, LOGITS, METRIC})


class StepGraph:
    """`variables` come first in every graph, whatever its parts read."""

    def __init__(self, state: StateValues, variables: Sequence[Node]) -> None:
        self._values = state.flat()
        self._owner = state.owners()
        self._variables = variables
        self._builder = GraphBuilder(taken={*GIVEN_NAMES, *self._values})
        self._reads: dict[str, Node] = {}
        self._updates: list[str] = []

    def graph(self) -> Graph:
        anchor = together(next(iter(self._values), ""))
        assigns = tuple(f"{name}/Assign" for name in self._values)
        groups = [Node(INIT, "NoOp", control_inputs=assigns, attrs=anchor)]
        if self._updates:
            updates = tuple(self._updates)
            groups.insert(0, Node(TRAIN, "NoOp", control_inputs=updates, attrs=_update(anchor)))
        reads = {read.name for read in self._reads.values()}
        others = (node for node in self._builder.nodes if node.name not in reads)
        return Graph([*self._variables, *self._reads.values(), *others, *groups])

    def add_step(self, traced: Traced, feeds: Mapping[str, Tensor]) -> tuple[str, ...]:
        """Forward, backward and update: `loss`, `logits`, `train`. Returns what must be fed."""
        fed = [self._feed(name, tensor) for name, tensor in feeds.items()]
        updates = updates_of(traced.inputs, traced.outputs)
        owners = cone_owners(updates, self._owner)
        lower = self._lowering(traced, fed, owners=owners)
        results = _results(traced, {"loss": LOSS, "outputs": LOGITS})
        values = [value for update in updates.values() for value in update.values]
        made = iter(lower([*results.values(), *values]))
        for name, node in results.items():
            self._builder.keep(_named(name, next(made), node))
        for name, update in updates.items():
            self._add_update(name, update, list(islice(made, len(update.values))))
        return tuple(fed)

    def add_evaluation(
        self, traced: Traced, feeds: Mapping[str, Tensor], prefix: str
    ) -> tuple[str, ...]:
        """A forward pass alone: `<prefix>metric`, `<prefix>logits`. Returns what must be fed."""
        fed = [self._feed(f"{prefix}{name}", tensor) for name, tensor in feeds.items()]
        lower = self._lowering(traced, fed, prefix)
        results = _results(traced, {"metric": f"{prefix}{METRIC}", "outputs": f"{prefix}{LOGITS}"})
        for node in map(_named, results, lower(results.values()), results.values()):
            self._builder.keep(node)
        return tuple(fed)

    def _lowering(
        self,
        traced: Traced,
        fed: list[str],
        prefix: str = "",
        owners: Mapping[fx.Node, str] | None = None,
    ) -> Lowering:
        """Adds to `fed` if something draws: its seed is fed too."""

        def seed() -> Input:
            fed.append(self._feed(f"{prefix}{SEED}", torch.tensor(0)))
            return Input(f"{prefix}{SEED}")

        source = self._source(traced, prefix)
        return Lowering(traced.module, self._builder, source, seed, prefix, owners)

    def _read(self, name: str) -> Input:
        if name not in self._reads:
            spec = spec_of(self._values[name])
            self._reads[name] = Node(
                f"{name}/Read",
                "ReadVariableOp",
                (Input(name),),
                attrs={"dtype": spec.dtype, "_phase": "read"},
                specs=(spec,),
            )
            self._builder.keep(self._reads[name])
        return Input(f"{name}/Read")

    def _feed(self, name: str, tensor: Tensor) -> str:
        spec = spec_of(tensor)
        attrs = {"dtype": spec.dtype, "shape": list(spec.shape), "_phase": "forward"}
        self._builder.keep(Node(name, "Placeholder", attrs=attrs, specs=(spec,)))
        return f"{name}:0"

    def _source(self, traced: Traced, prefix: str) -> Callable[[fx.Node], Input]:
        name_of = {node: name for name, node in traced.inputs.items()}

        def source(node: fx.Node) -> Input:
            name = name_of[node]
            return self._read(name) if name in self._values else Input(f"{prefix}{name}")

        return source

    def _add_update(self, name: str, update: Update, values: list[Input]) -> None:
        owner = self._owner.get(name, name)
        made, spec = f"train/update_{name}", spec_of(self._values[name])
        beside, left = _update(together(owner)), iter(values)
        inputs = [Input(handle) for handle in (name, *update.slots)]
        for operand in update.operands:
            if isinstance(operand, fx.Node):
                inputs.append(next(left))
                continue
            scalar = torch.tensor(operand[1], dtype=torch_dtype(update.dtype or spec.dtype))
            constant = const(f"{made}/{operand[0]}", tensor_to_literal(scalar), beside)
            inputs.append(self._builder.keep(constant))
        kind = "dtype" if update.op.startswith("Assign") else "T"
        self._builder.keep(
            Node(
                made,
                update.op,
                tuple(inputs),
                self._unordered_reads((name, *update.slots), values),
                attrs={kind: spec.dtype, **update.attrs, **beside},
            )
        )
        self._updates.append(made)

    def _unordered_reads(self, names: tuple[str, ...], values: list[Input]) -> tuple[str, ...]:
        """Reads that the new value does not come from: they must be over before it is assigned."""
        by_name = {node.name: node for node in self._builder.nodes}
        seen: set[str] = set()
        open_names = [value.node for value in values]
        while open_names:
            if (name := open_names.pop()) not in seen and name in by_name:
                seen.add(name)
                open_names += [source.node for source in by_name[name].inputs]
        reads = (f"{name}/Read" for name in names if name in self._reads)
        return tuple(read for read in reads if read not in seen)


def _update(attrs: Mapping[str, Any]) -> dict[str, Any]:
    return {**attrs, "_phase": "update"}


def _results(traced: Traced, names: Mapping[str, str]) -> dict[str, fx.Node]:
    """Those of the named outputs that there are, by the name of their node."""
    return {
        name: traced.outputs[output] for output, name in names.items() if output in traced.outputs
    }


def _named(name: str, value: Input, traced: fx.Node) -> Node:
    """A result under the name that people fetch it by."""
    spec = spec_of(traced.meta["val"])
    attrs = {"T": spec.dtype, "_phase": "forward"}
    return Node(name, "Identity", (value,), attrs=attrs, specs=(spec,))
