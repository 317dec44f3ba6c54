"""Who may ask, and what every answer carries; asked over ASGI, without sockets."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from vizdist.routes.access import PAGE_HEADER, Access, page_token
from vizdist.routes.security import Guard, content_policy

HERE = {"host": "127.0.0.1:8050"}
PAGE, VIEWER = "page-token-of-these-tests", "viewer-token-of-these-tests"
COOKIE = Access(PAGE, VIEWER).viewer_cookie


class Answer:
    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.cookies: list[str] = []
        self.body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            pairs = [(k.decode(), v.decode()) for k, v in message["headers"]]
            self.headers = dict(pairs)
            self.cookies = [value for name, value in pairs if name == "set-cookie"]
        else:
            self.body += message.get("body", b"")


async def echo_path(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse(scope["path"])(scope, receive, send)


def ask(
    path: str = "/",
    prefix: str = "/",
    method: str = "GET",
    query: str = "",
    viewer: str = "",
    **headers: str,
) -> Answer:
    guard = Guard(
        echo_path,
        prefix,
        "/kept/",
        content_policy([]),
        lambda path: path in ("/", "/t/a/graph"),
        Access(PAGE, viewer),
    )
    sent = [
        (name.replace("_", "-").encode(), value.encode("latin-1"))
        for name, value in (HERE | headers).items()
    ]
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": sent,
    }
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


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_whoever_changes_something_shows_the_token_of_a_page(method: str) -> None:
    assert ask(method=method).status == 403
    assert ask(method=method, **{PAGE_HEADER.lower(): PAGE + "x"}).status == 403
    assert ask(method=method, **{PAGE_HEADER.lower(): PAGE}).status == 200


def test_a_page_gets_its_token_where_only_our_pages_can_read_it() -> None:
    (cookie,) = ask("/t/a/graph", prefix="/user/me/", accept="text/html").cookies
    assert cookie.startswith(f"{Access(PAGE).page_cookie}={PAGE}; Path=/user/me/; ")
    assert cookie.endswith("SameSite=Strict")
    assert not ask("/api/x").cookies


def test_from_afar_every_request_shows_the_viewers_token() -> None:
    afar = {"host": "gpu-box:8050", "viewer": VIEWER}
    assert ask(**afar).status == 401
    assert ask(**afar, query="token=guess").status == 401
    assert ask(**afar, authorization=f"Bearer {VIEWER}").status == 200
    assert ask(**afar, cookie=f"{COOKIE}={VIEWER}").status == 200
    assert ask(**afar, cookie=f"{COOKIE}=guess; ;;=").status == 401
    assert VIEWER.encode() not in ask(**afar).body


def test_a_token_in_an_address_becomes_a_cookie_and_leaves_the_address() -> None:
    first = ask(
        "/t/a/graph", host="gpu-box", viewer=VIEWER, query=f"step=3&token={VIEWER}",
        accept="text/html",
    )  # fmt: skip
    assert (first.status, first.headers["location"]) == (303, "/t/a/graph?step=3")
    assert any("HttpOnly" in cookie and VIEWER in cookie for cookie in first.cookies)


def test_another_site_cannot_ask_even_with_the_viewers_cookie() -> None:
    cookie = f"{COOKIE}={VIEWER}"
    foreign = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "cors"}
    assert ask(host="gpu-box", viewer=VIEWER, cookie=cookie, **foreign).status == 403
    assert ask(host="gpu-box", viewer=VIEWER, cookie=cookie, origin="http://evil").status == 403
    assert ask(host="gpu-box", viewer=VIEWER, cookie=cookie, origin="http://gpu-box").status == 200


def test_two_servers_of_one_user_know_each_others_pages(tmp_path: Path) -> None:
    assert page_token(tmp_path / "cache") == page_token(tmp_path / "cache")
    assert (tmp_path / "cache" / "page_token").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["page_token"]


def test_where_nothing_can_be_kept_the_token_is_of_this_process(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert page_token(blocked / "cache") != page_token(blocked / "cache")
    (tmp_path / "page_token").write_text("short")
    assert len(page_token(tmp_path)) >= 32


def test_servers_of_two_tokens_on_one_host_have_cookies_of_their_own() -> None:
    one, other = Access(PAGE, VIEWER), Access(PAGE + "x", VIEWER + "x")
    assert one.page_cookie != other.page_cookie
    assert one.viewer_cookie != other.viewer_cookie


@pytest.mark.parametrize("neighbour", ['consent={"a": 1}', "my prefs", "a[0]=1", "n=\xe9"])
def test_other_cookies_of_the_host_lock_nobody_out(neighbour: str) -> None:
    cookie = f"{neighbour}; {COOKIE}={VIEWER}"
    assert ask(host="gpu-box", viewer=VIEWER, cookie=cookie).status == 200


@pytest.mark.parametrize("path", ["//evil.example/x", "/user/me//evil.example/x", "/x"])
def test_a_token_link_leads_nowhere_but_here(path: str) -> None:
    moved = ask(path, prefix="/user/me/", query="token=a&step=2", accept="text/html")
    assert moved.status == 303
    assert moved.headers["location"].startswith("/user/me/")
    assert not moved.headers["location"].startswith("//")
