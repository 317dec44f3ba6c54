"""What a request must show: the page's token to change anything, the viewer's token from afar.

The page's token proves that a request was made by a page of ours: it is a cookie that only pages of
this host can read, sent back as a header. It is kept in the user's cache folder, so that two
servers behind one proxy know each other's pages. Browsers keep the cookies of a host together
whatever the port, so a cookie's name tells of which token it is.
"""

import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.requests import cookie_parser

PAGE_HEADER: Final = "X-Vizdist-Page"
VIEWER_QUERY: Final = "token"
READ_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

_PAGE_TOKEN_FILE = "page_token"
_TOKEN_LETTERS = 43  #: of 32 bytes


def page_token(folder: Path) -> str:
    """The token of this user's pages, made once; where nothing can be kept, one of this process."""
    path = folder / _PAGE_TOKEN_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_new(path, secrets.token_urlsafe(32))
        kept = path.read_text(encoding="ascii")
    except (OSError, ValueError):
        kept = ""
    return kept if len(kept) >= _TOKEN_LETTERS else secrets.token_urlsafe(32)


def _write_new(path: Path, text: str) -> None:
    """Whoever comes first writes it, whole; the others find it."""
    if path.exists():
        return
    draft = path.with_suffix(f".{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


class Access:
    """`page` is the page's token; `viewer` what a viewer from afar must show, "" on loopback."""

    def __init__(self, page: str, viewer: str = "") -> None:
        self._page = page
        self._viewer = viewer
        self.page_cookie = _cookie_of("vizdist_page", page)
        self.viewer_cookie = _cookie_of("vizdist_viewer", viewer)

    @property
    def is_remote(self) -> bool:
        """Whether others than this machine may ask."""
        return bool(self._viewer)

    def refusal(self, method: str, headers: Headers, query: bytes) -> tuple[int, str] | None:
        """Status and reason if the request shows too little."""
        if self._viewer and not self._is_viewer(headers, query):
            return 401, "this dashboard asks for its token: open the address that vizdist printed"
        if method not in READ_METHODS and not _same(headers.get(PAGE_HEADER, ""), self._page):
            return 403, "this request was not made by a page of this dashboard; reload the page"
        return None

    def _is_viewer(self, headers: Headers, query: bytes) -> bool:
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        cookies = cookie_parser(headers.get("cookie", ""))
        shown = [cookies.get(self.viewer_cookie, ""), bearer if kind.lower() == "bearer" else ""]
        shown += [value for name, value in _pairs(query) if name == VIEWER_QUERY]
        return any(_same(one, self._viewer) for one in shown)

    def cookies(self, path: str) -> Iterator[str]:
        """What a page is given along: `Set-Cookie` values for the dashboard's path.

        A viewer may come by a link from elsewhere, so that his cookie is lax; what changes anything
        shows the page's token as well.
        """
        rules = f"Path={path}; Max-Age=31536000"
        yield f"{self.page_cookie}={self._page}; {rules}; SameSite=Strict"
        if self._viewer:
            yield f"{self.viewer_cookie}={self._viewer}; {rules}; SameSite=Lax; HttpOnly"


def without_token(query: bytes) -> bytes | None:
    """The query as it may stay in the address bar; None if it holds no token."""
    pairs = _pairs(query)
    kept = [(name, value) for name, value in pairs if name != VIEWER_QUERY]
    return urlencode(kept).encode() if len(kept) < len(pairs) else None


def _pairs(query: bytes) -> list[tuple[str, str]]:
    return parse_qsl(query.decode("latin-1"), keep_blank_values=True)


def _cookie_of(name: str, token: str) -> str:
    return f"{name}_{hashlib.blake2b(token.encode(), digest_size=4).hexdigest()}"


def _same(shown: str, wanted: str) -> bool:
    return secrets.compare_digest(shown.encode(), wanted.encode())
