"""Runs asked for by HTTP: only a page of ours may, and a refusal is in the viewer's language."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import serving
from tests.launch.commands import until
from vizdist.routes.access import PAGE_HEADER, page_token
from vizdist.routes.runs import BODY_BYTES
from vizdist.store.index import cache_folder
from vizdist.store.library import Library

TWO_STEPS = {
    "workload": "digits-mlp",
    "strategy": "one_device",
    "numbers": {"devices": "1", "steps": "2"},
}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    yield from serving(Library([tmp_path]))


def call(url: str, asked: Any = None, is_page: bool = True) -> tuple[int, dict[str, Any]]:
    headers = {PAGE_HEADER: page_token(cache_folder())} if is_page else {}
    body = None if asked is None else json.dumps(asked).encode()
    request = urllib.request.Request(url, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text.startswith(b"{") else {"text": text.decode()}


@pytest.mark.parametrize(
    ("asked", "lang", "says"),
    [
        ({"workload": "os:system"}, "en", "workload cannot be os:system. It can be: digits-mlp"),
        ({"workload": "os:system"}, "zh", "workload 不能是 os:system。可以是：digits-mlp"),
        (TWO_STEPS | {"numbers": {"steps": "-1"}}, "en", "a number from 1 to 10,000"),
        ("x" * BODY_BYTES, "en", "Reload the page"),
    ],
)
def test_a_request_for_what_is_not_offered_is_refused_in_words(
    url: str, tmp_path: Path, asked: Any, lang: str, says: str
) -> None:
    status, answer = call(f"{url}api/runs?lang={lang}", asked)
    assert status == 422
    assert says in answer["error"]
    assert not [*tmp_path.iterdir()]


def test_only_a_page_of_this_dashboard_starts_a_run(url: str, tmp_path: Path) -> None:
    status, _ = call(f"{url}api/runs", TWO_STEPS, is_page=False)
    assert status == 403
    assert not [*tmp_path.iterdir()]


def test_a_run_that_nobody_started_here_is_unknown(url: str) -> None:
    assert call(f"{url}api/runs/{'0' * 16}")[0] == 404


@pytest.mark.slow
@pytest.mark.cluster
def test_a_run_that_was_asked_for_trains_and_is_listed(url: str, tmp_path: Path) -> None:
    status, answer = call(f"{url}api/runs", TWO_STEPS)
    assert status == 200
    seen: list[str] = []

    def ended() -> bool:
        phase = call(f"{url}api/runs/{answer['trace']}")[1]["phase"]
        if phase not in seen:
            seen.append(phase)
        return phase in ("done", "failed")

    until(ended, "the end of the run")
    assert seen == ["starting", "running", "done"]
    (entry,) = Library([tmp_path]).entries()
    assert entry.id == answer["trace"]
    assert (entry.manifest.outcome, entry.manifest.steps) == ("done", 2)
