"""create_app: theme, language, pages and routes put together; nothing is computed here."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from dash import Dash
from fastapi import FastAPI

from vizdist.components import frame, shell
from vizdist.components.view import Page, page_of, view_of
from vizdist.pages import (
    collectives,
    compare,
    data,
    graph,
    reference,
    rendezvous,
    replay,
    strategy,
    summary,
    timeline,
    variables,
)
from vizdist.pages import library as library_page
from vizdist.routes.access import PAGE_HEADER, Access, page_token
from vizdist.routes.assets import assets_folder, modules_of, style_routes, version_of
from vizdist.routes.graph import graph_routes
from vizdist.routes.library_live import library_live_routes
from vizdist.routes.live import live_routes
from vizdist.routes.replay import replay_routes
from vizdist.routes.runs import run_routes
from vizdist.routes.search import search_routes
from vizdist.routes.security import Guard, content_policy
from vizdist.routes.sql import sql_routes
from vizdist.routes.timeline import timeline_routes
from vizdist.routes.traces import add_error_answers, trace_routes
from vizdist.routes.upload import upload_routes
from vizdist.store.index import cache_folder
from vizdist.store.library import Library

PAGES: tuple[Page, ...] = (
    library_page, summary, graph, timeline, replay, rendezvous, strategy, collectives, variables,
    data, compare, reference,
)  # fmt: skip

_INDEX = """<!DOCTYPE html>
<html lang="en" data-theme="light">
  <head>
    {%metas%}
    <title>{%title%}</title>
    <link rel="icon" type="image/svg+xml" href="ASSETSmark.svg">
    <script src="ASSETSboot.js" MODULES></script>
    <link rel="stylesheet" href="ASSETSstyle.css">
    {%css%}
  </head>
  <body>
    {%app_entry%}
    {%config%}{%scripts%}{%renderer%}
  </body>
</html>"""


#: Scripts that every page runs; a page's own has its name.
_FRAME_SCRIPTS = ("selection.mjs", "shell.mjs")

_WITH_CHARTS = (summary, data, compare)

#: Scripts of Dash that no page uses: those for browsers of long ago, and a table.
_UNUSED = re.compile(r'<script src="[^"]*/(?:polyfill@|dash_table/)[^"]*"></script>\n?')


class _Dashboard(Dash):
    """Dash less what a page would wait for and not use."""

    def interpolate_index(self, **parts: str) -> str:  # type: ignore[override]
        parts["scripts"] = _UNUSED.sub("", parts["scripts"])
        return super().interpolate_index(**parts)  # type: ignore[no-untyped-call,no-any-return]


def create_app(library: Library, *, url_prefix: str = "/", viewer_token: str = "") -> FastAPI:
    """The dashboard over a library of traces, as an ASGI application.

    With `viewer_token` others than this machine may ask, if they show it.
    """
    access = Access(page_token(cache_folder()), viewer_token)
    folder = assets_folder()
    assets_path = f"assets/{version_of(folder)}"
    server = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    server.include_router(style_routes(folder, assets_path))  # before Dash takes the folder
    app = _Dashboard(
        __name__,
        server=cast("Any", server),
        assets_folder=str(folder),
        assets_url_path=assets_path,
        assets_ignore=r"\.(mjs|css)$|^boot\.js$",
        requests_pathname_prefix=url_prefix,
        title="vizdist",
        update_title="",
        add_log_handler=False,
        suppress_callback_exceptions=True,
        csrf_token_name=access.page_cookie,
        csrf_header_name=PAGE_HEADER,
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
    )
    app.backend.websocket_capability = False  # else each page keeps a worker and a socket for it
    scripts = {page.NAME: modules_of(folder, [f"{page.NAME}.mjs"]) for page in PAGES}
    scripts["frame"] = modules_of(folder, _FRAME_SCRIPTS)
    scripts["charts"] = [page.NAME for page in _WITH_CHARTS]
    app.index_string = _index(app.get_asset_url(""), scripts)
    shown = frame.Frame(library, PAGES)
    app.layout = partial(frame.layout, app, shown)
    shell.register(app)
    for page in PAGES:
        page.register(app, library)
    frame.register(app, shown)
    server.include_router(trace_routes(library))
    server.include_router(graph_routes(library))
    server.include_router(timeline_routes(library))
    server.include_router(replay_routes(library))
    server.include_router(live_routes(library))
    server.include_router(sql_routes(library))
    server.include_router(library_live_routes(library))
    server.include_router(search_routes(library))
    server.include_router(upload_routes(library))
    server.include_router(run_routes(library))
    add_error_answers(server)
    server.add_middleware(
        Guard,
        prefix=url_prefix,
        kept=f"/{assets_path}/",
        policy=content_policy(app.csp_hashes()),
        access=access,
        is_page=lambda path: page_of(PAGES, view_of({"path": path, "lang": "en"})) is not None,
    )
    return server


def _index(assets_url: str, scripts: Mapping[str, Sequence[str]]) -> str:
    """The one document; assets/boot.js fetches the scripts of the page that is asked for."""
    names = " ".join(f'data-{name}="{" ".join(modules)}"' for name, modules in scripts.items())
    return _INDEX.replace("ASSETS", assets_url).replace("MODULES", names)
