"""The events of a step come as columns, for opened traces and their own steps only."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.analysis.sample_run import sample_run
from tests.browser.conftest import serving
from tests.store.sample_trace import training_step, write_trace
from tracer.model.trace_folder import Flag
from vizdist.store.index import path_id
from vizdist.store.library import Library
from vizdist.store.trace import Trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Two workers run a step of each number."""
    return sample_run(tmp_path_factory.mktemp("runs") / "sample.trace")


@pytest.fixture(scope="module")
def api(trace: Trace) -> Iterator[str]:
    for url in serving(Library([trace.path])):
        yield f"{url}api/traces/{path_id(trace.path)}/replay"


def header(url: str, **query: object) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}?{urllib.parse.urlencode(query)}", timeout=20) as answer:
        body = answer.read()
    length = int.from_bytes(body[:4], "little")
    found: dict[str, Any] = json.loads(body[4 : 4 + length])
    for column in found["columns"]:  # arrays in the browser must lie at multiples of their size
        assert (4 + length + column["offset"]) % np.dtype(column["dtype"]).itemsize == 0
    return found


def refusal(url: str, **query: object) -> tuple[int, str]:
    with pytest.raises(urllib.error.HTTPError) as refused:
        header(url, **query)
    return refused.value.code, refused.value.read().decode()


def test_a_step_comes_with_its_places_tensors_and_kinds_of_events(api: str) -> None:
    found = header(api, step=2)
    assert (found["step"], found["task"], found["isWhole"]) == (2, "worker:0", True)
    assert {"task": "ps:0", "device": "CPU:0"} in found["places"]
    assert found["counts"]["key"] > 0
    assert found["counts"]["event"] > found["counts"]["item"]
    assert "taken" in found["events"]


def test_each_worker_has_a_replay_of_its_own(api: str) -> None:
    found = header(api, step=2, task="worker:1")
    assert (found["task"], found["tasks"]) == ("worker:1", ["worker:0", "worker:1"])


def test_a_step_that_nobody_ran_is_refused_with_those_that_there_are(api: str) -> None:
    code, words = refusal(api, step=99)
    assert (code, "step 99 is not in this trace; it holds steps 1 to 3" in words) == (404, True)


def test_a_malformed_step_is_refused(api: str) -> None:
    assert refusal(api, step="one") == (400, '{"error":"malformed request"}')


def test_a_run_whose_only_step_failed_is_replayed_too(tmp_path: Path) -> None:
    spans = [
        span._replace(flags=Flag.ERROR) if span.kind == "session.run" else span
        for span in training_step(1)
    ]
    folder = write_trace(tmp_path / "failed.trace", spans)
    for url in serving(Library([folder])):
        found = header(f"{url}api/traces/{path_id(folder)}/replay")
        assert (found["step"], found["isWhole"]) == (1, False)


def test_a_run_without_steps_is_refused(tmp_path: Path) -> None:
    folder = write_trace(tmp_path / "empty.trace", [])
    for url in serving(Library([folder])):
        assert refusal(f"{url}api/traces/{path_id(folder)}/replay")[0] == 404
