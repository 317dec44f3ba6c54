"""Tensors in a file: as they were, or a refusal in words; never a part of them."""

import json
import struct
from pathlib import Path

import pytest
import torch

from tracer.ops.dtypes import TORCH_DTYPES
from tracer.ops.tensor_file import TensorFile, TornFile, write_tensors

TENSORS = {
    "flags": torch.tensor([True, False, True]),
    "weights": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    "step": torch.tensor(17, dtype=torch.int64),
    "none": torch.empty(0, 4),
}


def test_every_dtype_and_shape_comes_back_to_the_bit(tmp_path: Path) -> None:
    tensors = dict(TENSORS)
    for name, dtype in TORCH_DTYPES.items():
        tensors[name] = torch.tensor([0, 1, 1]).to(dtype)
    size = write_tensors(tmp_path / "t", tensors)
    assert size == (tmp_path / "t").stat().st_size
    file = TensorFile(tmp_path / "t")
    assert set(file.names) == set(tensors)
    for name, tensor in tensors.items():
        found = file.tensor(name)
        assert (found.dtype, found.shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(found, tensor)


def test_nan_and_minus_zero_keep_their_bits(tmp_path: Path) -> None:
    odd = torch.tensor([float("nan"), -0.0, float("inf"), 1e-45])
    write_tensors(tmp_path / "t", {"odd": odd})
    found = TensorFile(tmp_path / "t").tensor("odd")
    assert torch.equal(found.view(torch.int32), odd.view(torch.int32))


def test_the_file_is_in_the_safetensors_format(tmp_path: Path) -> None:
    """Read by its description, not by our reader."""
    write_tensors(tmp_path / "t", {"w": torch.tensor([1.0, 2.0])})
    data = (tmp_path / "t").read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    assert header["w"] == {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    assert all(isinstance(value, str) for value in header["__metadata__"].values())
    assert struct.unpack("<2f", data[8 + length :]) == (1.0, 2.0)


def test_a_file_cut_at_any_byte_is_refused(tmp_path: Path) -> None:
    write_tensors(tmp_path / "whole", TENSORS)
    data = (tmp_path / "whole").read_bytes()
    for end in range(len(data)):
        (tmp_path / "cut").write_bytes(data[:end])
        with pytest.raises(TornFile, match="torn"):
            TensorFile(tmp_path / "cut")


def test_a_flipped_bit_is_seen_by_the_checksum(tmp_path: Path) -> None:
    write_tensors(tmp_path / "t", TENSORS)
    data = bytearray((tmp_path / "t").read_bytes())
    data[-1] ^= 1
    (tmp_path / "t").write_bytes(data)
    with pytest.raises(TornFile, match="its checksum is not that of its bytes"):
        TensorFile(tmp_path / "t")


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b"{",
        b'{"w": 3}',
        b'{"w": {"data_offsets": [4, 0]}}',
        b'{"w": {"data_offsets": ["a", 4]}}',
        b'{"w": {"data_offsets": [0, 4], "dtype": "F99", "shape": [1]}}',
        b'{"w": {"data_offsets": [0, 4], "dtype": "F32", "shape": [2]}}',
        b'{"w": {"data_offsets": [0, 4], "dtype": "F32", "shape": "x"}, "__metadata__": 3}',
    ],
)
def test_a_header_of_somebody_else_is_refused_in_words(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "t").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    with pytest.raises(TornFile, match="is torn or no tensor file"):
        TensorFile(tmp_path / "t").tensor("w")


def test_a_header_that_claims_to_be_endless_takes_no_memory(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(struct.pack("<Q", 1 << 62) + b"{}")
    with pytest.raises(TornFile, match="end within the header"):
        TensorFile(tmp_path / "t")


def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tensors(tmp_path / "t", TENSORS)
    before = (tmp_path / "t").read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_tensors(tmp_path / "t", {"w": torch.ones(3)})
    assert [path.name for path in tmp_path.iterdir()] == ["t"]
    assert (tmp_path / "t").read_bytes() == before
