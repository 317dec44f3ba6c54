"""Who waits for a large file is told how far it has been read."""

import gzip
import json
from pathlib import Path

import pytest

from vizdist.store import importing
from vizdist.store.reading import told_to
from vizdist.store.trace import open_trace


def chrome(path: Path) -> None:
    events = [
        {"ph": "X", "name": f"op{n}", "ts": n, "dur": 1, "pid": 1, "tid": 1} for n in range(20_000)
    ]
    path.write_text(json.dumps({"traceEvents": events}))


def otlp(path: Path) -> None:
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as file:
        for n in range(1, 20_001):
            span = {"spanId": f"{n:016x}", "startTimeUnixNano": n, "endTimeUnixNano": n + 1}
            file.write(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}) + "\n")


@pytest.mark.parametrize(
    ("name", "write"), [("x.json", chrome), ("x.jsonl", otlp), ("x.jsonl.gz", otlp)]
)
def test_progress_rises_to_the_end_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, write: object
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(importing, "TELL_SPANS", 500)
    assert callable(write)
    write(tmp_path / name)
    told: list[tuple[str, float]] = []
    with told_to(lambda *what: told.append(what)):
        open_trace(tmp_path / name)
    shares = [share for _, share in told]
    assert {one for one, _ in told} == {name}
    assert len(shares) >= 4
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] <= 1
    before = len(told)
    open_trace(tmp_path / name)
    assert len(told) == before
