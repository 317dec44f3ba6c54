"""Traced ops → nodes: `aten.*` nodes named by layer, their constants in attributes."""

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, fx

from tracer.capture_graph.origins import Origin, origin_of
from tracer.capture_graph.randomness import STATE, Chain, draws, with_generator
from tracer.capture_graph.rules import plain
from tracer.capture_graph.trace import CaptureError
from tracer.model.graph import Input, Node, TensorSpec
from tracer.ops.aten import template_of
from tracer.ops.dtypes import UnknownDtype, spec_of, tensor_to_literal

FOLDED = {"t", "view", "transpose", "permute", "expand", "unsqueeze", "squeeze", "_unsafe_view"}


class Names:
    """Gives every node a name of its own: `fc1/addmm`, then `fc1/addmm_1`."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def __call__(self, wish: str) -> str:
        name, count = wish, 0
        while name in self._taken:
            count += 1
            name = f"{wish}_{count}"
        self._taken.add(name)
        return name


class Lowering:
    """Makes the nodes of one traced graph, inputs first.

    `source(node)` gives the graph input that a placeholder stands for. `owners` puts nodes into the
    scope of a variable and beside it (update cones). `seed()` makes the feed that draws start from.
    """

    def __init__(
        self,
        module: fx.GraphModule,
        names: Names,
        source: Callable[[fx.Node], Input],
        seed: Callable[[], Input],
        prefix: str = "",
        owners: Mapping[fx.Node, str] | None = None,
    ) -> None:
        self._module = module
        self._names = names
        self._source = source
        self._prefix = prefix
        self._owners = owners or {}
        self._chain = Chain(seed)
        self._made: dict[fx.Node, Input] = {}
        self.nodes: list[Node] = []

    def __call__(self, wanted: Iterable[fx.Node]) -> list[Input]:
        """The outputs that `wanted` became; emits what they need, in trace order.

        And what draws, needed or not, since eager torch draws it too.
        """
        wanted = list(wanted)
        needed: set[fx.Node] = set()
        open_nodes = [*map(plain, wanted), *filter(draws, self._module.graph.nodes)]
        while open_nodes:
            node = open_nodes.pop()
            if node not in needed and node not in self._made:
                needed.add(node)
                open_nodes += [plain(source) for source in node.all_input_nodes]
        for node in self._module.graph.nodes:
            if node in needed:
                self._made[node] = self._emit(node)
        return [self._made[plain(node)] for node in wanted]

    def _emit(self, node: fx.Node) -> Input:
        if node.op == "placeholder":
            return self._source(node)
        if node.op == "get_attr":
            return self._constant(node)
        if node.target is operator.getitem:
            source, port = node.args
            assert isinstance(source, fx.Node)
            assert isinstance(port, int)
            return Input(self._made[plain(source)].node, port)
        if not isinstance(node.target, torch._ops.OpOverload):
            raise CaptureError(
                f"the step calls {node.target}, which is no aten op; it has no kernel"
            )
        return self._call(node, node.target)

    def _constant(self, node: fx.Node) -> Input:
        value = getattr(self._module, str(node.target))
        name = self._names(f"{self._prefix}Const")
        attrs = {"dtype": spec_of(value).dtype, "value": tensor_to_literal(value)}
        self.nodes.append(Node(name, "Const", attrs=attrs, specs=(spec_of(value),)))
        return Input(name)

    def _call(self, node: fx.Node, target: torch._ops.OpOverload) -> Input:
        inputs: list[Input] = []
        origin, owner = origin_of(node), self._owners.get(node)
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
        name = self._names(self._name(origin, owner, short.strip("_")))
        made = Node(name, str(target), tuple(inputs), attrs=attrs, specs=specs)
        self.nodes.append(made.with_(source=origin.source))
        if is_random:
            self._chain.left(Input(name, len(specs) - 1))
        return Input(name)

    def _specs(self, node: fx.Node, origin: Origin) -> tuple[TensorSpec, ...]:
        results = _results(node)
        if any(isinstance(dim, torch.SymInt) for each in results for dim in _shape(each)):
            raise CaptureError(
                f"{_where(node, origin)} has a shape that follows from values, and there are none "
                "before the graph runs; mask with torch.where instead of taking elements out"
            )
        try:
            return tuple(map(_spec, results))
        except UnknownDtype as error:
            raise CaptureError(f"{_where(node, origin)}: {error}") from None

    def _name(self, origin: Origin, owner: str | None, short: str) -> str:
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
            raise CaptureError(f"{_where(node, origin_of(node))}: {error}") from None


def _where(node: fx.Node, origin: Origin) -> str:
    """`aten.abs.default in encoder/fc1 (folder/file.py:12)`."""
    layer = f" in {origin.scope}" if origin.scope else ""
    return f"{node.target}{layer}" + (f" ({origin.source})" if origin.source else "")


def _check_draw(node: fx.Node, origin: Origin) -> None:
    if origin.phase == "backward":
        raise CaptureError(
            f"{_where(node, origin)} draws random numbers again in the backward pass, where it "
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
