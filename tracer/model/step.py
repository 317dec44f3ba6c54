"""What identifies a step, and a tensor on its way within one.

Step ids are random 57-bit numbers, as in TF (`master_session.cc`), never sequential; the ordinal
step number that users type travels beside them.
"""

import hashlib
import os
import random
from typing import NamedTuple, Self

from tracer.model.cluster import DeviceSpec

STEP_ID_BITS = 57
_system = random.SystemRandom()
_steps = random.Random(_system.getrandbits(64))
if hasattr(os, "register_at_fork"):  # a child must not go on with its parent's numbers
    os.register_at_fork(after_in_child=lambda: _steps.seed(_system.getrandbits(64)))
_new_tuple = tuple.__new__


class RendezvousKeyError(ValueError):
    """A rendezvous key that cannot be read."""


def new_step_id() -> int:
    """A random id in 1 … 2**57 - 1; unique, not secret."""
    return _steps.getrandbits(STEP_ID_BITS) or 1


def new_incarnation() -> int:
    """A random non-zero 64-bit number that tells one life of a device from the next."""
    return _system.randrange(1, 1 << 64)


class SpanContext(NamedTuple):
    """Where a new span belongs: its trace, its parent span, and the step it is part of.

    It travels in frame headers and RPC metadata. `span` 0 is "no parent". `step` is the ordinal
    number (from 1), 0 outside any step. A context that is not `sampled` records nothing.
    """

    trace_hi: int
    trace_lo: int
    span: int = 0
    step: int = 0
    sampled: bool = True

    @property
    def trace_id(self) -> str:
        return f"{self.trace_hi:016x}{self.trace_lo:016x}"

    def under(self, span: int) -> "SpanContext":
        hi, lo, _, step, sampled = self
        return _new_tuple(SpanContext, (hi, lo, span, step, sampled))  # once or more a span


def trace_of_step(run_id: str, owner: str, step: int, *, sampled: bool = True) -> SpanContext:
    """The root context of a step: every process computes the same one without talking.

    `owner` is the client that runs the step (`worker:0` where each worker runs its own, `run` where
    all tasks run one). Step 0 is the trace of the run itself.
    """
    digest = hashlib.blake2b(f"{run_id}|{owner}|{step}".encode(), digest_size=16).digest()
    hi, lo = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")
    return SpanContext(hi, lo or 1, 0, step, sampled)


def tag_of(key: str) -> tuple[int, int] | None:
    """Frame and iteration at a key's end; None for a key outside loops, or for any other text."""
    frame, _, iteration = key.rpartition(";")[2].partition(":")
    if frame == "0" or not (frame.isdecimal() and iteration.isdecimal()):
        return None
    tag = int(frame), int(iteration)
    return tag if tag[0] < 1 << 64 and tag[1] < 1 << 63 else None


class RendezvousKey(NamedTuple):
    """`src_device;incarnation;dst_device;edge_name;frame:iteration` (TF `rendezvous.cc`).

    The incarnation is 16 hex digits. Root frame and first iteration are `0:0`.
    """

    src_device: str
    incarnation: int
    dst_device: str
    edge_name: str
    frame: int = 0
    iteration: int = 0

    def __str__(self) -> str:
        return (
            f"{self.src_device};{self.incarnation:016x};{self.dst_device};"
            f"{self.edge_name};{self.frame}:{self.iteration}"
        )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises RendezvousKeyError naming the key and the rule. A device may be incomplete."""
        parts = text.split(";")
        if len(parts) != 5 or not all(parts):
            raise _invalid(
                text,
                f"{len(parts)} parts; it needs source;incarnation;destination;edge;frame:iteration",
            )
        source, life, destination, edge, place = parts
        frame, colon, iteration = place.partition(":")
        try:
            DeviceSpec.parse(source)
            DeviceSpec.parse(destination)
        except ValueError as error:
            raise _invalid(text, str(error)) from None
        try:
            if not colon or len(life) != 16:
                raise ValueError
            return cls(source, int(life, 16), destination, edge, int(frame), int(iteration))
        except ValueError:
            raise _invalid(
                text,
                "the incarnation must be 16 hex digits and the last part FRAME:ITERATION in "
                "decimals",
            ) from None


def _invalid(text: str, rule: str) -> RendezvousKeyError:
    return RendezvousKeyError(f"Invalid  rendezvous key: {text} ({rule})")  # TF has two spaces
