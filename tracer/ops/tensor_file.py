"""Named tensors in one file, in the safetensors format: no code in it, nothing to unpickle.

    8 bytes   length of the header, little-endian
    header    JSON: name → {dtype, shape, data_offsets}; "__metadata__" → texts, ours is a CRC-32
    data      the tensors' raw little-endian bytes, end to end

A file is written beside its place and renamed into it, so a reader finds all of it or none; a file
that was torn all the same (a full disk, a copy that broke off) is refused.
"""

import json
import os
import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from tracer.model.graph import TensorSpec
from tracer.ops.dtypes import dtype_name, torch_dtype

SUFFIX = ".safetensors"

_LENGTH = struct.Struct("<Q")
_METADATA = "__metadata__"
_MOST_HEADER_BYTES = 100 << 20  #: as the format allows

#: TF's name of a dtype → the format's
_DTYPES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
}
_NAMES = {code: name for name, code in _DTYPES.items()}


class TornFile(ValueError):
    """A file that is not whole, or none of this format; the text says how that was seen."""


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> int:
    """Returns the bytes of the file. Raises OSError."""
    # the widest elements first, so that each tensor is aligned
    ordered = sorted(tensors.items(), key=lambda item: -item[1].element_size())
    pieces = [_bytes_of(tensor) for _, tensor in ordered]
    header: dict[str, Any] = {_METADATA: {"crc32": f"{_crc(pieces):08x}"}}
    end = 0
    for (name, tensor), piece in zip(ordered, pieces, strict=True):
        begin, end = end, end + len(piece)
        header[name] = {
            "dtype": _DTYPES[dtype_name(tensor.dtype)],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    write_whole(path, [_LENGTH.pack(len(text)), text, *pieces])
    return _LENGTH.size + len(text) + end


def write_whole(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """All of it, or what was there before. Raises OSError."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    _settle(path.parent)


def _settle(folder: Path) -> None:
    """A rename outlives a power cut once its folder is written."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data if flat.numel() else memoryview(b"")


def _crc(pieces: Iterable[bytes | memoryview]) -> int:
    crc = 0
    for piece in pieces:
        crc = zlib.crc32(piece, crc)
    return crc


class TensorFile:
    """A file read and found whole. Raises TornFile or OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        data = path.read_bytes()
        header = self._header(data)
        told = self._checksum(header.pop(_METADATA, {}))
        self._entries: Mapping[str, Any] = header
        self._data = memoryview(data)[_LENGTH.size + _LENGTH.unpack_from(data)[0] :]
        needed = max((end for _, end in map(self._offsets, header)), default=0)
        if len(self._data) != needed:
            raise self._torn(
                f"it holds {len(self._data)} bytes of tensors and should hold {needed}"
            )
        if told and told != f"{zlib.crc32(self._data):08x}":
            raise self._torn("its checksum is not that of its bytes")

    def _header(self, data: bytes) -> dict[str, Any]:
        length = _LENGTH.unpack_from(data)[0] if len(data) >= _LENGTH.size else -1
        if not 0 <= length <= min(len(data) - _LENGTH.size, _MOST_HEADER_BYTES):
            raise self._torn(f"its {len(data)} bytes end within the header")
        try:
            header = json.loads(data[_LENGTH.size : _LENGTH.size + length])
        except ValueError as error:
            raise self._torn(f"its header is no JSON ({error})") from None
        if not isinstance(header, dict):
            raise self._torn("its header is no JSON object")
        return header

    @staticmethod
    def _checksum(metadata: Any) -> str:
        """Empty in a file that another program wrote."""
        return str(metadata.get("crc32", "")) if isinstance(metadata, dict) else ""

    def _offsets(self, name: str) -> tuple[int, int]:
        try:
            begin, end = self._entries[name]["data_offsets"]
            if not 0 <= begin <= end:
                raise ValueError
        except (LookupError, TypeError, ValueError):
            raise self._torn(f"its header says of {name!r} no place in it") from None
        return begin, end

    def _torn(self, why: str) -> TornFile:
        return TornFile(f"{self._path} is torn or no tensor file: {why}")

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._entries)

    def spec(self, name: str) -> TensorSpec:
        entry = self._entries[name]
        try:
            return TensorSpec(_NAMES[entry["dtype"]], tuple(map(int, entry["shape"])))
        except (LookupError, TypeError, ValueError):
            raise self._torn(f"its header says of {name!r} no dtype and shape") from None

    def tensor(self, name: str) -> torch.Tensor:
        """With memory of its own, on the CPU."""
        spec = self.spec(name)
        begin, end = self._offsets(name)
        if end - begin != spec.num_bytes:
            raise self._torn(f"{name!r} has {end - begin} bytes, its shape needs {spec.num_bytes}")
        dtype = torch_dtype(spec.dtype)
        if begin == end:
            return torch.empty(spec.shape, dtype=dtype)
        return torch.frombuffer(bytearray(self._data[begin:end]), dtype=dtype).reshape(spec.shape)
