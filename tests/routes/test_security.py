"""Who may ask, and what every answer carries; asked over ASGI, without sockets."""

import asyncio
from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from vizdist.routes.security import Guard, content_policy

HERE = {"host": "127.0.0.1:8050"}


class Answer:
    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        else:
            self.body += message.get("body", b"")


async def echo_path(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse(scope["path"])(scope, receive, send)


def ask(path: str = "/", prefix: str = "/", **headers: str) -> Answer:
    guard = Guard(
        echo_path, prefix, "/kept/", content_policy([]), lambda path: path in ("/", "/t/a/graph")
    )
    sent = [
        (name.replace("_", "-").encode(), value.encode())
        for name, value in (HERE | headers).items()
    ]
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": path, "headers": sent}
    answer = Answer()

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    asyncio.run(guard(scope, receive, answer))
    return answer


@pytest.mark.parametrize("host", ["localhost", "localhost:80", "127.0.0.1:8050", "[::1]:8050"])
def test_this_machine_may_ask(host: str) -> None:
    assert ask(host=host).status == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "[::1", "0.0.0.0"])
def test_a_rebound_name_is_refused_without_an_echo(host: str) -> None:
    answer = ask(host=host)
    assert answer.status == 403
    assert b"evil" not in answer.body


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec_fetch_site": "same-origin", "sec_fetch_mode": "cors"}, 200),
        ({"sec_fetch_site": "none", "sec_fetch_mode": "navigate"}, 200),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, 200),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"}, 403),
        ({"sec_fetch_site": "same-site", "sec_fetch_mode": "cors"}, 403),
        ({"origin": "http://localhost:8050"}, 200),
        ({"origin": "https://hub.example", "x_forwarded_host": "hub.example"}, 200),
        ({"origin": "https://evil.example", "x_forwarded_host": "hub.example"}, 403),
        ({"origin": "null"}, 403),
    ],
)
def test_another_site_cannot_ask_through_the_browser(headers: dict[str, str], status: int) -> None:
    assert ask(**headers).status == status


@pytest.mark.parametrize("path", ["/user/me/api/x", "/api/x"])
def test_a_proxy_may_strip_the_prefix_or_not(path: str) -> None:
    assert ask(path, prefix="/user/me/").body == b"/api/x"


def test_the_prefix_without_its_slash_is_the_library() -> None:
    assert ask("/user/me", prefix="/user/me/").body == b"/"


def test_a_page_is_the_one_document_and_a_wrong_address_says_404() -> None:
    found, lost = (ask(path, accept="text/html,*/*") for path in ("/t/a/graph", "/t/../etc"))
    assert (found.status, found.body) == (200, b"/")
    assert (lost.status, lost.body) == (404, b"/")


def test_every_answer_forbids_foreign_scripts() -> None:
    headers = ask().headers
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "unsafe-eval" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


def test_files_named_by_their_version_are_kept_for_good() -> None:
    assert "immutable" in ask("/kept/shell.mjs").headers["cache-control"]
    assert ask("/t/a/graph").headers["cache-control"] == "no-cache"
