"""Traced ops → nodes: `aten.*` nodes named by layer, their constants in attributes."""

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, fx

from tracer.capture_graph.control_flow import Flow
from tracer.capture_graph.errors import CaptureError
from tracer.capture_graph.in_place import flow_of
from tracer.capture_graph.origins import Origin, origin_of
from tracer.capture_graph.randomness import STATE, Chain, draws, with_generator
from tracer.capture_graph.rules import plain
from tracer.model.graph import Input, Node, TensorSpec
from tracer.model.graph_builder import GraphBuilder
from tracer.ops.aten import template_of
from tracer.ops.dtypes import UnknownDtype, spec_of, tensor_to_literal

FOLDED = {"t", "view", "transpose", "permute", "expand", "unsqueeze", "squeeze", "_unsafe_view"}


class Lowering:
    """Makes the nodes of one traced graph, inputs first.

    `source(node)` gives the graph input that a placeholder stands for. `owners` puts nodes into the
    scope of a variable and beside it (update cones). `seed()` makes the feed that draws start from.
    `within` is where the ops of a branch or loop body come from as a whole.
    """

    def __init__(
        self,
        module: fx.GraphModule,
        builder: GraphBuilder,
        source: Callable[[fx.Node], Input],
        seed: Callable[[], Input],
        prefix: str = "",
        owners: Mapping[fx.Node, str] | None = None,
        within: Origin | None = None,
    ) -> None:
        self.module = module
        self.builder = builder
        self._source = source
        self._prefix = prefix
        self._owners = owners or {}
        self._within = within
        self._chain = Chain(seed)
        self._flow = Flow(self)
        self._made: dict[fx.Node, Input] = {}

    def __call__(self, wanted: Iterable[fx.Node]) -> list[Input]:
        """The outputs that `wanted` became; emits what they need, in trace order.

        And what draws, needed or not, since eager torch draws it too.
        """
        wanted = list(wanted)
        needed: set[fx.Node] = set()
        open_nodes = [*map(plain, wanted), *filter(draws, self.module.graph.nodes)]
        while open_nodes:
            node = open_nodes.pop()
            if node not in needed and node not in self._made:
                needed.add(node)
                open_nodes += map(plain, self._flow.sources(node))
        for node in self.module.graph.nodes:
            if node in needed and node not in self._made:
                self._made[node] = self._emit(node)
        return [self.value(node) for node in wanted]

    def value(self, node: fx.Node) -> Input:
        return self._made[plain(node)]

    def stands_for(self, node: fx.Node, value: Input) -> None:
        """What a traced value is, without being computed here."""
        self._made[node] = value

    def inside(
        self, node: fx.Node, module: fx.GraphModule, source: Callable[[fx.Node], Input]
    ) -> "Lowering":
        """What lowers a branch or a body that a traced op runs."""

        def seed() -> Input:
            raise CaptureError(
                f"{where(node, self.origin(node))} draws random numbers in a branch or in a loop, "
                "where their order does not follow from the seed; draw before it, and hand them in"
            )

        origin = self.origin(node)
        return Lowering(module, self.builder, source, seed, within=origin)

    def origin(self, node: fx.Node) -> Origin:
        """Of a branch or body only the line is its own."""
        origin = origin_of(node)
        if self._within is None:
            return origin
        return Origin(self._within.phase, "", origin.source or self._within.source)

    def name(self, node: fx.Node, short: str) -> str:
        return self._name(self.origin(node), self._owners.get(node), short)

    def _emit(self, node: fx.Node) -> Input:
        if node.op == "placeholder":
            return self._source(node)
        if node.op == "get_attr":
            return self._constant(node)
        if flow_of(node):
            return self._flow(node)
        if node.target is operator.getitem:
            source, port = node.args
            assert isinstance(source, fx.Node)
            assert isinstance(port, int)
            if flow_of(source):
                raise CaptureError(f"the step reads all values of {source.target} at once")
            return self.value(source)._replace(port=port)
        if not isinstance(node.target, torch._ops.OpOverload):
            raise CaptureError(
                f"the step calls {node.target}, which is no aten op; it has no kernel"
            )
        return self._call(node, node.target)

    def _constant(self, node: fx.Node) -> Input:
        value = getattr(self.module, str(node.target))
        attrs = {"dtype": spec_of(value).dtype, "value": tensor_to_literal(value)}
        return self._add(
            Node(f"{self._prefix}Const", "Const", attrs=attrs, specs=(spec_of(value),))
        )

    def _add(self, node: Node) -> Input:
        return self.builder.add(node.with_(name=self.builder.scoped(node.name)))

    def _call(self, node: fx.Node, target: torch._ops.OpOverload) -> Input:
        inputs: list[Input] = []
        origin, owner = self.origin(node), self._owners.get(node)
        is_random = draws(node)
        target = with_generator(node) if is_random else target
        short = target._schema.name.rpartition("::")[2]
        attrs: dict[str, Any] = {
            "args": self._template(node, node.args, inputs),
            "kwargs": {k: self._template(node, v, inputs) for k, v in node.kwargs.items()},
            "_phase": origin.phase,
        }
        specs = self._specs(node, origin)
        if is_random:
            _check_draw(node, origin)
            inputs.append(self._chain.start())
            attrs["kwargs"]["generator"] = {"generator": len(inputs) - 1}
            specs = (*specs, STATE)
        elif len(specs) > 1 or isinstance(node.meta["val"], list):
            attrs["num_outputs"] = len(specs)
        if short in FOLDED:
            attrs["_fold"] = True
        if owner:
            attrs["_class"] = [f"loc:@{owner}"]
        name = self._name(origin, owner, short.strip("_"))
        made = self._add(
            Node(name, str(target), tuple(inputs), attrs=attrs, specs=specs, source=origin.source)
        )
        if is_random:
            self._chain.left(made._replace(port=len(specs) - 1))
        return made

    def _specs(self, node: fx.Node, origin: Origin) -> tuple[TensorSpec, ...]:
        results = _results(node)
        if any(isinstance(dim, torch.SymInt) for each in results for dim in _shape(each)):
            raise CaptureError(
                f"{where(node, origin)} has a shape that follows from values, and there are none "
                "before the graph runs; mask with torch.where instead of taking elements out"
            )
        try:
            return tuple(map(_spec, results))
        except UnknownDtype as error:
            raise CaptureError(f"{where(node, origin)}: {error}") from None

    def _name(self, origin: Origin, owner: str | None, short: str) -> str:
        if self._within is not None:
            return short
        if owner:
            return f"train/update_{owner}/{short}"
        start = {"backward": "gradients/", "update": "train/"}.get(origin.phase, self._prefix)
        return f"{start}{origin.scope}/{short}" if origin.scope else f"{start}{short}"

    def _template(self, node: fx.Node, value: Any, inputs: list[Input]) -> Any:
        if isinstance(value, fx.Node):
            source = self._made[plain(value)]
            if source not in inputs:
                inputs.append(source)
            return {"input": inputs.index(source)}
        if isinstance(value, list | tuple):
            return [self._template(node, item, inputs) for item in value]
        try:
            return template_of(value)
        except TypeError as error:
            raise CaptureError(f"{where(node, self.origin(node))}: {error}") from None


def where(node: fx.Node, origin: Origin) -> str:
    """`aten.abs.default in encoder/fc1 (folder/file.py:12)`."""
    layer = f" in {origin.scope}" if origin.scope else ""
    return f"{node.target}{layer}" + (f" ({origin.source})" if origin.source else "")


def _check_draw(node: fx.Node, origin: Origin) -> None:
    if origin.phase == "backward":
        raise CaptureError(
            f"{where(node, origin)} draws random numbers again in the backward pass, where it "
            "needs those of the forward pass; leave what draws (Dropout) out of the checkpoint"
        )


def _results(node: fx.Node) -> list[Any]:
    value = node.meta["val"]
    return list(value) if isinstance(value, list | tuple) else [value]


def _shape(value: Any) -> Iterable[Any]:
    return value.shape if isinstance(value, Tensor) else ()


def _spec(value: Any) -> TensorSpec:
    """Of an output that the op leaves out (a gradient nobody asked for): no dtype, no bytes."""
    return spec_of(value) if isinstance(value, Tensor) else TensorSpec("", ())
