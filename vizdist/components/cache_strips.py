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
    used = {cell for strip in found.strips for cell in strip.cells}
    legend = [
        html.Span([_mark(cell), t(f"rendezvous.cell.{cell or 'none'}", lang)])
        for cell in LEGEND
        if cell in used
    ]
    rows = [_row(strip, found.steps, current, lang) for strip in found.strips]
    return [
        html.Table(html.Tbody(rows), className="caches-table"),
        html.Div(legend, className="legend"),
    ]


def _row(strip: Strip, steps: Sequence[int], current: int, lang: Lang) -> Component:
    name = strip.cache
    title = t(f"rendezvous.cache.{name}", lang) if name in ORDER else name.replace("_", " ")
    cells = _cells(strip, steps, current, lang) if strip.cells else _shares(strip)
    counts = t("rendezvous.caches.counts", lang, misses=f"{strip.misses:,}", hits=f"{strip.hits:,}")
    if name == "rendezvous":
        counts = f"{counts}, {t('rendezvous.caches.by_design', lang)}"
    return html.Tr([html.Th(title, scope="row"), html.Td(cells), html.Td(counts)])


def _cells(strip: Strip, steps: Sequence[int], current: int, lang: Lang) -> Component:
    drawn = [
        _mark(cell, t(f"rendezvous.cell.{cell or 'none'}_in", lang, step=f"{step:,}"),
              is_current=step == current)
        for step, cell in zip(steps, strip.cells, strict=True)
    ]  # fmt: skip
    missed = [f"{step:,}" for step, cell in zip(steps, strip.cells, strict=True) if cell == "miss"]
    key = "missed_in" if missed else "missed_none"
    words = t(f"rendezvous.caches.{key}", lang, steps=", ".join(missed))
    return html.Span([*drawn, html.Span(words, className="unseen")], className="cells")


def _mark(cell: Cell, title: str = "", *, is_current: bool = False) -> Component:
    kind = f"cell {cell or 'idle'}{' current' if is_current else ''}"
    return html.Span(className=kind, title=title or None, **HIDDEN)


def _shares(strip: Strip) -> Component:
    """What is only counted: misses, then hits, as parts of all lookups."""
    parts: list[Component] = []
    for cell, count in (("miss", strip.misses), ("hit", strip.hits)):
        style: dict[str, Any] = {"flexGrow": count}
        if count:
            parts.append(html.Span(className=f"cell {cell}", style=style, **HIDDEN))
    return html.Span(parts, className="cells shares")
