"""Streams of real GPUs, and which GPUs there are. Nothing here runs where torch has no CUDA."""

from contextlib import AbstractContextManager

import torch

from tracer.model.refusal import Refusal
from tracer.ops.kernel import Event


class NoSuchGpu(Refusal):
    """A GPU was asked for that this host has not."""


class CudaStream:
    """A stream of one physical GPU; logical devices on the same GPU each have their own."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def current(self) -> AbstractContextManager[object]:
        return torch.cuda.stream(self._stream)

    def record(self) -> Event:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(self._stream)
        return event

    def wait(self, event: Event) -> None:
        assert isinstance(event, torch.cuda.Event)
        self._stream.wait_event(event)

    def hold(self, tensor: torch.Tensor) -> None:
        tensor.record_stream(self._stream)

    def pinned(self, like: torch.Tensor) -> torch.Tensor:
        return torch.empty(like.shape, dtype=like.dtype, pin_memory=True)

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor if tensor.is_pinned() else tensor.pin_memory()

    def to_host(self, tensor: torch.Tensor, pinned: torch.Tensor) -> None:
        pinned.copy_(tensor, non_blocking=True)

    def to_device(self, pinned: torch.Tensor) -> torch.Tensor:
        """torch keeps the pinned memory for as long as the copy takes."""
        return pinned.to(self._device, non_blocking=True)


def gpus() -> tuple[str, ...]:
    """`cuda:0`, `cuda:1` …: every GPU of this host that torch can use."""
    return tuple(f"cuda:{index}" for index in range(torch.cuda.device_count()))


class CudaDriver:
    """`cuda:1` is that GPU; `gpu:1` a logical one, of which several may share a physical one."""

    def find(self, text: str) -> tuple[torch.device, str]:
        kind, _, number = text.partition(":")
        there = gpus()
        index = int(number) % len(there) if kind == "gpu" and there else int(number)
        if index >= len(there):
            known = ", ".join(there) or "none"
            raise NoSuchGpu(
                f"device {text}: torch {torch.__version__} finds {len(there)} GPUs on this host "
                f"({known}); name one of them, or cpu:N"
            )
        return torch.device("cuda", index), there[index]

    def stream(self, device: torch.device) -> CudaStream:
        return CudaStream(device)


CUDA = CudaDriver()
