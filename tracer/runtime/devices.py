"""The devices of a task: names, lives, and threads for what is too long for an RPC thread."""

import logging
import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from tracer.model.cluster import DeviceName, TaskName
from tracer.model.step import new_incarnation
from tracer.runtime import turn
from tracer.runtime.interfaces import DeviceAttributes
from tracer.runtime.turn import Work

_log = logging.getLogger(__name__)


class DeviceThread:
    """Runs work in order, one turn each; the thread starts with the first piece."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def submit(self, work: Work) -> None:
        if self._thread is None:
            self._start()
        self._queue.put(work)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
                self._thread.start()

    def _loop(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                turn.run(work)
            except Exception:  # noqa: BLE001 (the thread must live on)
                _log.exception("work on %s failed", self._name)

    def close(self, timeout: float = 5.0) -> None:
        self._queue.put(None)
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)


@dataclass(frozen=True, slots=True)
class Device:
    """A logical device. Several may share one physical device (`torch_device`).

    `incarnation` is new in every life of the task, so that a peer notices a restart.
    """

    name: DeviceName
    torch_device: torch.device
    incarnation: int = field(default_factory=new_incarnation)
    thread: DeviceThread = field(default_factory=lambda: DeviceThread("device"), compare=False)

    @property
    def attributes(self) -> DeviceAttributes:
        return DeviceAttributes(str(self.name), self.incarnation, str(self.torch_device))


def make_devices(task: TaskName, physical: Sequence[str]) -> tuple[Device, ...]:
    """Logical devices of a task over torch devices, named `cpu:0`, `cpu:1`, `cuda:0`.

    Equal entries are different logical devices on the same physical one. torch knows one CPU, so
    every `cpu:N` computes on it. A task without a CPU entry gets none beside what is named.
    """
    numbers: dict[str, int] = {}
    devices = []
    for text in physical:
        device_type = "GPU" if text.partition(":")[0] in ("cuda", "gpu") else "CPU"
        index = numbers.get(device_type, 0)
        numbers[device_type] = index + 1
        name = task.device(device_type, index)
        torch_device = torch.device("cpu" if device_type == "CPU" else text)
        devices.append(Device(name, torch_device, thread=DeviceThread(f"{task} {name.short}")))
    return tuple(devices)
