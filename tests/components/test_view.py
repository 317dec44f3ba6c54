"""Addresses name pages."""

import pytest

from vizdist.app import PAGES
from vizdist.components.view import page_of, view_of


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
