"""Who may ask, and what every answer carries.

The dashboard answers to this machine only, so a page on the web must not reach it through the
viewer's browser: a foreign Host is a rebound name, a cross-site fetch is somebody else's script.
"""

from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("localhost", "127.0.0.1", "::1")

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
_FOR_GOOD = "private, max-age=31536000, immutable"


def content_policy(script_hashes: Sequence[str]) -> str:
    """Own files only. Inline styles stay allowed: Mantine and Plotly set them."""
    rules = (
        "default-src 'self'",
        f"script-src 'self' {' '.join(script_hashes)}",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
    )
    return "; ".join(rules)


def _host(authority: str) -> str:
    return urlsplit(f"//{authority}").hostname or ""


def refusal(headers: Headers) -> str | None:
    """Why a request is refused, in words that repeat nothing of it; None: it may pass."""
    try:
        if _host(headers.get("host", "")) not in LOOPBACK:
            return "this dashboard answers to localhost only"
        if _is_foreign(headers):
            return "this request comes from another site"
    except ValueError:
        return "malformed Host or Origin"
    return None


def _is_foreign(headers: Headers) -> bool:
    """Browsers say where a fetch comes from; following a link from elsewhere is fine."""
    site, mode = headers.get("sec-fetch-site"), headers.get("sec-fetch-mode")
    if site is not None:
        return site not in ("same-origin", "none") and mode != "navigate"
    origin = headers.get("origin")
    if origin is None:
        return False
    known = {*LOOPBACK, _host(headers.get("x-forwarded-host", ""))} - {""}
    return (urlsplit(origin).hostname or "") not in known


class Guard:
    """ASGI middleware: refuses strangers, takes the prefix away, answers pages, sets headers.

    A proxy may strip the prefix or not; routes have none, so both arrive at the same one. Every
    page is the one document of the dashboard; what it shows is read from the address there.
    Files below the path `kept` never change.
    """

    def __init__(
        self, app: ASGIApp, prefix: str, kept: str, policy: str, is_page: Callable[[str], bool]
    ) -> None:
        self._app = app
        self._prefix = prefix
        self._kept = kept
        self._headers = {**_HEADERS, "Content-Security-Policy": policy}
        self._is_page = is_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        reason = refusal(headers)
        if reason and scope["type"] == "http":
            await JSONResponse({"error": reason}, 403)(scope, receive, send)
        elif reason:
            await send({"type": "websocket.close", "code": 4403})
        else:
            path = self._below_prefix(scope["path"])
            if wants_page := "text/html" in headers.get("accept", ""):
                path, known = "/", self._is_page(path)
            status = 404 if wants_page and not known else None
            answer = self._answer(send, status, is_kept=path.startswith(self._kept))
            await self._app({**scope, "path": path}, receive, answer)

    def _below_prefix(self, path: str) -> str:
        if path == self._prefix.rstrip("/"):
            return "/"
        return path[len(self._prefix) - 1 :] if path.startswith(self._prefix) else path

    def _answer(self, send: Send, status: int | None, *, is_kept: bool) -> Send:
        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self._headers)
                message["status"] = status or message["status"]
                may_keep = is_kept and message["status"] == 200
                headers.setdefault("Cache-Control", _FOR_GOOD if may_keep else "no-cache")
            await send(message)

        return answer
