"""Where the time of a step went: one bar, and a legend whose numbers add up to the step."""

from collections.abc import Mapping

from dash import html
from dash.development.base_component import Component

from vizdist.components.cards import swatch
from vizdist.i18n import Lang, t
from vizdist.i18n.units import micros, percentages

NAMED_FROM = 9.0  #: percent of the bar from which a part has room for its name


def split_bar(parts_ns: Mapping[str, int], lang: Lang) -> Component:
    shares = dict(zip(parts_ns, percentages([float(ns) for ns in parts_ns.values()]), strict=True))
    return html.Div(
        [
            html.Div([_part(name, shares[name], lang) for name in parts_ns], className="split-bar"),
            html.Div([_entry(name, ns, lang) for name, ns in parts_ns.items()], className="legend"),
        ]
    )


def _part(name: str, share: float, lang: Lang) -> Component:
    word = t(f"shell.class.{name}", lang)
    label = [html.B(word), html.Span(f"{share:.1f} %")] if share >= NAMED_FROM else None
    return html.Div(
        html.Span(label, className="on-chip") if label else None,
        className=f"part fill-{name}",
        style={"flexGrow": share},
        title=f"{word} {share:.1f} %",
    )


def _entry(name: str, ns: int, lang: Lang) -> Component:
    return html.Span([swatch(name), t(f"shell.class.{name}", lang), html.B(micros(ns))])
