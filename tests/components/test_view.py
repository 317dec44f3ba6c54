"""Addresses name pages."""

import pytest

from vizdist.app import PAGES
from vizdist.components.view import Address, page_of, read_address, view_of


@pytest.mark.parametrize(
    ("path", "page", "trace"),
    [
        ("/", "library", ""),
        ("/t/00ff/summary", "summary", "00ff"),
        ("/t/00ff/summary/", "summary", "00ff"),
    ],
)
def test_an_address_names_a_page_and_a_run(path: str, page: str, trace: str) -> None:
    view = view_of({"path": path, "lang": "zh"})
    found = page_of(PAGES, view)
    assert found is not None
    assert (found.NAME, view.trace, view.lang) == (page, trace, "zh")


@pytest.mark.parametrize(
    "path", ["/t/00ff", "/t/00ff/nothing", "/t/00ff/library", "/summary", "/t/../../etc/summary"]
)
def test_any_other_address_names_none(path: str) -> None:
    assert page_of(PAGES, view_of({"path": path, "lang": "en"})) is None


def test_an_address_may_name_several_runs() -> None:
    view = view_of({"path": "/compare", "lang": "en", "runs": "00ff,,11ee"})
    found = page_of(PAGES, view)
    assert found is not None
    assert (found.NAME, view.trace, view.runs) == ("compare", "", ("00ff", "11ee"))


def test_an_address_is_read_as_the_browser_reads_it() -> None:
    url = "http://here:1/hub/t/00ff/graph?sel=key%3Aa%3Bb%3A1&step=7&stage=placed&step=9&t0=5"
    assert read_address(url, "/hub/", "zh") == Address(
        {"path": "/t/00ff/graph", "lang": "zh", "runs": ""},
        {"type": "key", "id": "a;b:1"},
        7,
        "placed",
    )
    several = read_address("http://here/compare?runs=00ff%2C11ee&sel=:x&step=no", "/", "en")
    assert several == Address({"path": "/compare", "lang": "en", "runs": "00ff,11ee"})
    assert read_address("http://here/elsewhere", "/hub/", "en") is None
