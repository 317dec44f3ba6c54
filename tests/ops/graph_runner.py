"""The plainest way to run a graph: node after node, in topological order, on one device."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from tracer.model.cluster import DeviceName
from tracer.model.graph import Graph, Input
from tracer.ops.kernel import OpContext, Resource
from tracer.ops.registry import lookup
from tracer.ops.variable import read

torch.set_num_threads(1)  # threads gain tiny kernels nothing, and wait for cores that others use


class PlainVariable:
    def __init__(self, name: str) -> None:
        self.name = name
        self.value: torch.Tensor | None = None
        self.version = 0

    def update(self, change: Callable[[torch.Tensor | None], torch.Tensor]) -> torch.Tensor:
        self.value = change(self.value)
        self.version += 1
        return self.value


class PlainResources:
    def __init__(self, checkpoints: Path | None = None) -> None:
        self.checkpoints = checkpoints
        self.variables: dict[tuple[str, str], PlainVariable] = {}
        self.others: dict[tuple[str, str], Any] = {}

    def variable(self, container: str, name: str) -> PlainVariable:
        return self.variables.setdefault((container, name), PlainVariable(name))

    def resource(self, container: str, name: str, make: Callable[[], Resource]) -> Resource:
        found: Resource = self.others.setdefault((container, name), make())
        return found

    def __getitem__(self, name: str) -> PlainVariable:
        return self.variables["", name]


class StoppedClock:
    def now_ns(self) -> int:
        return 0


def context(resources: PlainResources | None = None) -> OpContext:
    device = DeviceName("localhost", 0, "CPU", 0)
    return OpContext(device, torch.device("cpu"), resources or PlainResources(), StoppedClock())


class GraphRunner:
    """Binds nodes once, as an executor does; `run` computes what the names asked for need."""

    def __init__(self, graph: Graph, resources: PlainResources | None = None) -> None:
        self.graph = graph
        self.resources = resources or PlainResources()
        self._context = context(self.resources)
        self._kernels: dict[str, Callable[..., Any]] = {}

    def run(
        self, *names: str, feeds: Mapping[str, torch.Tensor] | None = None
    ) -> list[torch.Tensor | None]:
        fed = {Input.parse(name): value for name, value in (feeds or {}).items()}
        values: dict[str, Any] = {}
        for name in self._needed(names, set(fed)):
            node = self.graph[name]
            inputs = [fed[i] if i in fed else self._output(values, i) for i in node.inputs]
            for port in range(lookup(node.op).num_variables, len(inputs)):
                variable: Any = inputs[port]
                inputs[port] = read(variable) if isinstance(variable, PlainVariable) else variable
            if name not in self._kernels:
                self._kernels[name] = lookup(node.op).bind(node, self._context)
            values[name] = self._kernels[name](*inputs)
        sources = [Input.parse(name) for name in names]
        return [fed[i] if i in fed else self._fetched(values, i) for i in sources]

    def _fetched(self, values: dict[str, Any], source: Input) -> torch.Tensor | None:
        node = self.graph[source.node]
        return self._output(values, source) if lookup(node.op).outputs_of(node) else None

    def _output(self, values: dict[str, Any], source: Input) -> Any:
        node = self.graph[source.node]
        is_single = lookup(node.op).outputs_of(node) == 1
        return values[source.node] if is_single else values[source.node][source.port]

    def _needed(self, names: tuple[str, ...], fed: set[Input]) -> list[str]:
        open_names = [i.node for i in map(Input.parse, names) if i not in fed]
        needed: set[str] = set()
        while open_names:
            if (name := open_names.pop()) not in needed:
                needed.add(name)
                node = self.graph[name]
                open_names += [i.node for i in node.inputs if i not in fed]
                open_names += node.control_inputs
        return [name for name in self.graph.topological() if name in needed]
