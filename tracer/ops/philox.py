"""Philox 4x32-10, TF's random generator (`philox_random.h`, `random_distributions.h`).

A generator is a key and a 128-bit counter; each count gives a group of four 32-bit numbers. The
same seeds give the numbers that TF gives.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]  #: (groups, 4)
Floats = NDArray[np.float64]

_ROUNDS = 10
_M = (0xD2511F53, 0xCD9E8D57)
_W = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF
_MASK, _HALF = np.uint64(_LOW), np.uint64(32)
_EPSILON = 1e-7  #: TF draws no smaller uniform number for a normal one


class Philox:
    """`skip` goes on by whole groups; `groups` reads ahead from here without going on."""

    def __init__(self, key: int, counter: int) -> None:
        self.key = key
        self.counter = counter

    @classmethod
    def from_seeds(cls, seed: int, seed2: int) -> "Philox":
        return cls(seed % (1 << 64), seed2 % (1 << 64) << 64)

    @classmethod
    def stateless(cls, seeds: list[int]) -> "Philox":
        """Of the `Stateless…` ops: two numbers, scrambled by one group of a fixed key."""
        counter = seeds[0] % (1 << 64) | seeds[1] % (1 << 64) << 64
        mixed = [int(word) for word in cls(0x02461E293EC8F720, counter).groups(np.arange(1))[0]]
        return cls(mixed[0] | mixed[1] << 32, mixed[2] << 64 | mixed[3] << 96)

    def skip(self, groups: int) -> None:
        self.counter = (self.counter + groups) % (1 << 128)

    def groups(self, offsets: NDArray[np.int64]) -> Words:
        """The groups at these distances from the counter, a row each."""
        low, high = self.counter % (1 << 64), self.counter >> 64
        lows = offsets.astype(np.uint64) + np.uint64(low)
        highs = np.full_like(lows, high) + (lows < np.uint64(low)).astype(np.uint64)
        words = [half for word in (lows, highs) for half in (word & _MASK, word >> _HALF)]
        return np.stack(_mixed(words, self.key), axis=-1).astype(np.uint32)


def _mixed(words: list[NDArray[np.uint64]], key: int) -> list[NDArray[np.uint64]]:
    """The rounds, on 32-bit words that lie in 64 bits, so that products keep their upper halves."""
    keys = [key & _LOW, key >> 32]
    for _ in range(_ROUNDS):
        a, b = words[0] * np.uint64(_M[0]), words[2] * np.uint64(_M[1])
        words = [
            (b >> _HALF) ^ words[1] ^ np.uint64(keys[0]),
            b & _MASK,
            (a >> _HALF) ^ words[3] ^ np.uint64(keys[1]),
            a & _MASK,
        ]
        keys = [(k + w) & _LOW for k, w in zip(keys, _W, strict=True)]
    return words


#: bits of a mantissa, of the dtypes that take one word a number
_MANTISSA = {"float16": 10, "bfloat16": 7, "float32": 23}


def uniform(words: Words, dtype: str) -> Floats:
    """In [0, 1): a mantissa of random bits, so a multiple of its last place. A row stays a row."""
    if dtype == "float64":
        upper = (words[:, 0::2] & np.uint32(0xFFFFF)).astype(np.uint64) << _HALF
        return (upper | words[:, 1::2]).astype(np.float64) * 2.0**-52
    bits = _MANTISSA[dtype]
    return (words & np.uint32((1 << bits) - 1)).astype(np.float64) * 2.0**-bits


def normal(words: Words, dtype: str) -> Floats:
    """By Box and Muller, from pairs of uniform numbers."""
    pairs = uniform(words, "float64" if dtype == "float64" else "float32")
    precision = np.float64 if dtype == "float64" else np.float32
    radius = np.sqrt(-2.0 * np.log(np.maximum(pairs[:, 0::2], _EPSILON).astype(precision)))
    angle = (2.0 * math.pi * pairs[:, 1::2]).astype(precision)
    both = np.stack([np.sin(angle) * radius, np.cos(angle) * radius], axis=-1)
    return both.reshape(len(words), -1).astype(np.float64)


def integers(words: Words, low: int, high: int, bits: int) -> NDArray[np.int64]:
    """In [low, high), by the remainder, as TF draws them."""
    drawn = words.astype(np.uint64)
    if bits == 64:
        drawn = drawn[:, 0::2] | drawn[:, 1::2] << _HALF
    rest = drawn % np.uint64(high - low)
    return (rest + np.uint64(low % (1 << 64))).astype(np.int64)


def fill(
    source: Philox, count: int, draw: Callable[[Words], NDArray[np.generic]]
) -> NDArray[np.generic]:
    """`count` numbers, group after group."""
    per_group = draw(source.groups(np.arange(1))).size
    groups = -(-count // per_group)
    return draw(source.groups(np.arange(groups))).reshape(-1)[:count]


RESERVED = 256  #: groups that TF sets apart for a group of results whose draws may be thrown away
_LIMIT = 2.0


def truncated_normal(source: Philox, count: int, dtype: str) -> Floats:
    """Normal numbers nearer than 2 to 0: others are drawn anew, each group from its own part."""
    per_group = 2 if dtype == "float64" else 4
    made = np.empty((-(-count // per_group), per_group))
    step = per_group * RESERVED // 4
    pending = np.arange(len(made))
    tries = 4
    while pending.size:
        offsets = (pending[:, None] * step + np.arange(tries)).reshape(-1)
        drawn = normal(source.groups(offsets), dtype).reshape(len(pending), -1)
        kept = np.abs(drawn) < _LIMIT
        enough = kept.sum(1) >= per_group
        rank = kept.cumsum(1)
        takes = kept & (rank <= per_group) & enough[:, None]
        made[pending[enough]] = drawn[takes].reshape(-1, per_group)
        pending, tries = pending[~enough], tries * 2
    return made.reshape(-1)[:count]
