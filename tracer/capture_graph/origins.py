"""Where each traced op comes from: phase of the step, layer, line of the user's source.

make_fx keeps none of it, so it is noted while tracing: module hooks say which layer runs, and hooks
on autograd's own nodes which op of the forward pass a gradient belongs to.
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
from torch._C._autograd import _get_sequence_nr
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.utils._python_dispatch import TorchDispatchMode

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
    """Entered inside the traced function; sees every op as it is dispatched.

    Autograd numbers its nodes as forward ops make them, so the number tells which op, of which
    layer and line, a node of the backward pass belongs to.
    """

    supports_higher_order_operators = True

    @classmethod
    def is_infra_mode(cls) -> bool:
        """It only watches: torch.cond and while_loop look for closures as they do without it."""
        return True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.phase = "forward"
        self._scopes = [""]
        self._of_grad: dict[int, Origin] = {}
        self._backward = Origin("backward")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        mark_new_nodes(self._origin())
        return result

    def _origin(self) -> Origin:
        if self.phase == "update":
            return Origin("update")
        if self.phase == "backward":
            return self._backward
        scope, source = self._scopes[-1], _user_line()
        last_made = _get_sequence_nr() - 1
        self._of_grad.setdefault(last_made, Origin("backward", scope, source))
        return Origin("forward", scope, source)

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

    def _enter(self, scope: str, _layer: Any, _inputs: Any) -> None:
        if not torch.compiler.is_compiling():  # a branch or a body, which torch reads ahead
            self._scopes.append(scope)

    def _leave(self, _layer: Any, _inputs: Any, _output: Any) -> None:
        if not torch.compiler.is_compiling():
            self._scopes.pop()

    def turn_back(self, loss: torch.Tensor) -> None:
        """From here on the ops are those of the backward pass from `loss`."""
        self.phase = "backward"
        seen: set[Any] = set()
        open_nodes = [loss.grad_fn]
        while open_nodes:
            node = open_nodes.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if origin := self._of_grad.get(node._sequence_nr()):
                node.register_prehook(partial(self._follow, origin))
            open_nodes += [following for following, _ in node.next_functions]

    def _follow(self, origin: Origin, _gradients: Any) -> None:
        self._backward = origin


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
