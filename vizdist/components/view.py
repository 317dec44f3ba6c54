"""What the URL says, and what a page module is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, Protocol, TypedDict

from dash.development.base_component import Component

from vizdist.i18n import Lang, as_lang


class Route(TypedDict):
    """What assets/selection.mjs reads from the address bar into the store `route`."""

    path: str
    lang: str
    runs: NotRequired[str]  #: ids with commas between them, where several runs are looked at


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
