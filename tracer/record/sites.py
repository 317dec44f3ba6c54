"""Interning: what stays the same over many spans is told once and then is a number.

A *site* is the static part of a span (kind, name, lane, attributes), a *key* any text that recurs.
Keys of a loop have a number for each iteration, and are told many at a time (see `keys`).
The numbers are told in an append-only file, one JSON object a line, each in one write and before
any record uses it; the file can be read at every byte (a torn last line is not yet there).
"""

import difflib
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tracer.model.schema import SPAN_KINDS
from tracer.record.attributes import Value, clean_all, clean_text
from tracer.record.keys import block_of, parts_in_loop
from tracer.record.lanes import Lane

MOST_BLOCKS: Final = 4096  #: of keys of loops that are remembered; one forgotten is told again
_LAST_KEY: Final = (1 << 32) - 1  #: that a record has room for
_CLOSED = -1
_OURS: Final[Mapping[str, str]] = {}


class Sites:
    """The writing side. Site and key numbers start at 1; 0 is none."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._sites: dict[tuple[str, ...], int] = {}
        self._keys: dict[str, int] = {"": 0}
        self._num_keys = 1
        #: base text, frame, first iteration → the first number
        self._blocks: dict[tuple[str, int, int], int] = {}
        self._lanes: dict[str, Lane] = {}
        self._told: list[bytes] = []
        self.lane_of: list[Lane] = [Lane("")]  #: by site number
        self._file = _CLOSED
        self.open(path)

    def open(self, path: Path) -> None:
        """Goes on in a new file, which first gets all that was told so far."""
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.write(self._file, b"".join(self._told))

    def reopen(self, path: Path) -> None:
        """In a forked child, where the lock may be held by a thread that is not there."""
        self._lock = threading.Lock()
        self._blocks.clear()  # those were told to the parent's file alone
        os.close(self._file)
        self.open(path)

    def close(self) -> None:
        """What is interned after is told to nobody."""
        with self._lock:
            os.close(self._file)
            self._file = _CLOSED

    def site(
        self,
        kind: str,
        name: str,
        lane: str,
        attributes: Mapping[str, object],
        origin: Mapping[str, str] = _OURS,
    ) -> int:
        """`origin` says who made such spans, if it was not vizdist.

        Raises ValueError, with the nearest kinds, for a kind the schema does not have.
        """
        static = json.dumps(clean_all(attributes)) if attributes else "{}"
        known = (kind, name, lane, static, *origin.values())
        if (number := self._sites.get(known)) is not None:
            return number
        if kind not in SPAN_KINDS:
            near = difflib.get_close_matches(kind, SPAN_KINDS, 3)
            raise ValueError(
                f"span kind {kind!r} is not in the schema; "
                f"nearest: {', '.join(near) or ', '.join(SPAN_KINDS)}. Add it to schema.toml first"
            )
        with self._lock:
            if known not in self._sites:
                self._add_site(known, json.loads(static), origin)
            return self._sites[known]

    def _add_site(
        self, known: tuple[str, ...], attributes: dict[str, Value], origin: Mapping[str, str]
    ) -> None:
        kind, name, lane_name = known[:3]
        text = clean_text(lane_name) or SPAN_KINDS[kind].lane
        number = len(self.lane_of)
        self._tell(
            {
                "site": number,
                "kind": kind,
                "name": clean_text(name) or kind,
                "lane": text,
                "attributes": attributes,
                "origin": {key: clean_text(said) for key, said in origin.items()},
            }
        )
        self.lane_of.append(self._lanes.setdefault(text, Lane(text)))
        self._sites[known] = number

    def key(self, text: str) -> int:
        if (number := self._keys.get(text)) is not None:
            return number
        if (parts := parts_in_loop(text)) is not None:
            return self._key_in_loop(*parts)
        with self._lock:
            if text not in self._keys:
                number = self._num_keys
                self._num_keys += 1  # first: a fork may come at any line
                self._tell({"key": number, "text": clean_text(text)})
                self._keys[text] = number
            return self._keys[text]

    def _key_in_loop(self, base: str, frame: int, iteration: int) -> int:
        """0, which is none, once there are more than a record can tell apart."""
        start, many = block_of(iteration)
        first = self._blocks.get((base, frame, start))
        if first is None:
            first = self._tell_block(self.key(base), (base, frame, start), many)
        return first + iteration - start if first else 0

    def _tell_block(self, of: int, known: tuple[str, int, int], many: int) -> int:
        _, frame, start = known
        with self._lock:
            if (first := self._blocks.get(known)) is not None:
                return first
            first = self._num_keys
            if first + many > _LAST_KEY:
                return 0
            self._num_keys += many
            told = {"key": first, "of": of, "frame": frame, "iteration": start, "many": many}
            self._tell(told, is_kept=False)
            if len(self._blocks) == MOST_BLOCKS:
                del self._blocks[next(iter(self._blocks))]
            self._blocks[known] = first
            return first

    def _tell(self, entry: Mapping[str, Any], *, is_kept: bool = True) -> None:
        """`is_kept`: it is told again in a new file."""
        line = json.dumps(entry).encode() + b"\n"
        if is_kept:
            self._told.append(line)
        if self._file != _CLOSED:
            os.write(self._file, line)
