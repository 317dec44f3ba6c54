"""Who may ask, and what every answer carries.

A page on the web must not reach the dashboard through the viewer's browser: a foreign Host is a
rebound name, a cross-site fetch is somebody else's script. Where others than this machine may ask,
every name is as good as another, and each request must show the viewer's token instead.
"""

from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vizdist.routes.access import Access, without_token

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


def refusal(headers: Headers, *, is_remote: bool = False) -> str | None:
    """Why a request is refused, in words that repeat nothing of it; None: it may pass."""
    try:
        host = _host(headers.get("host", ""))
        if host not in LOOPBACK and not is_remote:
            return "this dashboard answers to localhost only"
        if _is_foreign(headers, host):
            return "this request comes from another site"
    except ValueError:
        return "malformed Host or Origin"
    return None


def _is_foreign(headers: Headers, host: str) -> bool:
    """Browsers say where a fetch comes from; following a link from elsewhere is fine."""
    site, mode = headers.get("sec-fetch-site"), headers.get("sec-fetch-mode")
    if site is not None:
        return site not in ("same-origin", "none") and mode != "navigate"
    origin = headers.get("origin")
    if origin is None:
        return False
    known = {*LOOPBACK, host, _host(headers.get("x-forwarded-host", ""))} - {""}
    return (urlsplit(origin).hostname or "") not in known


class Guard:
    """ASGI middleware: refuses strangers, takes the prefix away, answers pages, sets headers.

    A page gets the cookies that its requests must show again; a viewer's token in an address is
    taken out of it at once.

    A proxy may strip the prefix or not; routes have none, so both arrive at the same one. Every
    page is the one document of the dashboard; what it shows is read from the address there.
    Files below the path `kept` never change.
    """

    def __init__(
        self,
        app: ASGIApp,
        prefix: str,
        kept: str,
        policy: str,
        is_page: Callable[[str], bool],
        access: Access,
    ) -> None:
        self._app = app
        self._access = access
        self._prefix = prefix
        self._kept = kept
        self._headers = {**_HEADERS, "Content-Security-Policy": policy}
        self._is_page = is_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refused = self._refusal(scope, headers)
        if refused is not None and scope["type"] == "http":
            await refused(scope, receive, send)
        elif refused is not None:
            await send({"type": "websocket.close", "code": 4403})
        else:
            await self._pass(scope, headers, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """The answer to a stranger; None: the request may pass."""
        if reason := refusal(headers, is_remote=self._access.is_remote):
            return JSONResponse({"error": reason}, 403)
        shown = self._access.refusal(scope.get("method", "GET"), headers, scope["query_string"])
        return JSONResponse({"error": shown[1]}, shown[0]) if shown else None

    async def _pass(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        path = self._below_prefix(scope["path"])
        status = None
        cookies: list[str] = []
        if "text/html" in headers.get("accept", ""):
            if (query := without_token(scope["query_string"])) is not None:
                send = self._answer(send, None, list(self._access.cookies(self._prefix)))
                await _moved(f"{self._prefix}{path.lstrip('/')}", query)(scope, receive, send)
                return
            status = None if self._is_page(path) else 404
            cookies = list(self._access.cookies(self._prefix))
            path = "/"
        answer = self._answer(send, status, cookies, is_kept=path.startswith(self._kept))
        await self._app({**scope, "path": path}, receive, answer)

    def _below_prefix(self, path: str) -> str:
        if path == self._prefix.rstrip("/"):
            return "/"
        return path[len(self._prefix) - 1 :] if path.startswith(self._prefix) else path

    def _answer(
        self, send: Send, status: int | None, cookies: Sequence[str], *, is_kept: bool = False
    ) -> Send:
        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self._headers)
                for cookie in cookies:
                    headers.append("Set-Cookie", cookie)
                message["status"] = status or message["status"]
                may_keep = is_kept and message["status"] == 200
                headers.setdefault("Cache-Control", _FOR_GOOD if may_keep else "no-cache")
            await send(message)

        return answer


def _moved(path: str, query: bytes) -> Response:
    """To the same page without the token in its address, which ends up in histories and logs."""
    return RedirectResponse(f"{path}?{query.decode()}" if query else path, 303)
