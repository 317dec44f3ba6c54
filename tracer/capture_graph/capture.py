"""`capture_step`: a torch module, its loss and its optimizer → one graph with variables.

    x, y ─► forward (reads variables) ─► loss ─► gradients/… ─► train/update_<variable>, one each
    init: assigns the module's present values        train: all updates        evaluation/…: forward
    only

The graph asks for no device. What belongs to a variable (its first value, its updates and their
constants) says so by `_class`, so that a strategy moves it as one piece.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, fx, nn

from tracer.capture_graph.lower import Lowering, Names
from tracer.capture_graph.optimizers import Optimizer
from tracer.capture_graph.trace import (
    CaptureError,
    LossFn,
    StateValues,
    Traced,
    trace_evaluation,
    trace_step,
)
from tracer.capture_graph.updates import Update, cone_owners, updates_of
from tracer.model.graph import HANDLES, Graph, Input, Literal, Node, TensorSpec
from tracer.ops.dtypes import spec_of, tensor_to_literal, torch_dtype

INIT, TRAIN, LOSS, LOGITS = "init", "train", "loss", "logits"
EVALUATION = "evaluation"

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A forward-only part of the graph: `metric(outputs, y)` on a batch of its own shape."""

    batch: Batch
    metric: Callable[[Any, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Signature:
    """What a captured step is specialised to: dtype and shape of its feeds, by name."""

    feeds: tuple[tuple[str, TensorSpec], ...]

    @classmethod
    def of(cls, feeds: Mapping[str, Tensor]) -> "Signature":
        return cls(tuple((name, spec_of(tensor)) for name, tensor in feeds.items()))


@dataclass(frozen=True, slots=True)
class CapturedStep:
    """The graph and the names to run it by: `init` once, then `train` with `loss` fetched.

    `feeds` and `fetches` are `node:port`; `evaluation_*` are empty where nothing is evaluated.
    """

    graph: Graph
    signature: Signature
    feeds: tuple[str, str] = ("x:0", "y:0")
    loss: str = f"{LOSS}:0"
    logits: str = f"{LOGITS}:0"
    train: str = TRAIN
    init: str = INIT
    evaluation_feeds: tuple[str, ...] = ()
    metric: str = ""


def variables_of(graph: Graph) -> tuple[Node, ...]:
    """The variables of a graph in creation order, the order in which strategies deal them out."""
    return tuple(node for node in graph.nodes if node.op in HANDLES)


def capture_step(
    module: nn.Module,
    loss_fn: LossFn,
    optimizer: Optimizer,
    example_batch: Batch,
    *,
    evaluation: Evaluation | None = None,
) -> CapturedStep:
    """Captures a training step for batches of exactly this shape; the module stays as it is.

    Raises CaptureError if the loss is no scalar or the step contains what no graph can hold.
    """
    x, y = example_batch
    feeds = {"x": x, "y": y}
    state = StateValues.of(module, optimizer)
    builder = _Builder(state)
    builder.add_step(trace_step(module, loss_fn, optimizer, state, feeds), feeds)
    if evaluation:
        feeds |= {f"{EVALUATION}/{n}": t for n, t in zip("xy", evaluation.batch, strict=True)}
        batch = dict(zip("xy", evaluation.batch, strict=True))
        builder.add_evaluation(trace_evaluation(module, evaluation.metric, state, batch), batch)
    return CapturedStep(
        builder.graph(),
        Signature.of(feeds),
        evaluation_feeds=(f"{EVALUATION}/x:0", f"{EVALUATION}/y:0") if evaluation else (),
        metric=f"{EVALUATION}/metric:0" if evaluation else "",
    )


class _Builder:
    """Collects nodes part by part: variables, step, evaluation, groups."""

    def __init__(self, state: StateValues) -> None:
        self._state = state
        self._values = state.flat()
        self._owner = {f"{p}/{s}": p for p, slots in state.slots.items() for s in slots}
        reserved = {"x", "y", INIT, TRAIN, LOSS, LOGITS, *self._values}
        self._names = Names(reserved)
        self._reads: dict[str, Node] = {}
        self._nodes: list[Node] = []
        self._updates: list[str] = []

    def graph(self) -> Graph:
        variables = [node for name in self._values for node in self._variable(name)]
        anchor = _together(next(iter(self._values), ""))
        assigns = tuple(f"{name}/Assign" for name in self._values)
        return Graph(
            [
                *variables,
                *self._reads.values(),
                *self._nodes,
                Node(TRAIN, "NoOp", control_inputs=tuple(self._updates), attrs=_update(anchor)),
                Node(INIT, "NoOp", control_inputs=assigns, attrs=anchor),
            ]
        )

    def _variable(self, name: str) -> list[Node]:
        value = self._values[name]
        spec = spec_of(value)
        attrs = {
            "dtype": spec.dtype,
            "shape": list(spec.shape),
            "shared_name": name,
            "container": "",
        }
        together = _together(self._owner.get(name, name))
        first = f"{name}/Initializer"
        return [
            Node(name, "VarHandleOp", attrs={**attrs, **together}, specs=(_RESOURCE,)),
            _const(first, tensor_to_literal(value), together),
            Node(
                f"{name}/Assign",
                "AssignVariableOp",
                (Input(name), Input(first)),
                attrs={"dtype": spec.dtype, "validate_shape": True, **together},
            ),
        ]

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
        return Input(f"{name}/Read")

    def _feed(self, name: str, tensor: Tensor) -> None:
        spec = spec_of(tensor)
        attrs = {"dtype": spec.dtype, "shape": list(spec.shape), "_phase": "forward"}
        self._nodes.append(Node(name, "Placeholder", attrs=attrs, specs=(spec,)))

    def _source(self, traced: Traced, prefix: str) -> Callable[[fx.Node], Input]:
        name_of = {node: name for name, node in traced.inputs.items()}

        def source(node: fx.Node) -> Input:
            name = name_of[node]
            return self._read(name) if name in self._values else Input(f"{prefix}{name}")

        return source

    def add_step(self, traced: Traced, feeds: Mapping[str, Tensor]) -> None:
        for name, tensor in feeds.items():
            self._feed(name, tensor)
        updates = updates_of(traced.inputs, traced.outputs)
        owners = cone_owners(updates, self._owner)
        lower = Lowering(traced.module, self._names, self._source(traced, ""), owners=owners)
        loss, logits = lower([traced.outputs["loss"], _tensor(traced.outputs["outputs"])])
        operands = {name: lower(update.values) for name, update in updates.items()}
        self._nodes += lower.nodes
        self._nodes.append(_named(LOSS, loss, traced.outputs["loss"]))
        self._nodes.append(_named(LOGITS, logits, traced.outputs["outputs"]))
        for name, update in updates.items():
            self._add_update(name, update, operands[name])

    def _add_update(self, name: str, update: Update, values: list[Input]) -> None:
        owner = self._owner.get(name, name)
        made, spec = f"train/update_{name}", spec_of(self._values[name])
        together, left = _update(_together(owner)), iter(values)
        inputs = [Input(handle) for handle in (name, *update.slots)]
        for operand in update.operands:
            if isinstance(operand, fx.Node):
                inputs.append(next(left))
                continue
            scalar = Tensor([operand[1]]).to(torch_dtype(spec.dtype)).reshape(())
            constant = _const(f"{made}/{operand[0]}", tensor_to_literal(scalar), together)
            self._nodes.append(constant)
            inputs.append(Input(constant.name))
        kind = {"dtype": spec.dtype} if update.op == "AssignVariableOp" else {"T": spec.dtype}
        self._nodes.append(
            Node(
                made,
                update.op,
                tuple(inputs),
                self._unordered_reads((name, *update.slots), values),
                attrs={**kind, **together},
            )
        )
        self._updates.append(made)

    def _unordered_reads(self, names: tuple[str, ...], values: list[Input]) -> tuple[str, ...]:
        """Reads that the new value does not come from: they must be over before it is assigned."""
        by_name = {node.name: node for node in (*self._nodes, *self._reads.values())}
        seen: set[str] = set()
        open_names = [value.node for value in values]
        while open_names:
            if (name := open_names.pop()) not in seen and name in by_name:
                seen.add(name)
                open_names += [source.node for source in by_name[name].inputs]
        reads = (f"{name}/Read" for name in names if name in self._reads)
        return tuple(read for read in reads if read not in seen)

    def add_evaluation(self, traced: Traced, feeds: Mapping[str, Tensor]) -> None:
        prefix = f"{EVALUATION}/"
        for name, tensor in feeds.items():
            self._feed(f"{prefix}{name}", tensor)
        lower = Lowering(traced.module, self._names, self._source(traced, prefix), prefix)
        metric, logits = lower([traced.outputs["metric"], _tensor(traced.outputs["outputs"])])
        self._nodes += lower.nodes
        self._nodes.append(_named(f"{prefix}metric", metric, traced.outputs["metric"]))
        self._nodes.append(_named(f"{prefix}{LOGITS}", logits, traced.outputs["outputs"]))


_RESOURCE = TensorSpec("resource", ())


def _together(variable: str) -> dict[str, Any]:
    return {"_class": [f"loc:@{variable}"]} if variable else {}


def _update(attrs: Mapping[str, Any]) -> dict[str, Any]:
    return {**attrs, "_phase": "update"}


def _const(name: str, value: Literal, attrs: Mapping[str, Any]) -> Node:
    spec = TensorSpec(value.dtype, value.shape)
    return Node(name, "Const", attrs={"dtype": value.dtype, "value": value, **attrs}, specs=(spec,))


def _tensor(node: Any) -> fx.Node:
    if not isinstance(node, fx.Node):
        raise CaptureError(f"the module must return one tensor, not a {type(node).__name__}")
    return node


def _named(name: str, value: Input, traced: fx.Node) -> Node:
    """A result under the name that people fetch it by."""
    spec = spec_of(traced.meta["val"])
    attrs = {"T": spec.dtype, "_phase": "forward"}
    return Node(name, "Identity", (value,), attrs=attrs, specs=(spec,))
