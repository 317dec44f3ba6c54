"""Build a graph by hand, with the scopes of TF's graph mode.

b = GraphBuilder()
with b.device("/job:ps"):
    w = b.op("VarHandleOp", name="w", dtype="float32", shape=[2])
with b.name_scope("train"), b.control_dependencies([w]):
    b.op("NoOp", name="done")
graph = b.graph()
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tracer.model.cluster import DeviceSpec
from tracer.model.graph import Graph, Input, Node, TensorSpec
from tracer.model.literal import literal_of

DeviceFunction = Callable[[Node], str]
_Scope = TypeVar("_Scope")


class GraphBuilder:
    """Collects nodes; names are made unique as TF does (`a`, `a_1`, …)."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._scopes: list[str] = []
        self._devices: list[str | DeviceFunction] = []
        self._control: list[tuple[str, ...]] = []
        self._uses: Counter[str] = Counter()

    def graph(self) -> Graph:
        return Graph(self._nodes.values())

    def op(
        self,
        op: str,
        *inputs: Input,
        name: str = "",
        control_inputs: Iterable[Input] = (),
        specs: Iterable[TensorSpec] = (),
        **attrs: Any,
    ) -> Input:
        """Adds a node and gives its first output; others are `Input(output.node, port)`."""
        before = [name for scope in self._control for name in scope]
        before += [source.node for source in control_inputs]
        node = Node(
            self._unique("/".join([*self._scopes, name or op])),
            op,
            inputs,
            tuple(dict.fromkeys(before)),
            attrs=attrs,
            specs=tuple(specs),
            source=_callers_line(),
        )
        self._nodes[node.name] = self._on_device(node)
        return Input(node.name)

    def const(self, value: Any, dtype: str = "float32", *, name: str = "Const") -> Input:
        literal = literal_of(dtype, value)
        spec = TensorSpec(dtype, literal.shape)
        return self.op("Const", name=name, specs=[spec], dtype=dtype, value=literal)

    def placeholder(self, shape: Iterable[int], dtype: str = "float32", *, name: str) -> Input:
        spec = TensorSpec(dtype, tuple(shape))
        return self.op("Placeholder", name=name, specs=[spec], dtype=dtype, shape=list(spec.shape))

    @contextmanager
    def name_scope(self, name: str) -> Iterator[None]:
        with _pushed(self._scopes, name):
            yield

    @contextmanager
    def device(self, device: str | DeviceFunction) -> Iterator[None]:
        """Inner scopes win part by part; a function is asked for each node, as in `tf.device`."""
        with _pushed(self._devices, device):
            yield

    @contextmanager
    def control_dependencies(self, inputs: Iterable[Input]) -> Iterator[None]:
        with _pushed(self._control, tuple(source.node for source in inputs)):
            yield

    def _unique(self, name: str) -> str:
        unique = name
        while unique in self._nodes:
            self._uses[name] += 1
            unique = f"{name}_{self._uses[name]}"
        return unique

    def _on_device(self, node: Node) -> Node:
        for scope in reversed(self._devices):
            asked = DeviceSpec.parse(node.requested_device)
            outer = scope(node) if callable(scope) else scope
            node = node.with_(requested_device=str(asked.merged_over(DeviceSpec.parse(outer))))
        return node


@contextmanager
def _pushed(stack: list[_Scope], scope: _Scope) -> Iterator[None]:
    stack.append(scope)
    try:
        yield
    finally:
        stack.pop()


def _callers_line() -> str:
    """`file:line` of the first frame outside this file; of files elsewhere only the name."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    path = Path(frame.f_code.co_filename)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.name
    return f"{shown}:{frame.f_lineno}"
