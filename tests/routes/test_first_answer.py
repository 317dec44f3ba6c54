"""The layout is the page that a browser is at, which it says as it asks."""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import Dashboard, serving
from tests.store.sample_trace import training_step, write_trace
from vizdist.pages import summary
from vizdist.store.index import path_id
from vizdist.store.library import Library


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    steps = [span for n in range(3) for span in training_step(n + 1, at=n * 1500)]
    folder = write_trace(tmp_path_factory.mktemp("runs") / "digits.trace", steps)
    for url in serving(Library([folder]), "/hub/"):
        yield Dashboard(url, path_id(folder))


def named(part: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """(id, properties) of every component of a layout that has an id."""
    if isinstance(part, list):
        for one in part:
            yield from named(one)
    elif isinstance(part, dict) and "props" in part:
        if "id" in part["props"]:
            yield part["props"]["id"], part["props"]
        yield from named(part["props"].get("children"))


def asked(dashboard: Dashboard, address: str, **headers: str) -> dict[str, dict[str, Any]]:
    at = {"Referer": f"{dashboard.url}{address}"} | headers
    request = urllib.request.Request(f"{dashboard.url}_dash-layout", headers=at)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return dict(named(json.loads(answer.read())))


def test_it_holds_the_page_and_what_the_address_says(dashboard: Dashboard) -> None:
    address = f"t/{dashboard.run}/summary?step=2&sel=node:mm"
    found = asked(dashboard, address, Cookie="vizdist_lang=zh")
    assert found["route"]["data"]["path"] == f"/t/{dashboard.run}/summary"
    assert found["sel"]["data"] == {"type": "node", "id": "mm"}
    assert found["step"]["data"] == 2
    assert "概要" in found["title"]["data"]
    assert all(found[place]["children"] for place in ("main", "rail", "header", "strip", "tabs"))
    assert "summary-step" in found, "Dash knows the places that callbacks fill"


def test_whoever_does_not_say_where_he_is_gets_the_shell(dashboard: Dashboard) -> None:
    elsewhere = {"Referer": "http://127.0.0.1/other/summary", "Cookie": "vizdist_lang=en"}
    for headers in ({}, elsewhere):
        found = asked(dashboard, f"t/{dashboard.run}/summary", **headers)
        assert not found["main"].get("children")
        assert "data" not in found["route"], "a store that is told of nothing takes it for news"


def test_a_page_that_fails_leaves_the_shell(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(summary, "layout", lambda *_: 1 / 0)
    found = asked(dashboard, f"t/{dashboard.run}/summary", Cookie="vizdist_lang=en")
    assert not found["main"].get("children")
    assert "could not be opened at once" in caplog.text
