"""Ids of examples as one attribute of a span, and back.

0-31,64          runs of ascending ids, where they are few and that is shorter
b64:AAAAAAEAAAA= 32-bit integers, little-endian
sha256:…         of such integers, where there are more than CAP: which they were is not told
"""

import base64
import hashlib
import struct
from collections.abc import Iterable, Sequence

CAP = 4096  #: ids that one span tells
LAST = 2**31 - 1  #: the largest id
FEW = 8  #: runs that are always worth a look


def encode(ids: Sequence[int]) -> str:
    """Ids from 0 to 2³¹ − 1."""
    packed = struct.pack(f"<{len(ids)}i", *ids)
    if len(ids) > CAP:
        return f"sha256:{hashlib.sha256(packed).hexdigest()}"
    numbers = f"b64:{base64.b64encode(packed).decode()}"
    if len(runs := _runs(ids)) > max(FEW, len(ids) // 4):
        return numbers
    return min(",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs), numbers, key=len)


def decode(text: str) -> list[int] | None:
    """None where the text tells a hash alone, or what `encode` never writes: any file may come."""
    try:
        ids = _numbers(text) if text.startswith("b64:") else _of_runs(text)
    except (ValueError, struct.error):
        return None
    return ids if len(ids) <= CAP and all(0 <= number <= LAST for number in ids) else None


def _numbers(text: str) -> list[int]:
    packed = base64.b64decode(text.removeprefix("b64:"), validate=True)
    return [number for (number,) in struct.iter_unpack("<i", packed)]


def _of_runs(text: str) -> list[int]:
    """Raises ValueError before a run is made that would be too long."""
    ids: list[int] = []
    for run in text.split(",") if text else ():
        first, dash, last = run.partition("-")
        numbers = range(int(first), int(last if dash else first) + 1)
        if not 0 < numbers.stop - numbers.start <= CAP - len(ids):
            raise ValueError(f"{run!r} is no run of at most {CAP} ids")
        ids.extend(numbers)
    return ids


def _runs(ids: Iterable[int]) -> list[tuple[int, int]]:
    """(first, last) of each stretch in which every id is one more than that before."""
    runs: list[tuple[int, int]] = []
    for number in ids:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
