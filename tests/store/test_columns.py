"""Columns give the same table wherever they lie while a file is read."""

from pathlib import Path

import numpy as np
import pytest

from tests.store.sample_trace import EPOCH, training_step
from vizdist.store import columns
from vizdist.store.columns import ColumnsBuilder, SpanRecord
from vizdist.store.segments import Segment, read_segment

SPANS = [
    *(span for n in range(1, 40) for span in training_step(n, at=n * 1500)),
    *(
        SpanRecord("gpu", "stream 7", EPOCH + n, EPOCH + n + 9, f"k{n % 3}")
        for n in range(0, 90, 7)
    ),
]


def built(folder: Path, builder: ColumnsBuilder) -> Segment:
    for span in SPANS:
        builder.add(span)
    builder.rename("name", "k1", "k0")
    builder.table().write(folder)
    builder.close()
    return read_segment(folder / "00000.arrow")


@pytest.mark.parametrize("kept", [0, 50, 10_000])
def test_a_large_table_lies_in_files_and_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    for name in ("memory", "files"):
        (tmp_path / name).mkdir()
    one = built(tmp_path / "memory", ColumnsBuilder())
    monkeypatch.setattr(columns, "_BATCH", 16)
    monkeypatch.setattr(columns, "KEPT_ROWS", kept)
    other = built(tmp_path / "files", ColumnsBuilder(tmp_path / "files"))
    assert (one.rows, one.texts) == (other.rows, other.texts)
    assert all(np.array_equal(one.columns[name], other.columns[name]) for name in one.columns)
    assert [path.name for path in (tmp_path / "files").iterdir()] == ["00000.arrow"]


def test_a_depth_beyond_reason_costs_nothing(tmp_path: Path) -> None:
    builder = ColumnsBuilder()
    for depth in (0, 3, 1 << 62):
        builder.add(SpanRecord("a", "b", EPOCH, EPOCH + 1, "n", depth=depth))
    builder.table().write(tmp_path)
    rows = [row.depth for row in read_segment(tmp_path / "00000.arrow").rows]
    assert rows == [0, 3, columns.DEEPEST]
