"""The selection strip: what is selected, its facts, and the pages where it is lit."""

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from vizdist.analysis.described import Described, describe
from vizdist.analysis.scopes import said
from vizdist.analysis.selection import Selection
from vizdist.analysis.steps import step_facts
from vizdist.components.cards import button, icon, link
from vizdist.components.shell import missing
from vizdist.components.view import Page, View
from vizdist.i18n import Lang, t
from vizdist.i18n.units import micros, size
from vizdist.store.trace import Trace

_ICONS = {"edge": "wire", "key": "wire", "link": "wire", "rpc": "wire"}


def strip(
    trace: Trace | None, sel: Selection | None, step: int | None, view: View, pages: Sequence[Page]
) -> list[Component]:
    """Nothing selected: the step itself stands here, as the thing all views show."""
    lang = view.lang
    if trace is None or (sel is None and step is None):
        is_several = view.page == "compare"
        words = "none_of_one" if is_several else "none" if trace is not None else "none_open"
        return [html.Span(t(f"shell.{words}", lang), className="hint")]
    close = [button("clear", t("shell.close", lang), icon("close"))] if sel else []
    name, title, facts = _said(trace, sel, step, lang)
    return [
        html.Span([icon(name), html.Span(title, className="cut")], className="selected"),
        html.Span(facts, className="facts"),
        html.Span(className="space"),
        *_lit_in(trace, view, pages),
        *(_steppers(lang) if step is not None else []),
        *close,
    ]


def _said(
    trace: Trace, sel: Selection | None, step: int | None, lang: Lang
) -> tuple[str, str, str]:
    """(icon, title, facts) of the selection, or of the step when there is none."""
    if sel is not None:
        if folded := said(sel["id"]):
            family = [t(f"graph.family.{folded.family}", lang)] if folded.family else []
            facts = " · ".join([*family, folded.where])
            return _ICONS.get(sel["type"], "op"), folded.title, facts
        found = describe(trace, sel, step)
        facts = _facts(found, lang) if found else t("shell.not_in_run", lang)
        return _ICONS.get(sel["type"], "op"), found.title if found else sel["id"], facts
    number = step or 0
    duration, count = step_facts(trace, number)
    facts = t("shell.step_facts", lang, duration=micros(duration), count=count)
    return "clock", t("shell.header.step", lang, step=f"{number:,}"), facts


def _facts(found: Described, lang: Lang) -> str:
    """Op · where · when in its step · which step; only what is known."""
    when = f"{micros(found.start_ns)}–{micros(found.end_ns)} µs"
    step = t("shell.header.step", lang, step=f"{found.step:,}") if found.step else ""
    moved = str(size(found.bytes)) if found.bytes else ""
    often = t("shell.runs", lang, count=found.runs) if found.runs > 1 else ""
    parts = (found.op or found.kind, found.task, moved, when, often, step)
    return " · ".join(part for part in parts if part)


def _steppers(lang: Lang) -> list[Component]:
    """On a phone the header has no room for them."""
    return [
        button("previous", t("shell.header.previous_step", lang), icon("left")),
        button("next", t("shell.header.next_step", lang), icon("right")),
    ]


def _lit_in(trace: Trace, view: View, pages: Sequence[Page]) -> list[Component]:
    """The other pages of the run that have something to show of it."""
    others = [
        page
        for page in pages
        if "{trace}" in page.PATH and view.page != page.NAME and not missing(page.NAME, trace)
    ]
    links = [
        link(
            [icon(page.NAME), html.Span(t(f"shell.pages.{page.NAME}", view.lang))],
            view.href(page.PATH),
            kind="button",
            title=t(f"shell.pages.{page.NAME}", view.lang),
        )
        for page in others
    ]
    return (
        [html.Span(t("shell.also_lit", view.lang), className="hint wide"), *links] if links else []
    )
