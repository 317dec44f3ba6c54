"""What a GPU adds to the nodes of its partition: memories, streams, and sites of their own."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from tracer.model.cluster import DeviceName
from tracer.model.graph import Graph, Input, Node
from tracer.ops.kernel import Kernel, OpContext, OpDef
from tracer.passes.memory import host_ports
from tracer.record.recorder import Recorder
from tracer.runtime.devices import Device
from tracer.runtime.gpu import Gpu
from tracer.runtime.memory import OpOf, host_values

_COPIES = ("_Send", "_Recv", "_Arg")


class GpuSide:
    def __init__(self, recorder: Recorder, device: Device, graph: Graph, op_of: OpOf) -> None:
        assert device.gpu is not None
        self._recorder = recorder
        self._device = device
        self._gpu: Gpu = device.gpu
        self._graph = graph
        self._on_host = host_values(graph, op_of)

    def context(self, node: Node, context: OpContext) -> OpContext:
        """What the node's kernel is bound to: a constant for the host is made there."""
        if Input(node.name) not in self._on_host:
            return context
        return replace(context, torch_device=torch.device("cpu"))

    def kernel(self, node: Node, op: OpDef, kernel: Kernel) -> Kernel:
        """The kernel, with inputs that lie in the other memory brought over first."""
        wanted = host_ports(node, op)
        moves: dict[int, Callable[[Any], Any]] = {}
        for port, source in enumerate(node.inputs):
            if port < op.num_variables:
                continue
            if port in wanted and source not in self._on_host:
                moves[port + op.is_async] = self._gpu.to_host
            elif port not in wanted and source in self._on_host:
                moves[port + op.is_async] = self._gpu.to_device
        return _moving(kernel, moves) if moves else kernel

    def receiver(self, node: Node) -> Kernel:
        """What takes a received value or argument into the memory in which it is read."""
        if Input(node.name) in self._on_host:
            return self._gpu.receive_on_host
        return self._gpu.receiver(self._copy_site(node))

    def sender(self, node: Node) -> Kernel | None:
        """What hands the value of a `_Send` over; None if it lies on the host, as strings do."""
        if node.op == "_HostSend" or node.inputs[0] in self._on_host:
            return None
        to = DeviceName.parse(node.attrs["recv_device"])
        stays = to.task_name == self._device.name.task_name and to.type == "GPU"
        return self._gpu.sender(stays=stays, site=self._copy_site(node))

    def run_site(self, node: Node, op: OpDef, told: Mapping[str, str]) -> int:
        """Where its work on a stream is recorded, with what is `told` of it; 0 if it has none."""
        if node.op in _COPIES:
            return self._copy_site(node)
        if op.is_view or op.is_async:
            return 0
        attributes = {
            "vizdist.op": node.op,
            "vizdist.node": node.name,
            **told,
        }
        return self._recorder.site(
            "op.run",
            name=node.name,
            lane=f"stream {self._device.name.short}",
            attributes=attributes,
        )

    def _copy_site(self, node: Node) -> int:
        return self._recorder.site(
            "copy.run",
            name=node.attrs.get("_src", node.name),
            lane=f"copies {self._device.name.short}",
            attributes={"vizdist.node": node.name, **self._device.told},
        )


def _moving(kernel: Kernel, moves: dict[int, Callable[[Any], Any]]) -> Kernel:
    def call(*inputs: Any) -> Any:
        return kernel(*(moves[port](x) if port in moves else x for port, x in enumerate(inputs)))

    return call
