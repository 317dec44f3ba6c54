"""What outlives steps and sessions in a task: its variables, its queues (TF `resource_mgr.cc`).

A new session of a master finds them as the last one left them; a restarted task has none.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tracer.ops.kernel import OpError, Resource


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

    def clear(self) -> None:
        """Uninitialized again, for whoever holds it."""
        with self._lock:
            self.value = None
            self.version = 0


class TaskResources:
    def __init__(self, checkpoints: Path | None = None) -> None:
        self.checkpoints = checkpoints
        self._lock = threading.Lock()
        self._variables: dict[tuple[str, str], TaskVariable] = {}
        self._others: dict[tuple[str, str], Any] = {}

    def variable(self, container: str, name: str) -> TaskVariable:
        with self._lock:
            return self._variables.setdefault((container, name), TaskVariable(name))

    def resource(self, container: str, name: str, make: Callable[[], Resource]) -> Resource:
        with self._lock:
            found = self._others.get((container, name))
            made: Resource = make()
            if found is None:
                found = self._others[container, name] = made
        if type(found) is not type(made):
            raise OpError(
                "INVALID_ARGUMENT",
                f"{name!r} is a {type(found).__name__} in this task, not a {type(made).__name__}; "
                "give one of them another shared_name",
            )
        return found

    def apart(self) -> "TaskResources":
        """Empty ones beside these, for a session that shares none."""
        return TaskResources(self.checkpoints)

    def clear(self, container: str) -> None:
        """Empties one container (TF `ResourceMgr::Cleanup`); the default one has no name."""
        with self._lock:
            variables = [v for (place, _), v in self._variables.items() if place == container]
            self._others = {k: v for k, v in self._others.items() if k[0] != container}
        for variable in variables:
            variable.clear()
