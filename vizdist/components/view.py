"""What the URL says, and what a page module is."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NotRequired, Protocol, TypedDict
from urllib.parse import parse_qsl, urlsplit

from dash.development.base_component import Component

from vizdist.analysis.selection import Selection
from vizdist.i18n import Lang, as_lang


class Route(TypedDict):
    """What assets/selection.mjs reads from the address bar into the store `route`."""

    path: str
    lang: str
    runs: NotRequired[str]  #: ids with commas between them, where several runs are looked at


class Address(NamedTuple):
    """An address bar as the stores of the shell hold it."""

    route: Route
    sel: Selection | None = None
    step: int | None = None
    stage: str | None = None


class Live(TypedDict):
    """What assets/live.mjs puts into the store `live`, at most once a second."""

    seen: int
    over: bool


@dataclass(frozen=True, slots=True)
class View:
    """One look at one run, or at several. `trace` and `runs` are ids that the Library gave."""

    page: str
    trace: str
    lang: Lang
    runs: tuple[str, ...] = ()

    def href(self, page_path: str) -> str:
        """The address of another page of the same run, without the prefix."""
        return page_path.format(trace=self.trace)


class Page(Protocol):
    """A module in vizdist/pages."""

    @property
    def NAME(self) -> str: ...  # noqa: N802
    @property
    def PATH(self) -> str: ...  # noqa: N802
    def layout(self, library: Any, view: View) -> Component: ...
    def register(self, app: Any, library: Any) -> None: ...


def read_address(url: str, prefix: str, lang: str) -> Address | None:
    """What assets/selection.mjs will read from the address bar; None below another prefix."""
    _, _, path, query, _ = urlsplit(url)
    if not path.startswith(prefix):
        return None
    said = dict(reversed(parse_qsl(query, keep_blank_values=True)))  # the first of a name counts
    route: Route = {
        "path": f"/{path.removeprefix(prefix)}",
        "lang": lang,
        "runs": said.get("runs", ""),
    }
    kind, colon, name = said.get("sel", "").partition(":")
    sel: Selection | None = {"type": kind, "id": name} if kind and colon else None
    number = re.match(r"\s*[+-]?\d+", said.get("step", ""))
    return Address(route, sel, int(number[0]) if number else None, said.get("stage"))


def view_of(route: Route) -> View:
    """What an address below the prefix asks for; page "" when it is none of ours."""
    lang = as_lang(route["lang"])
    match route["path"].strip("/").split("/"):
        case [""]:
            return View("library", "", lang)
        case ["reference"]:
            return View("reference", "", lang)
        case ["compare"]:
            return View("compare", "", lang, tuple(filter(None, route.get("runs", "").split(","))))
        case ["t", trace, page]:
            return View(page, trace, lang)
        case _:
            return View("", "", lang)


def page_of(pages: Sequence[Page], view: View) -> Page | None:
    """The module that shows this view."""
    for page in pages:
        if view.page == page.NAME and bool(view.trace) == ("{trace}" in page.PATH):
            return page
    return None
