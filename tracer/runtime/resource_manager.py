"""What outlives steps and sessions in a task: its variables (TF `resource_mgr.cc`).

A new session of a master finds them as the last one left them; a restarted task has none.
"""

import threading
from collections.abc import Callable

import torch


class TaskVariable:
    """A Variable of this task; see `tracer.ops.kernel.Variable`."""

    __slots__ = ("_lock", "name", "value", "version")

    def __init__(self, name: str) -> None:
        self.name = name
        self.value: torch.Tensor | None = None
        self.version = 0
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Of the value now."""
        return 0 if self.value is None else self.value.nbytes

    def update(self, change: Callable[[torch.Tensor | None], torch.Tensor]) -> torch.Tensor:
        with self._lock:
            value = change(self.value)
            self.value = value
            self.version += 1
        return value


class TaskResources:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._variables: dict[tuple[str, str], TaskVariable] = {}

    def variable(self, container: str, name: str) -> TaskVariable:
        with self._lock:
            return self._variables.setdefault((container, name), TaskVariable(name))
