"""Opening a trace file from the viewer's disk: a place to drop it, which is a button too."""

from typing import Any

from dash import Dash, Input, Output, html
from dash.development.base_component import Component

from vizdist.components.callbacks import clientside
from vizdist.components.cards import icon
from vizdist.i18n import Lang, t
from vizdist.routes.upload import BODY_BYTES
from vizdist.store.library import FILE_SUFFIXES


def opener(lang: Lang) -> Component:
    """assets/upload.mjs sends what is dropped or chosen, and goes to the trace it became."""
    limit = BODY_BYTES >> 20
    words: dict[str, Any] = {
        f"data-{name}": t(f"upload.{name}", lang, limit=limit)
        for name in ("sending", "large", "unreachable", "refused")
    }
    words["data-limit"] = str(BODY_BYTES)
    chooses: dict[str, Any] = {"data-choose": ",".join((*FILE_SUFFIXES, ".gz"))}
    return html.Div(
        [
            icon("open"),
            html.Div(
                [
                    html.B(t("upload.drop", lang)),
                    html.Span(t("upload.formats", lang, limit=limit)),
                ],
                className="opener-words",
            ),
            html.Button(
                t("upload.choose", lang),
                className="button",
                type="button",
                **chooses,
            ),
            html.Output(id="upload-says", className="opener-says", **words),
        ],
        className="opener",
    )


def register(app: Dash) -> None:
    """The browser listens from the moment the place is there."""
    clientside(
        app, "upload.mjs", "start", Output("upload-says", "title"), Input("upload-says", "id")
    )
