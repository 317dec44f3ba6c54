"""Whatever a file holds: it opens and is asked every question, or it is refused in words."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from vizdist.store.problems import TraceError
from vizdist.store.trace import Trace, open_trace

GOLDEN = Path(__file__).parent.parent / "golden" / "imports"
FILES = sorted(p for p in GOLDEN.rglob("*.json*") if 0 < p.stat().st_size < 20_000)
SCRAPS = (
    b"null", b"{}", b"[]", b'"x"', b"1e999", b"-5", b"9" * 26, b"true", b'"\\ud800"', b"[[[]]]",
    b"\xff", b"\x00", b'"', b"\\", b"1e-400", b"1.5", b'{"a":1}',
)  # fmt: skip


def damaged(content: bytes, random: np.random.Generator) -> bytes:
    """Bytes changed, cut out, or scraps put in; values of keys replaced by scraps."""
    text = bytearray(content)
    for _ in range(int(random.integers(1, 6))):
        at = int(random.integers(0, len(text) + 1))
        scrap = SCRAPS[int(random.integers(len(SCRAPS)))]
        match int(random.integers(4)):
            case 0:
                text[at : at + 1] = bytes([int(random.integers(256))])
            case 1:
                del text[at : at + int(random.integers(1, 40))]
            case 2:
                text[at:at] = scrap
            case _:
                colon = text.find(b":", at)
                end = text.find(b",", colon)
                if 0 <= colon < end:
                    text[colon + 1 : end] = scrap
    return bytes(text)


def variants(path: Path, count: int) -> Iterator[bytes]:
    content = path.read_bytes()
    if content.startswith(b"\x1f\x8b"):
        content = gzip.decompress(content) if "cut60" not in path.name else content
    random = np.random.default_rng(len(content))
    return (damaged(content, random) for _ in range(count))


def test_damage_is_never_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    num_opened = num_refused = 0
    for path in FILES:
        file = tmp_path / f"damaged{''.join(path.suffixes)}"
        for content in variants(path, 4):
            file.write_bytes(content)
            try:
                ask_everything(open_trace(file))
                num_opened += 1
            except TraceError:
                num_refused += 1
    assert num_opened > 40
    assert num_refused > 10


def ask_everything(trace: Trace) -> None:
    trace.tiles(trace.start, trace.end + 1, 16)
    trace.arrows(trace.start, trace.end + 1)
    assert trace.graphs == ()
    assert trace.steps == ()
    for span in trace.all.span[:2].tolist():
        assert span == 0 or int(trace.span(span).id, 16) == span
