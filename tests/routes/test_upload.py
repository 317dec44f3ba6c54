"""Uploads: what is taken, what is refused, and that a viewer's name or numbers decide nothing."""

import gzip
import json
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.browser.conftest import serving
from vizdist.routes.access import PAGE_HEADER, page_token
from vizdist.store.index import cache_folder
from vizdist.store.library import Library

SPAN = {
    "traceId": "0af7651916cd43dd8448eb211c80319c",
    "spanId": "b7ad6b7169203331",
    "name": "matmul",
    "startTimeUnixNano": "1000",
    "endTimeUnixNano": "3000",
}
LINE = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}).encode() + b"\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made during the test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def library() -> Library:
    return Library([])


@pytest.fixture
def url(library: Library, folder: Path) -> Iterator[str]:
    yield from serving(library)


def post(
    url: str, name: str, body: bytes, lang: str = "en", **headers: str
) -> tuple[int, dict[str, Any]]:
    known = {PAGE_HEADER: page_token(cache_folder()), "Content-Type": "application/octet-stream"}
    request = urllib.request.Request(
        f"{url}api/upload?name={quote(name, safe='')}&lang={lang}", body, known | headers
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def files_below(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("name", ["a.otlp.jsonl", "..\\..\\x.JSONL", "../../etc/cron.d/x.jsonl"])
def test_a_trace_is_opened_under_a_name_of_ours(
    url: str, library: Library, folder: Path, name: str
) -> None:
    status, answer = post(url, name, LINE)
    assert status == 200
    assert len(library.open(answer["trace"])) == 1
    (kept,) = files_below(folder)
    assert kept.startswith("upload-")
    assert kept.endswith(".jsonl")


def test_a_packed_file_is_taken_too(url: str, library: Library) -> None:
    status, answer = post(url, "a.jsonl.gz", gzip.compress(LINE * 3))
    assert status == 200
    assert len(library.open(answer["trace"])) == 3


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [
        ("a.exe", LINE, "a.exe is no trace file by its name; one ends with .jsonl"),
        ("a.jsonl", b"no trace at all", "of no format known here"),
        ("a.jsonl", b"", "is empty"),
        ("bomb.jsonl.gz", gzip.compress(LINE + bytes(201 << 20)), "more than 200 MiB"),
    ],
)
def test_what_is_no_trace_is_refused_and_leaves_nothing(
    url: str, library: Library, folder: Path, name: str, body: bytes, reason: str
) -> None:
    status, answer = post(url, name, body)
    assert status == 422
    assert reason in answer["error"]
    assert files_below(folder) == []
    assert library.entries() == []


def test_a_body_that_is_too_long_is_refused_in_words(url: str, folder: Path) -> None:
    status, answer = post(url, "a.jsonl", bytes((16 << 20) + 1))
    assert status == 413
    assert "at most 16 MiB" in answer["error"]
    assert files_below(folder) == []


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [("a.exe", LINE, "不是 trace 文件"), ("a.jsonl", b"no trace", "a.jsonl 不是这里已知的格式"),
     ("a.jsonl", bytes((16 << 20) + 1), "上传最大 16 MiB"),
     ("bomb.jsonl.gz", gzip.compress(LINE + bytes(201 << 20)), "内容超过 200 MiB")],
)  # fmt: skip
def test_a_refusal_is_in_the_language_of_its_page(
    url: str, name: str, body: bytes, reason: str
) -> None:
    assert reason in post(url, name, body, lang="zh")[1]["error"]


def test_a_stranger_uploads_nothing(url: str, folder: Path) -> None:
    assert post(url, "a.jsonl", LINE, **{PAGE_HEADER: "guessed"})[0] == 403
    assert files_below(folder) == []


def test_a_server_holds_a_bounded_number_of_uploads(url: str) -> None:
    for _ in range(20):
        assert post(url, "a.jsonl", LINE)[0] == 200
    status, answer = post(url, "a.jsonl", LINE)
    assert (status, "holds 20 uploads" in answer["error"]) == (422, True)
