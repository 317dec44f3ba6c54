"""What the canvases ask, and that only opened traces answer, by id, without an echo."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.browser.conftest import serving
from tests.store.sample_trace import training_step, write_trace
from vizdist.store.library import Library
from vizdist.store.trace import Trace, open_trace


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    steps = [span for n in range(5) for span in training_step(n + 1, at=n * 1500)]
    return write_trace(tmp_path_factory.mktemp("runs") / "digits.trace", steps)


@pytest.fixture(scope="module")
def trace(folder: Path) -> Trace:
    return open_trace(folder)


@pytest.fixture(scope="module")
def api(folder: Path, trace: Trace) -> Iterator[str]:
    for url in serving(Library([folder])):
        yield f"{url}api/traces/{trace.id}"


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=20) as answer:
        body: bytes = answer.read()
        return body


def columns(body: bytes) -> tuple[dict[str, object], dict[str, np.ndarray]]:
    """The header and the arrays of a binary answer, as the canvas reads them."""
    end = 4 + int.from_bytes(body[:4], "little")
    header = json.loads(body[4:end])
    assert end % 8 == 0
    arrays = {
        column["name"]: np.frombuffer(
            body, column["dtype"], header["count"], end + column["offset"]
        )
        for column in header["columns"]
    }
    return header, arrays


def test_tiles_hold_the_spans_of_the_window(api: str, trace: Trace) -> None:
    header, arrays = columns(get(f"{api}/tiles?start=0&end=7500&width=1500&rows=0-50"))
    assert header["count"] == len(trace)
    ids = (arrays["span_hi"].astype(np.uint64) << np.uint64(32)) | arrays["span_lo"]
    assert sorted(ids.tolist()) == sorted(trace.all.span.tolist())
    first = int(np.flatnonzero(ids == 102)[0])
    assert (arrays["start"][first], arrays["duration"][first]) == (200.0, 200.0)
    names = header["names"]
    assert isinstance(names, list)
    assert names[int(arrays["name"][first])] == "mm"


def test_rows_steps_and_arrows_are_told(api: str, trace: Trace) -> None:
    rows = json.loads(get(f"{api}/rows"))
    assert [row["task"] for row in rows] == [row.task for row in trace.rows]
    assert [step["number"] for step in json.loads(get(f"{api}/steps"))] == [1, 2, 3, 4, 5]
    arrows = json.loads(get(f"{api}/arrows?start=0&end=1000"))
    assert arrows["total"] == 2
    assert arrows["relation"] == ["data", "rpc"]


def test_a_span_is_told_with_its_links(api: str, trace: Trace) -> None:
    span = json.loads(get(f"{api}/span/{103:016x}"))
    assert (span["name"], span["start"], span["key"]) == ("w", 400, trace.span(103).key)
    assert span["links"] == [{"source": f"{105:016x}", "target": f"{103:016x}", "relation": "data"}]


@pytest.mark.parametrize(
    "path",
    [
        "/tiles?start=0&end=0&width=100&rows=0-5",
        "/tiles?start=0&end=9&width=0&rows=0-5",
        "/tiles?start=0&end=9&width=100&rows=secret",
        "/tiles?start=secret&end=9&width=100&rows=0-5",
        "/span/secret",
        "/span/ffffffffffffffff",
        "/timeline/step?number=77&task=secret",
        "/timeline/step?number=secret&task=worker:0",
        "/../../secret",
        "/%2e%2e/%2e%2e/secret",
    ],
)
def test_a_request_that_cannot_be_met_is_refused_without_an_echo(api: str, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(api + path)
    with refused.value as answer:
        assert 400 <= answer.code < 500
        assert b"secret" not in answer.read()


@pytest.mark.parametrize("name", ["..%2f..%2fetc", "%2e%2e", "etc", "0" * 16, "%2Fetc%2Fpasswd"])
def test_a_trace_is_opened_by_its_id_alone(api: str, name: str) -> None:
    root = api.rpartition("/")[0]
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(f"{root}/{name}/rows")
    with refused.value as answer:
        assert answer.code in (400, 404)


def test_what_the_analyses_found_is_told_of_a_step_and_of_the_run(api: str, trace: Trace) -> None:
    step = json.loads(get(f"{api}/timeline/step?number=2&task=worker:0"))
    path = step["path"]
    assert path["start"][0] >= trace.step(2).start - trace.start
    assert path["end"][-1] == trace.step(2).end - trace.start
    assert len(path["row"]) == len(path["part"]) == len(path["start"])
    assert [one["end"] - one["start"] for one in step["stalls"]] == sorted(
        (one["end"] - one["start"] for one in step["stalls"]), reverse=True
    )
    run = json.loads(get(f"{api}/timeline/stands-out"))
    assert all(1 <= one["step"] <= 5 and one["task"] == "worker:0" for one in run)
    assert run
