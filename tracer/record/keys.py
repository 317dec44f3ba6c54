"""What the number of a record's key stands for: a text, and in which loop the span was.

A key ends in `frame:iteration` (see `RendezvousKey`). A transfer's does so anyway; what else runs
in a loop has a key of nothing but that. So loops need no room of their own in a record, and what is
outside of them costs nothing. Nor do they need a text for each iteration: the keys of many
iterations in a row have numbers in a row, and are told at once.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tracer.model.schema import SPAN_KINDS
from tracer.model.step import tag_of

FRAME_ID: Final = "vizdist.frame.id"
ITERATION: Final = "vizdist.iteration"
KEY: Final = "vizdist.rendezvous.key"

ITERATIONS: Final = 256  #: the most of a loop whose keys are told at once

Numbers = npt.NDArray[Any]

_OUTSIDE: Final = 0, -1


def parts_in_loop(text: str) -> tuple[str, int, int] | None:
    """What stands before the end of a key in a loop, its frame and iteration; None: all others."""
    tag = tag_of(text)
    if tag is None:
        return None
    end = "{}:{}".format(*tag)
    return (text.removesuffix(end), *tag) if text.rpartition(";")[2] == end else None


def block_of(iteration: int) -> tuple[int, int]:
    """The first of the iterations whose keys are told with this one's, and how many they are.

    1, 2, 4 … up to ITERATIONS, so that short loops, of which there may be many, take few numbers.
    """
    if iteration < ITERATIONS - 1:
        many = 1 << ((iteration + 1).bit_length() - 1)
        return many - 1, many
    return iteration - (iteration + 1) % ITERATIONS, ITERATIONS


class Keys:
    """The reading side: one range of numbers for each key, or for a block of a loop's."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._is_block: list[bool] = []
        self._text_of: dict[int, str] = {}  #: by number, of keys that were told whole
        #: first number, how many, first iteration; with room for more
        self._table = np.zeros((64, 3), np.int64)
        self._frame_table = np.zeros(64, np.uint64)
        self.see({"key": 0, "text": ""})

    def see(self, told: Mapping[str, Any]) -> None:
        """One more entry of `Sites`; numbers only grow."""
        number, is_block = told["key"], "of" in told
        if is_block:
            text, many = self._text_of.get(told["of"], ""), told["many"]
            frame, iteration = told["frame"], told["iteration"]
        else:
            text, many = told["text"], 1
            frame, iteration = tag_of(text) or _OUTSIDE
            self._text_of[number] = text
        at = len(self._texts)
        if at == len(self._table):
            self._table = np.concatenate((self._table, np.zeros_like(self._table)))
            self._frame_table = np.concatenate(
                (self._frame_table, np.zeros_like(self._frame_table))
            )
        self._table[at] = number, many, iteration
        self._frame_table[at] = frame
        self._texts.append(text)
        self._is_block.append(is_block)

    def _places(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """The range of each number, and its place there; of one that was not told, key 0."""
        table, numbers = self._table[: len(self._texts)], numbers.astype(np.int64)
        at = np.searchsorted(table[:, 0], numbers, "right") - 1
        place = numbers - table[at, 0]
        is_told = place < table[at, 1]
        return np.where(is_told, at, 0), np.where(is_told, place, 0)

    def frames(self, numbers: Numbers) -> Numbers:
        """0: in no loop."""
        at, _ = self._places(numbers)
        return self._frame_table[at]

    def iterations(self, numbers: Numbers) -> Numbers:
        """-1: in no loop."""
        at, place = self._places(numbers)
        found: Numbers = self._table[at, 2] + place
        return found

    def texts(self, numbers: Numbers) -> Iterator[str]:
        at, place = self._places(numbers)
        iterations = (self._table[at, 2] + place).tolist()
        for where, frame, iteration in zip(
            at.tolist(), self._frame_table[at].tolist(), iterations, strict=True
        ):
            text = self._texts[where]
            yield f"{text}{frame}:{iteration}" if self._is_block[where] else text

    def text(self, number: int) -> str:
        return next(self.texts(np.array([number])))


def tells(kind: str, attribute: str) -> bool:
    """Whether spans of the kind have this of their key; users' spans have no keys."""
    return bool(kind) and attribute in SPAN_KINDS[kind].attributes
