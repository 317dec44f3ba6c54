"""The devices of a task: names, lives, and what is behind them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from tracer.model.cluster import DeviceName, TaskName
from tracer.model.step import new_incarnation
from tracer.record.recorder import NO_RECORDER, Recorder
from tracer.runtime.cuda import CUDA
from tracer.runtime.device_thread import DeviceThread
from tracer.runtime.gpu import Driver, Gpu
from tracer.runtime.interfaces import DeviceAttributes


@dataclass(frozen=True, slots=True)
class Device:
    """A logical device. Several may share one `physical` device; its tensors are `torch_device`'s.

    `incarnation` is new in every life of the task, so that a peer notices a restart. `gpu` holds
    the streams of a GPU; a CPU has none.
    """

    name: DeviceName
    torch_device: torch.device
    incarnation: int = field(default_factory=new_incarnation)
    thread: DeviceThread = field(default_factory=lambda: DeviceThread("device"), compare=False)
    physical: str = "cpu"
    gpu: Gpu | None = field(default=None, compare=False)

    @property
    def attributes(self) -> DeviceAttributes:
        return DeviceAttributes(str(self.name), self.incarnation, self.physical)

    @property
    def told(self) -> dict[str, str]:
        """What spans say of it."""
        told = {"vizdist.device": str(self.name)}
        return told | ({} if self.gpu is None else {"vizdist.device.physical": self.physical})

    def close(self) -> None:
        self.thread.close()
        if self.gpu is not None:
            self.gpu.close()


def make_devices(
    task: TaskName,
    physical: Sequence[str],
    recorder: Recorder = NO_RECORDER,
    driver: Driver = CUDA,
) -> tuple[Device, ...]:
    """Logical devices of a task over torch devices, named `cpu:0`, `cpu:1`, `cuda:0`.

    Equal entries are different logical devices on the same physical one. torch knows one CPU, so
    every `cpu:N` computes on it. The first device is always a CPU, which holds what is fed and
    fetched, strings and shapes. Raises NoSuchGpu.
    """
    cpus = [text for text in physical if text.startswith("cpu")] or ["cpu:0"]
    gpus = [text for text in physical if not text.startswith("cpu")]
    return (
        *(_cpu(task.device("CPU", index)) for index in range(len(cpus))),
        *(
            _gpu(task.device("GPU", index), text, recorder, driver)
            for index, text in enumerate(gpus)
        ),
    )


def _cpu(name: DeviceName) -> Device:
    return Device(name, torch.device("cpu"), thread=_thread(name))


def _gpu(name: DeviceName, text: str, recorder: Recorder, driver: Driver) -> Device:
    torch_device, physical = driver.find(text)
    site = recorder.site(
        "device.anchor",
        name=name.short,
        lane=f"anchors {name.short}",
        attributes={"vizdist.device": str(name), "vizdist.device.physical": physical},
    )
    gpu = Gpu(f"{name.task_name} {name.short} waits", torch_device, driver, recorder, site)
    return Device(name, torch_device, thread=_thread(name), physical=physical, gpu=gpu)


def _thread(name: DeviceName) -> DeviceThread:
    return DeviceThread(f"{name.task_name} {name.short}")
