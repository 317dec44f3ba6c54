"""create_app: theme, language, pages and routes put together; nothing is computed here."""

from pathlib import Path
from typing import Any

from dash import Dash, Input, Output
from dash.development.base_component import Component
from fastapi import FastAPI
from starlette.applications import Starlette

import vizdist
from vizdist.components import shell
from vizdist.components.callbacks import callback
from vizdist.components.cards import not_there
from vizdist.components.header import header
from vizdist.components.view import Page, Route, View, find_view
from vizdist.i18n import as_lang, t
from vizdist.pages import library as library_page
from vizdist.routes.security import Guard, content_policy

PAGES: tuple[Page, ...] = (library_page,)

_INDEX = """<!DOCTYPE html>
<html lang="en" data-theme="light">
  <head>
    {%metas%}
    <title>{%title%}</title>
    <link rel="icon" type="image/svg+xml" href="ASSETSmark.svg">
    <script src="ASSETSboot.js"></script>
    {%css%}
  </head>
  <body>
    {%app_entry%}
    {%config%}{%scripts%}{%renderer%}
  </body>
</html>"""


def assets_folder() -> Path:
    """In a wheel the assets lie in the package, in a checkout beside it."""
    package = Path(vizdist.__file__).parent
    return found if (found := package / "assets").is_dir() else package.parent / "assets"


def create_app(library: Any, *, url_prefix: str = "/") -> Starlette:
    """The dashboard over a library of traces, as an ASGI application."""
    server: Any = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app = Dash(
        __name__,
        server=server,
        assets_folder=str(assets_folder()),
        assets_ignore=r"\.mjs$|^boot\.js$",
        requests_pathname_prefix=url_prefix,
        title="vizdist",
        update_title="",
        add_log_handler=False,
        suppress_callback_exceptions=True,
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
    )
    app.index_string = _INDEX.replace("ASSETS", app.get_asset_url(""))
    app.layout = shell.skeleton()
    shell.register(app)
    for page in PAGES:
        page.register(app, library)
    _register_frame(app, library)
    server.add_middleware(
        Guard,
        prefix=url_prefix,
        policy=content_policy(app.csp_hashes()),
        is_page=lambda path: find_view(PAGES, path, "en") is not None,
    )
    return server


def _register_frame(app: Dash, library: Any) -> None:
    """The address decides what stands in header, rail and main."""
    parts = ("header", "rail", "main", "tabs", "skip")
    outputs = [Output(part, "children") for part in parts]

    @callback(app, *outputs, Output("title", "data"), Input("route", "data"))
    def show(route: Route) -> tuple[Any, ...]:
        lang = as_lang(route["lang"])
        page, view = find_view(PAGES, route["path"], lang) or (None, View("", "", lang))
        body = page.layout(library, view) if page else _lost(view)
        entries = shell.rail(PAGES, view)
        words = t("shell.skip", lang)
        return header(lang, [], []), entries, body, entries, words, t("shell.title", lang)


def _lost(view: View) -> Component:
    return not_there(view.lang, "shell.not_there", "shell.not_there_next")
