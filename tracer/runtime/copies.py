"""What the copies of distributed variables hold after a step: a print of each, to compare them by.

Equal bytes have equal prints. Copies lie on several devices or tasks, and nothing but their bytes
says whether they still agree; so a step that is recorded tells them when all of its ops have ended.
"""

import json
import zlib
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import torch

from tracer.model.graph import Node
from tracer.model.step import SpanContext
from tracer.ops.kernel import ResourceManager, Variable
from tracer.record.recorder import Recorder

MOST_BYTES = 4 << 20  #: printed of all copies in a step: more would cost it many milliseconds

#: what a tensor on the host hands to zlib without another op
_BUFFERS = frozenset({torch.float32, torch.float64, torch.int32, torch.int64})

_json = json.JSONEncoder(separators=(",", ":")).encode


class Copy(NamedTuple):
    of: str  #: the variable that it is a copy of
    name: str  #: of its handle
    device: str
    variable: Variable


class Copies:
    """Those of one worker's part of a graph."""

    def __init__(self, recorder: Recorder, copies: Iterable[Copy]) -> None:
        self._recorder = recorder
        self._copies = tuple(copies)

    @classmethod
    def of(
        cls, recorder: Recorder, resources: ResourceManager, nodes: Iterable[Node]
    ) -> "Copies | None":
        """None where the nodes are no training step of several replicas."""
        found, is_training = [], False
        for node in nodes:
            is_training |= node.attrs.get("_phase") == "update"
            if node.op == "VarHandleOp" and node.attrs.get("_copies", 1) > 1:
                name = node.attrs.get("shared_name") or node.name
                variable = resources.variable(node.attrs.get("container", ""), name)
                origin = node.attrs.get("_copy_of", node.name)
                found.append(Copy(origin, node.name, node.device, variable))
        return cls(recorder, found) if found and is_training else None

    def tell(self, context: SpanContext) -> None:
        """Records `variable.copies` of the step; copies that have no value are left out.

        So are the largest variables, all copies of each, where together they are too large.
        """
        with self._recorder.span("variable.copies", context, lane="worker") as span:
            if not span.span:  # not at this --detail
                return
            now = [(copy, copy.variable.value, copy.variable.version) for copy in self._copies]
            sizes = tuple((copy.of, 0 if value is None else value.nbytes) for copy, value, _ in now)
            printed = smallest(sizes, MOST_BYTES)
            told = [
                [copy.name, copy.device, version, fingerprint(value), *_scalar(value)]
                for copy, value, version in now
                if value is not None and copy.of in printed
            ]
            span.set("vizdist.variable.copies", _json(told))


@lru_cache(64)  # of a graph they are the same in every step, and a step is to be short
def smallest(copies: tuple[tuple[str, int], ...], most: int) -> frozenset[str]:
    """As many variables as fit into `most`, each with all its copies; bytes are of each copy.

    Of equal ones the first by name, on every worker.
    """
    sizes = Counter[str]()
    for name, num_bytes in copies:
        sizes[name] += num_bytes
    chosen: set[str] = set()
    for name in sorted(sizes, key=lambda name: (sizes[name], name)):
        most -= sizes[name]
        if most < 0:
            break
        chosen.add(name)
    return frozenset(chosen)


def fingerprint(value: torch.Tensor) -> str:
    """Eight hex digits of the bytes, dtype and shape aside."""
    buffer: Any
    if value.is_cpu and value.is_contiguous() and value.dtype in _BUFFERS:
        buffer = value.numpy()
    else:
        host = value.detach().to("cpu").contiguous().reshape(-1)
        buffer = host.view(torch.uint8).numpy()
    return f"{zlib.crc32(buffer):08x}"


def _scalar(value: torch.Tensor) -> list[Any]:
    """The value itself where it is one number, and JSON has such numbers."""
    return [value.item()] if value.numel() == 1 and not value.is_complex() else []
