"""Which steps of a run are recorded."""

import hashlib
import re
from dataclasses import dataclass

from tracer.model.refusal import Refusal

_NUMBERED = re.compile(r"every:[1-9][0-9]{0,17}|[1-9][0-9]{0,17}-[1-9][0-9]{0,17}")


class TracePolicyError(Refusal):
    """`--trace` with a value that cannot be read."""


@dataclass(frozen=True, slots=True)
class TracePolicy:
    """`all`, `none`, `every:N` or `A-B` (from 1, both ends); the same steps on every task.

    Of those steps a `share` from 0 to 1 is taken by chance, the same ones in every run.
    """

    text: str = "all"
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.text not in ("all", "none") and not _NUMBERED.fullmatch(self.text):
            raise TracePolicyError(
                f"--trace {self.text}: write all, none, every:N (every:10) or A-B (5-8)"
            )
        if "-" in self.text and not self._range:
            raise TracePolicyError(f"--trace {self.text}: the first step comes after the last")

    def samples(self, step: int) -> bool:
        return self._names(step) and (self.share >= 1 or _chance(step) < self.share)

    def _names(self, step: int) -> bool:
        if self.text in ("all", "none"):
            return self.text == "all"
        if self.text.startswith("every:"):
            return (step - 1) % int(self.text[6:]) == 0
        return step in self._range

    @property
    def _range(self) -> range:
        first, _, last = self.text.partition("-")
        return range(int(first), int(last) + 1)


def _chance(step: int) -> float:
    """A number from 0 to 1 that is the step's own."""
    return int.from_bytes(hashlib.blake2b(b"%d" % step, digest_size=6).digest()) / (1 << 48)
