"""What the gradient rule of an op is handed, and how it writes nodes as arithmetic."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tracer.model.graph import GraphError, Input, Literal, Node, TensorSpec
from tracer.model.graph_builder import GraphBuilder
from tracer.model.literal import literal_of

Number = float | int | list[int]


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the graph that is being built, to calculate with."""

    of: "OpGradient"
    source: Input

    def op(self, op: str, *others: "Value | Number", **attrs: Any) -> "Value":
        """A node on this and further inputs; a number is a constant."""
        inputs = (self, *map(self.of.value, others))
        return self.of.add(op, tuple(each.source for each in inputs), attrs)

    def chooses(self, one: "Value", other: "Value") -> "Value":
        """Element by element: `one` where this is true."""
        return self.op("SelectV2", one, other, T=self.of.dtype)

    def port(self, port: int) -> "Value":
        return Value(self.of, self.source._replace(port=port))

    def __add__(self, other: "Value | float") -> "Value":
        return self.op("AddV2", other)

    def __sub__(self, other: "Value | float") -> "Value":
        return self.op("Sub", other)

    def __mul__(self, other: "Value | float") -> "Value":
        return self.op("Mul", other)

    def __truediv__(self, other: "Value | float") -> "Value":
        return self.op("RealDiv", other)

    def __neg__(self) -> "Value":
        return self.op("Neg")


class OpGradient:
    """One op on the way back: what its rule is handed.

    `grads` are the gradients of its outputs by port, of those that have one. `spec_of` says dtype
    and shape of a forward value, None if they are not known before a step.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        node: Node,
        grads: Mapping[int, Input],
        spec_of: Callable[[Input], TensorSpec | None],
        scope: str,
    ) -> None:
        self._builder = builder
        self._grads = grads
        self._scope = scope
        self.node = node
        self.spec_of = spec_of

    @property
    def dy(self) -> Value:
        """The gradient of output 0, which is the only one that most ops have."""
        return self.grad(0)

    def grad(self, port: int) -> Value:
        if port in self._grads:
            return Value(self, self._grads[port])
        return self.y(port).op("ZerosLike")

    def x(self, i: int) -> Value:
        return Value(self, self.node.inputs[i])

    def y(self, port: int = 0) -> Value:
        return Value(self, Input(self.node.name, port))

    def attr(self, name: str, default: Any = None) -> Any:
        return self.node.attrs.get(name, default)

    def add(self, op: str, inputs: tuple[Input, ...], attrs: Mapping[str, Any]) -> Value:
        node = Node(f"{self._scope}/{op}", op, inputs, attrs=attrs, source=self.node.source)
        return Value(self, self._builder.add(node))

    def value(self, given: "Value | Number") -> Value:
        if isinstance(given, Value):
            return given
        literal = literal_of(self.dtype if isinstance(given, float) else "int32", given)
        return self.add("Const", (), {"dtype": literal.dtype, "value": literal})

    @property
    def dtype(self) -> str:
        """Of the output, and so of its gradient; float32 where it is not known."""
        spec = self.spec_of(self.y().source)
        return spec.dtype if spec else self._builder.dtype_of(self.y().source) or "float32"

    def constant(self, i: int) -> Literal | None:
        """Input `i` where it is a constant."""
        node = self._builder[self.node.inputs[i].node]
        return node.attrs["value"] if node.op == "Const" else None

    def shape(self, i: int) -> Value:
        """The shape of input `i`: a constant where it is known."""
        spec = self.spec_of(self.node.inputs[i])
        return self.value(list(spec.shape)) if spec else self.x(i).op("Shape")

    def fit(self, gradient: Value, i: int) -> Value:
        """Sums a gradient, shaped as the output, over dims along which input `i` was broadcast."""
        x, y = self.spec_of(self.node.inputs[i]), self.spec_of(self.y().source)
        if x and y and x.shape == y.shape:
            return gradient
        shape = self.shape(i)
        axes = shape.op("BroadcastGradientArgs", gradient.op("Shape"))
        return gradient.op("Sum", axes).op("Reshape", shape)

    def variable(self) -> Node:
        """What made the handle that is input 0."""
        handle = self._builder[self.node.inputs[0].node]
        if handle.op != "VarHandleOp" or not handle.attrs.get("shape"):
            raise self.refuse(f"{handle.name!r} is no VarHandleOp that says its shape")
        return handle

    def refuse(self, why: str) -> GraphError:
        return GraphError(f"{self.node.name!r} ({self.node.op}) has no gradient: {why}")
