"""In which loop a span was: what the key of its record says of it.

A key ends in `frame:iteration` (see `RendezvousKey`). A transfer's does so anyway; what else runs
in a loop has a key of nothing but that. So loops need no room of their own in a record, and what is
outside of them costs nothing.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tracer.model.schema import SPAN_KINDS
from tracer.model.step import tag_of

FRAME_ID: Final = "vizdist.frame.id"
ITERATION: Final = "vizdist.iteration"
KEY: Final = "vizdist.rendezvous.key"

_OUTSIDE: Final = 0, -1


class Tags:
    """Frame ids and iterations by number of the key."""

    def __init__(self) -> None:
        self.frames: npt.NDArray[Any] = np.zeros(0, np.uint64)
        self.iterations: npt.NDArray[Any] = np.zeros(0, np.int64)

    def see(self, keys: Sequence[str]) -> None:
        """Reads the keys that are new."""
        if new := [tag_of(key) or _OUTSIDE for key in keys[len(self.frames) :]]:
            frames, iterations = zip(*new, strict=True)
            self.frames = np.concatenate([self.frames, np.array(frames, np.uint64)])
            self.iterations = np.concatenate([self.iterations, np.array(iterations, np.int64)])


def tells(kind: str, attribute: str) -> bool:
    """Whether spans of the kind have this of their key; users' spans have no keys."""
    return bool(kind) and attribute in SPAN_KINDS[kind].attributes
