"""Where each traced op comes from: phase of the step, layer, line of the user's source.

make_fx keeps none of it, so it is noted while tracing: module hooks say which layer runs, and hooks
on autograd's own nodes which layer a gradient belongs to.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from traceback import walk_tb
from types import FrameType, TracebackType
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_TORCH = str(Path(torch.__file__).parent)
_HERE = str(Path(__file__).parent)
_KEY = "vizdist_origin"


@dataclass(frozen=True, slots=True)
class Origin:
    """`phase`: forward, backward or update. `scope`: the layer's path, such as `encoder/fc1`."""

    phase: str
    scope: str = ""
    source: str = ""


_UNKNOWN = Origin("forward")


def mark_new_nodes(origin: Origin) -> None:
    """Writes `origin` on the nodes that the trace in progress gained since the last mark."""
    mode = get_proxy_mode()
    assert mode is not None, "origins are noted while make_fx traces"
    for node in reversed(mode.tracer.graph.nodes):
        if _KEY in node.meta:
            return
        node.meta[_KEY] = origin


def origin_of(node: torch.fx.Node) -> Origin:
    origin: Origin = node.meta.get(_KEY, _UNKNOWN)
    return origin


class OriginRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Entered inside the traced function; sees every op as it is dispatched."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.phase = "forward"
        self._scopes = [""]
        self._scope_of_grad: dict[Any, str] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        source = _user_line() if self.phase == "forward" else ""
        mark_new_nodes(Origin(self.phase, self._scopes[-1], source))
        return result

    @contextmanager
    def layers(self, module: torch.nn.Module) -> Iterator[None]:
        """While this is open, ops know the submodule of `module` that they run in."""
        handles = []
        for path, layer in module.named_modules():
            if path:
                enter = partial(self._enter, path.replace(".", "/"))
                handles += [
                    layer.register_forward_pre_hook(enter),
                    layer.register_forward_hook(self._leave),
                ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        self._scopes.append(name)
        try:
            yield
        finally:
            self._scopes.pop()

    def _enter(self, scope: str, _layer: Any, inputs: Any) -> None:
        self.claim(inputs)
        self._scopes.append(scope)

    def _leave(self, _layer: Any, _inputs: Any, output: Any) -> None:
        self.claim(output)
        self._scopes.pop()

    def claim(self, tensors: Any) -> None:
        """Autograd's nodes behind `tensors` that nobody claimed yet belong to the current scope."""
        open_nodes = [t.grad_fn for t in tree_leaves(tensors) if isinstance(t, torch.Tensor)]
        while open_nodes:
            node = open_nodes.pop()
            if node is None or node in self._scope_of_grad:
                continue
            self._scope_of_grad[node] = self._scopes[-1]
            node.register_prehook(partial(self._backward_of, self._scopes[-1]))
            open_nodes += [following for following, _ in node.next_functions]

    def _backward_of(self, scope: str, _gradients: Any) -> None:
        self._scopes[-1] = scope


def _user_line() -> str:
    """`folder/file.py:line` of the innermost frame that is neither torch's nor the capture's."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and _is_machinery(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None or frame.f_code.co_filename.startswith(_HERE):
        return ""
    return _line(frame.f_code.co_filename, frame.f_lineno)


def users_line(trace: TracebackType | None) -> str:
    """The innermost such line that an exception passed, "" if it passed none."""
    found = ""
    for frame, line in walk_tb(trace):
        file = frame.f_code.co_filename
        if not _is_machinery(file) and not file.startswith(_HERE):
            found = _line(file, line)
    return found


def _line(file: str, number: int) -> str:
    return f"{'/'.join(Path(file).parts[-2:])}:{number}"


def _is_machinery(file: str) -> bool:
    """Also text that torch compiles, which is in no file."""
    return file == __file__ or file.startswith((_TORCH, "<"))
