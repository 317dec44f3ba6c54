"""Calls by method and pair of tasks: how many, how long at their caller, how many bytes."""

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from vizdist.analysis.call_sequence import RECV
from vizdist.analysis.mechanisms.calls import Method
from vizdist.figures.call_lines import method_title, time_text
from vizdist.i18n import Lang, t
from vizdist.i18n.units import size

COLUMNS = ("method", "count", "p50", "p95", "bytes", "errors")


def call_table(methods: Sequence[Method], lang: Lang) -> Component:
    if not methods:
        return html.P(t("rendezvous.calls.none", lang), className="hint")
    head = html.Tr([html.Th(t(f"rendezvous.column.{c}", lang), scope="col") for c in COLUMNS])
    return html.Table(
        [html.Thead(head), html.Tbody([_row(one, lang) for one in methods])],
        className="calls-table",
    )


def _row(one: Method, lang: Lang) -> Component:
    times = ["–" if ns is None else time_text(ns) for ns in (one.p50_ns, one.p95_ns)]
    key = "asks" if one.method == RECV else "calls"
    who = t(f"rendezvous.calls.{key}", lang, client=one.client, server=one.server or "?")
    failed = "failed" if one.errors else ""
    return html.Tr(
        [
            html.Th(
                [html.B(method_title(one.method)), html.Small(who)],
                scope="row",
            ),
            html.Td(f"{one.count:,}"),
            *(html.Td(time) for time in times),
            html.Td(str(size(one.bytes)) if one.bytes else "–"),
            html.Td(f"{one.errors:,}" if one.errors else "–", className=failed),
        ]
    )
