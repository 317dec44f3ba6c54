"""What `--devices` and `--ps-devices` may say."""

from tracer.model.cluster import DEVICES_LIMIT
from tracer.model.refusal import Refusal
from tracer.runtime.cuda import gpus

AUTO = "auto"


class BadDevices(Refusal):
    """Devices that nobody can compute on; the text says which there are."""


def devices_from(text: str, flag: str = "--devices") -> tuple[str, ...] | None:
    """`cpu:2` is two logical CPUs, `cuda:0,cuda:0` two logical GPUs on one; `auto` is None.

    Raises BadDevices.
    """
    if text == AUTO:
        return None
    kind, _, number = text.partition(":")
    if kind == "cpu" and _is_number(number) and 0 < int(number) <= DEVICES_LIMIT:
        return tuple(f"cpu:{i}" for i in range(int(number)))
    named = tuple(text.split(","))
    if len(named) > DEVICES_LIMIT or not all(map(_is_gpu, named)):
        raise BadDevices(
            f"{flag} {text}: write auto, cpu:N with N from 1 to {DEVICES_LIMIT} such as cpu:2, or "
            "GPUs with commas between them such as cuda:0,cuda:0, two logical devices on one GPU"
        )
    there = gpus()
    if missing := next((name for name in named if name not in there), ""):
        known = ", ".join(there) or "name cpu:N, or leave the flag out"
        raise BadDevices(
            f"{flag} {text}: {missing} is not here; torch finds {len(there)} GPUs: {known}"
        )
    return named


def _is_gpu(name: str) -> bool:
    kind, _, number = name.partition(":")
    return kind == "cuda" and _is_number(number) and number == str(int(number))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
