"""Literals from and to plain JSON values.

Numbers are packed little-endian, row-major; "NaN", "Infinity" and "-Infinity" are floats too. A
string element is its UTF-8 bytes after their number as uint32, since strings have no fixed size.
"""

import math
import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from tracer.model.graph import ITEM_BYTES, GraphError, Literal

_FORMATS = {
    "bool": "?",
    "uint8": "B",
    "int8": "b",
    "int16": "h",
    "float16": "e",
    "int32": "i",
    "float32": "f",
    "int64": "q",
    "float64": "d",
}  #: struct's letter of a dtype
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_SPELT = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def literal_of(dtype: str, value: Any) -> Literal:
    """Packs a number, bool, string or nested list of them; raises GraphError if it is ragged."""
    shape = tuple(_shape(value))
    elements = list(_flat(value, shape))
    if len(elements) != math.prod(shape):
        raise GraphError(f"the value is not a full array of shape {list(shape)}")
    try:
        return Literal(dtype, shape, _pack(dtype, elements))
    except (struct.error, OverflowError, TypeError) as error:
        raise GraphError(f"a value does not fit into {dtype}: {error}") from None


def value_of(literal: Literal) -> Any:
    """The nested lists (or the one value) that `literal_of` was given."""
    return _nest(iter(_unpack(literal)), literal.shape)


def strings_of(literal: Literal) -> list[str]:
    """The elements of a string literal, row-major."""
    texts: list[str] = []
    position = 0
    while position < len(literal.data):
        (length,) = struct.unpack_from("<I", literal.data, position)
        position += 4 + length
        texts.append(literal.data[position - length : position].decode())
    return texts


def _shape(value: Any) -> Iterator[int]:
    while isinstance(value, list):
        yield len(value)
        if not value:
            return
        value = value[0]


def _flat(value: Any, shape: tuple[int, ...]) -> Iterator[Any]:
    if not shape:
        if isinstance(value, list):
            raise GraphError("the value is ragged: lists of one level must have one length")
        yield value
        return
    if not isinstance(value, list) or len(value) != shape[0]:
        raise GraphError("the value is ragged: lists of one level must have one length")
    for item in value:
        yield from _flat(item, shape[1:])


def _pack(dtype: str, elements: list[Any]) -> bytes:
    if dtype == "string":
        texts = [str(element).encode() for element in elements]
        return b"".join(struct.pack("<I", len(text)) + text for text in texts)
    if dtype in _FLOATS:
        elements = [_SPELT.get(e, e) if isinstance(e, str) else e for e in elements]
    if dtype == "bool" and (strange := [e for e in elements if e not in (False, True)]):
        raise TypeError(f"{strange[0]!r} is neither true nor false")
    if dtype == "bfloat16":
        return b"".join(_bfloat16(element) for element in elements)
    if dtype not in _FORMATS:
        raise GraphError(
            f"dtype {dtype!r} has no literals; allowed: {', '.join(ITEM_BYTES)}, string"
        )
    return struct.pack(f"<{len(elements)}{_FORMATS[dtype]}", *elements)


def _bfloat16(value: float) -> bytes:
    """The upper half of a float32, rounded to nearest even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    rounding = 0 if math.isnan(value) else 0x7FFF + (bits >> 16 & 1)
    return struct.pack("<H", (bits + rounding) >> 16)


def _unpack(literal: Literal) -> Iterable[Any]:
    if literal.dtype == "string":
        return strings_of(literal)
    if literal.dtype == "bfloat16":
        halves = struct.unpack(f"<{literal.num_elements}H", literal.data)
        return struct.unpack(f"<{len(halves)}f", struct.pack(f"<{len(halves)}I", *_widen(halves)))
    return struct.unpack(f"<{literal.num_elements}{_FORMATS[literal.dtype]}", literal.data)


def _widen(halves: Iterable[int]) -> Iterator[int]:
    return (half << 16 for half in halves)


def _nest(elements: Iterator[Any], shape: tuple[int, ...]) -> Any:
    if not shape:
        return next(elements)
    if len(shape) == 1:
        return list(islice(elements, shape[0]))
    return [_nest(elements, shape[1:]) for _ in range(shape[0])]
