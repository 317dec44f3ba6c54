"""A page asks in SQL; others do not."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import serving
from tests.store.sample_trace import training_step, write_trace
from vizdist.routes.access import PAGE_HEADER, page_token
from vizdist.store.index import cache_folder
from vizdist.store.library import Library


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    library = Library()
    folder = tmp_path_factory.mktemp("runs") / "a.trace"
    trace = library.add(write_trace(folder, training_step(1)))
    for root in serving(library):
        yield f"{root}api/traces/{trace}/sql"


def ask(url: str, body: Any, token: str | None = None) -> tuple[int, dict[str, Any]]:
    shown = page_token(cache_folder()) if token is None else token
    headers = {"Content-Type": "application/json", PAGE_HEADER: shown}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


def test_a_page_gets_columns_and_rows(url: str) -> None:
    status, answer = ask(url, {"sql": "SELECT name, duration FROM spans WHERE op = 'MatMul'"})
    assert (status, answer["rows"], answer["is_cut"]) == (200, [["mm", 200]], False)
    assert [column["name"] for column in answer["columns"]] == ["name", "duration"]


def test_who_is_no_page_gets_nothing(url: str) -> None:
    assert ask(url, {"sql": "SELECT 1"}, token="guessed")[0] == 403


def test_a_refusal_says_why(url: str) -> None:
    status, answer = ask(url, {"sql": "DROP VIEW spans"})
    assert status == 422
    assert "one SELECT is allowed" in answer["error"]


@pytest.mark.parametrize("body", [{}, {"sql": 3}, "SELECT 1", {"sql": "x" * 20_000}])
def test_what_is_no_query_is_refused(url: str, body: Any) -> None:
    assert ask(url, body)[0] == 400
