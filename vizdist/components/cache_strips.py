"""Caches over steps: a hollow cell is a miss, a full one a hit; the counts stand beside it."""

from collections.abc import Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from vizdist.analysis.cache_strips import ORDER, CacheStrips, Cell, Strip
from vizdist.components.cards import HIDDEN
from vizdist.i18n import Lang, t

LEGEND: tuple[Cell, ...] = ("miss", "hit", "counted", "")


def cache_strips_table(found: CacheStrips, current: int, lang: Lang) -> list[Component]:
    if not found.strips:
        return [html.P(t("rendezvous.caches.none", lang), className="hint")]
    used = {cell for strip in found.strips if any(strip.cells) for cell in strip.cells}
    legend = [
        html.Span([_mark(cell), t(f"rendezvous.cell.{cell or 'none'}", lang)])
        for cell in LEGEND
        if cell in used
    ]
    rows = [_row(strip, found.steps, lang) for strip in found.strips]
    body = html.Tbody([_numbers(found.steps, current), *rows])
    apart = " apart" if found.is_apart else ""
    return [
        html.Table(body, className=f"caches-table{apart}"),
        html.Div(legend, className="legend"),
    ]


def _numbers(steps: Sequence[int], current: int) -> Component:
    """Which column is which step: the first, the last, and the one that is looked at."""
    told = {steps[0], steps[-1]} - {current - 1, current + 1} | {current}
    cells = [
        html.Span(
            html.Span(f"{step:,}" if step in told else ""),
            className=f"step-number{' current' if step == current else ''}",
        )
        for step in steps
    ]
    return html.Tr([html.Th(), html.Td(html.Span(cells, className="cells")), html.Td()], **HIDDEN)


def _row(strip: Strip, steps: Sequence[int], lang: Lang) -> Component:
    name = strip.cache
    title = t(f"rendezvous.cache.{name}", lang) if name in ORDER else name.replace("_", " ")
    cells = _cells(strip, steps, lang) if strip.cells else _shares(strip)
    numbers = {"misses": f"{strip.misses:,}", "hits": f"{strip.hits:,}"}
    key = "counts" if strip.misses or strip.hits else "never"
    counts = t(f"rendezvous.caches.{key}", lang, **numbers)
    if name == "rendezvous":
        counts = t("rendezvous.caches.by_design", lang, counts=counts)
    return html.Tr([html.Th(title, scope="row"), html.Td(cells), html.Td(counts)])


def _cells(strip: Strip, steps: Sequence[int], lang: Lang) -> Component:
    if not any(strip.cells):
        return html.Span(t("rendezvous.cell.none", lang), className="hint")
    drawn = [
        _mark(cell, t(f"rendezvous.cell.{cell or 'none'}_in", lang, step=f"{step:,}"))
        for step, cell in zip(steps, strip.cells, strict=True)
    ]
    missed = [f"{step:,}" for step, cell in zip(steps, strip.cells, strict=True) if cell == "miss"]
    key = "missed_in" if missed else "missed_none"
    words = t(f"rendezvous.caches.{key}", lang, steps=", ".join(missed))
    return html.Span([*drawn, html.Span(words, className="unseen")], className="cells")


def _mark(cell: Cell, title: str = "") -> Component:
    return html.Span(className=f"cell {cell or 'idle'}", title=title or None, **HIDDEN)


def _shares(strip: Strip) -> Component:
    """What is only counted: misses, then hits, as parts of all lookups."""
    parts: list[Component] = []
    for cell, count in (("miss", strip.misses), ("hit", strip.hits)):
        style: dict[str, Any] = {"flexGrow": count}
        if count:
            parts.append(html.Span(className=f"cell {cell}", style=style, **HIDDEN))
    return html.Span(parts, className="cells shares")
