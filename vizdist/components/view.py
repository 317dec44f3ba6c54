"""What the URL says, and what a page module is."""

from dataclasses import dataclass
from typing import Any, Protocol, TypedDict

from dash.development.base_component import Component

from vizdist.i18n import Lang, as_lang


class Route(TypedDict):
    """What assets/selection.mjs reads from the address bar into the store `route`."""

    path: str
    lang: str


@dataclass(frozen=True, slots=True)
class View:
    """One look at one run. `trace` is the id the Library gave; empty on the Library itself."""

    page: str
    trace: str
    lang: Lang

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


def find_view(pages: tuple[Page, ...], path: str, lang: str) -> tuple[Page, View] | None:
    """The page that a path below the prefix names, or None."""
    parts = path.strip("/").split("/")
    for page in pages:
        pattern = page.PATH.strip("/").split("/")
        if len(pattern) != len(parts):
            continue
        pairs = list(zip(pattern, parts, strict=True))
        if all(wanted in ("{trace}", got) for wanted, got in pairs):
            trace = next((got for wanted, got in pairs if wanted == "{trace}"), "")
            return page, View(page.NAME, trace, as_lang(lang))
    return None
