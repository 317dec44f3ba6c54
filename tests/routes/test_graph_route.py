"""The graph of a step comes laid out, for opened traces and known stages only."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import serving
from tests.store.recorded_trace import record_trace
from vizdist.store.index import path_id
from vizdist.store.library import Library


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = record_trace(tmp_path_factory.mktemp("runs") / "recorded.trace")
    for url in serving(Library([folder])):
        yield f"{url}api/traces/{path_id(folder)}/graph"


def get(url: str, **query: object) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}?{urllib.parse.urlencode(query)}", timeout=20) as answer:
        found: dict[str, Any] = json.loads(answer.read())
        return found


def refusal(url: str, **query: object) -> tuple[int, str]:
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(url, **query)
    return refused.value.code, refused.value.read().decode()


def test_a_step_has_its_graph_and_what_it_measured(api: str) -> None:
    payload = get(api, step=2, stage="worker")
    nodes = {node["id"]: node for node in payload["nodes"]}
    assert set(nodes) == {"w", "mm"}
    assert (nodes["mm"]["time"], nodes["mm"]["wait"]) == (200, 50)
    assert len(nodes["mm"]["span"]) == 16
    assert [box["id"] for box in payload["boxes"]] == ["/job:ps/replica:0/task:0"]


def test_without_a_stage_the_last_one_is_shown(api: str) -> None:
    assert get(api)["stage"] == "worker"
    assert get(api, stage="device")["stage"] == "worker"
    assert get(api, step=1, stage="full", task="no:7")["stage"] == "full"


def test_graph_and_path_say_of_which_step_they_are(api: str) -> None:
    for url in (api, f"{api}/path"):
        told = get(url, step=2)
        assert (told["step"], told["task"], told["isWhole"]) == (2, "worker:0", True)


@pytest.mark.parametrize("path", ["", "/path"])
def test_a_step_that_nobody_ran_is_refused_with_those_that_there_are(api: str, path: str) -> None:
    code, words = refusal(f"{api}{path}", step=99)
    assert (code, "step 99 is not in this trace; it holds steps 1 to" in words) == (404, True)


@pytest.mark.parametrize("query", [{"stage": "<b>"}, {"step": -1}, {"step": "x"}])
def test_a_malformed_request_is_refused_without_an_echo(api: str, query: dict[str, Any]) -> None:
    code, words = refusal(api, **query)
    assert code == 400
    assert str(next(iter(query.values()))) not in words


def test_a_trace_that_is_not_open_has_no_graph(api: str) -> None:
    assert refusal(api.replace(api.split("/")[-2], "0" * 16))[0] == 404
