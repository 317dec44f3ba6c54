"""Halve what crosses between tasks: float32 travels as bfloat16 (whitepaper §5.5).

The lower half of each number's mantissa is rounded away before it is sent, and comes back as zeros;
its exponent stays, so the error is at most 2⁻⁸ of the number.
"""

from tracer.model.cluster import DeviceName
from tracer.model.dtypes import dtype_of
from tracer.model.graph import Edge, Graph, Input, Node, TensorSpec
from tracer.passes.optimizations.rules import Lookup


def send_bf16(graph: Graph, _lookup: Lookup) -> Graph:
    """A Cast before each output that leaves its task, and one back in each task that it comes to.

    Control edges carry nothing and are left alone, as is what stays in a task.
    """
    return Graph(_Wire(graph).nodes())


class _Wire:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._task = {
            device: DeviceName.parse(device).task_name
            for device in {node.device for node in graph.nodes}
        }
        self._dtypes: dict[Input, str] = {}
        self._casts: dict[str, Node] = {}

    def nodes(self) -> list[Node]:
        rewired = [self._rewired(node) for node in self._graph.nodes]
        return [*rewired, *self._casts.values()]

    def _rewired(self, node: Node) -> Node:
        edges = [edge for edge in self._graph.in_edges(node.name) if not edge.is_control]
        inputs = tuple(
            self._received(edge, source) if self._crosses(edge, source) else source
            for edge, source in zip(edges, node.inputs, strict=True)
        )
        return node if inputs == node.inputs else node.with_(inputs=inputs)

    def _crosses(self, edge: Edge, source: Input) -> bool:
        sender, receiver = self._graph[edge.src], self._graph[edge.dst]
        if self._task[sender.device] == self._task[receiver.device]:
            return False
        return dtype_of(self._graph, source, self._dtypes) == "float32"

    def _received(self, edge: Edge, source: Input) -> Input:
        """The output as its consumer's task has it; one Cast back there serves all consumers."""
        sender, receiver = self._graph[edge.src], self._graph[edge.dst]
        task = str(self._task[receiver.device]).replace(":", "_")
        down = self._cast(f"{edge.src}/bf16_{source.port}", sender, source, "float32", "bfloat16")
        up = f"{edge.src}/float32_{source.port}_{task}"
        return self._cast(up, receiver, down, "bfloat16", "float32")

    def _cast(self, name: str, beside: Node, source: Input, given: str, made: str) -> Input:
        if name not in self._casts:
            self._casts[name] = Node(
                name,
                "Cast",
                (source,),
                device=beside.device,
                reason="bf16",
                attrs={"SrcT": given, "DstT": made},
                specs=self._specs(source, made),
                source=beside.source,
            )
        return Input(name)

    def _specs(self, source: Input, dtype: str) -> tuple[TensorSpec, ...]:
        node = self._casts.get(source.node) or self._graph[source.node]
        return tuple(TensorSpec(dtype, spec.shape) for spec in node.specs[source.port :][:1])
