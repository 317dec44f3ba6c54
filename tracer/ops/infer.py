"""Dtypes and shapes of a whole graph, by rule or by running its own kernels without data.

What a kernel reads on the host (a shape, an axis) must be a value: small constants stay real, and
so does what is computed from them alone. Where a value is missing the shape is unknown, not
guessed.
"""

from collections.abc import Callable
from typing import Any

import torch

from tracer.model.cluster import DeviceName
from tracer.model.graph import HANDLES, Graph, Input, Literal, Node, TensorSpec
from tracer.ops.dtypes import literal_to_tensor, spec_of, torch_dtype
from tracer.ops.kernel import OpContext, OpDef, Resource
from tracer.ops.registry import lookup
from tracer.ops.variable import declared_spec

_SMALL = 64  #: elements; a tensor that says a shape, an axis or a bound is never larger
_META = torch.device("meta")
_NOWHERE = DeviceName("localhost", 0, "CPU", 0)
_SOURCES = (*HANDLES, "Const", "Placeholder")  #: their attributes say what they give

Outputs = tuple[Any, ...]  # of each output: a real tensor, a meta tensor, a variable, or None


def infer_specs(graph: Graph) -> dict[str, tuple[TensorSpec, ...]]:
    """The output specs of every node; () where an output's shape cannot be known before a step.

    Also () for nodes without outputs and for ops that the registry does not know.
    """
    inference = _Inference(graph)
    return {name: inference.specs(name) for name in graph.topological()}


def run_on_host(node: Node, op: OpDef, inputs: list[Any]) -> Outputs:
    """What a node that needs no state gives for these inputs. Kernels may raise anything."""
    context = OpContext(_NOWHERE, torch.device("cpu"), _MetaResources(), _NoClock())
    return _Inference.called(node, op, inputs, context)


class _MetaVariable:
    """A variable that knows its shape and never changes it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.value: torch.Tensor | None = None
        self.version = 0

    def update(self, change: Any) -> torch.Tensor:
        value: torch.Tensor = change(self.value)
        return value


class _MetaResources:
    checkpoints = None

    def __init__(self) -> None:
        self._variables: dict[tuple[str, str], _MetaVariable] = {}

    def variable(self, container: str, name: str) -> _MetaVariable:
        return self._variables.setdefault((container, name), _MetaVariable(name))

    def resource(self, container: str, name: str, make: Callable[[], Resource]) -> Resource:
        del container, name
        return make()


class _NoClock:
    def now_ns(self) -> int:
        return 0


class _Inference:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._outputs: dict[str, Outputs] = {}
        resources, clock = _MetaResources(), _NoClock()
        self._meta = OpContext(_NOWHERE, _META, resources, clock)
        self._host = OpContext(_NOWHERE, torch.device("cpu"), resources, clock)

    def specs(self, name: str) -> tuple[TensorSpec, ...]:
        node = self._graph[name]
        try:
            op = lookup(node.op)
            inputs = [self._value(source, port, op) for port, source in enumerate(node.inputs)]
            outputs, specs = self._run(node, op, inputs)
        except Exception:  # noqa: BLE001 (a graph with a mistake is reported by its step, not here)
            outputs, specs = (), node.specs
        self._outputs[name] = outputs
        return specs

    def _value(self, source: Input, port: int, op: OpDef) -> Any:
        outputs = self._outputs.get(source.node, ())
        found = outputs[source.port] if source.port < len(outputs) else None
        if isinstance(found, _MetaVariable) and port >= op.num_variables:
            return found.value
        return found

    def _run(
        self, node: Node, op: OpDef, inputs: list[Any]
    ) -> tuple[Outputs, tuple[TensorSpec, ...]]:
        if node.specs or node.op in _SOURCES:
            specs = node.specs or (op.infer(node, inputs) if op.infer else ())
            return self._declared(node, op, specs), specs
        if node.op == "Merge":  # what comes round a loop is not known yet, and has the same form
            inputs = [value for value in inputs if value is not None]
            if len({value.shape for value in inputs}) != 1:
                return (), ()
        if op.is_transfer or op.outputs_of(node) == 0 or any(i is None for i in inputs):
            return (), ()
        outputs = self._computed(node, op, inputs)
        return outputs, tuple(map(spec_of, outputs))

    def _declared(self, node: Node, op: OpDef, specs: tuple[TensorSpec, ...]) -> Outputs:
        if node.op in HANDLES:
            variable = op.bind(node, self._meta)()
            if spec := declared_spec(node):
                variable.value = _without_data(spec)
            return (variable,)
        if node.op == "Const" and specs[0].dtype == "string":
            return (node.attrs["value"],)
        if node.op == "Const" and node.attrs["value"].num_elements <= _SMALL:
            return (literal_to_tensor(node.attrs["value"]),)
        return tuple(map(_without_data, specs))

    def _computed(self, node: Node, op: OpDef, inputs: list[Any]) -> Outputs:
        """Small values from real inputs are computed, once it is known that they are small."""
        if op.is_control_flow or op.is_async:
            return tuple(map(_without_data, op.infer(node, inputs))) if op.infer else ()
        host = {port % len(inputs) for port in op.host_inputs}
        if any(isinstance(inputs[p], torch.Tensor) and not _is_real(inputs[p]) for p in host):
            return ()
        if any(isinstance(i, Literal) for i in inputs):
            outputs: Outputs = self.called(node, op, inputs, self._host)
        elif op.infer:
            outputs = tuple(map(_without_data, op.infer(node, inputs)))
        else:
            given = [i if port in host else _to_meta(i) for port, i in enumerate(inputs)]
            outputs = self.called(node, op, given, self._meta)
        folds = not op.stateful and all(isinstance(i, torch.Tensor) and _is_real(i) for i in inputs)
        if folds and all(output.numel() <= _SMALL for output in outputs):
            return self.called(node, op, inputs, self._host)
        return outputs

    @staticmethod
    def called(node: Node, op: OpDef, inputs: list[Any], context: OpContext) -> Outputs:
        result = op.bind(node, context)(*inputs)
        return (result,) if op.outputs_of(node) == 1 else tuple(result)


def _is_real(tensor: torch.Tensor) -> bool:
    return tensor.device != _META


def _to_meta(value: Any) -> Any:
    return value.to(_META) if isinstance(value, torch.Tensor) else value


def _without_data(spec: TensorSpec) -> torch.Tensor:
    return torch.empty(spec.shape, dtype=torch_dtype(spec.dtype), device=_META)
