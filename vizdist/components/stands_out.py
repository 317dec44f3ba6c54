"""What of a run stands out, as a list: a click shows it. assets/timeline_findings.mjs listens."""

from collections.abc import Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from vizdist.analysis.stands_out import StandOut
from vizdist.components.cards import HIDDEN
from vizdist.i18n import Lang, catalogue, t
from vizdist.i18n.units import tied


def stands_out_list(found: Sequence[StandOut], lang: Lang) -> list[Component]:
    """Nothing where nothing stands out."""
    if not found:
        return []
    rows = [html.Li(_row(number, one, lang)) for number, one in enumerate(found)]
    title: list[Any] = [
        t("timeline.stands_out.title", lang),
        html.Small(t("timeline.stands_out.says", lang)),
    ]
    return [html.Div([html.H2(title), html.Ol(rows)], className="stands-out")]


def _row(number: int, one: StandOut, lang: Lang) -> Component:
    sentence = said(one, lang)
    count, key = one.num_steps, "often" if one.num_steps > 1 else "step"
    where = t(f"timeline.stands_out.{key}", lang, step=f"{one.step.number:,}", count=count)
    how_often = t("timeline.stands_out.often_says", lang, count=count) if count > 1 else None
    data: dict[str, Any] = {
        "data-stand-out": one.id,
        "data-step": str(one.step.number),
        "data-task": one.step.task,
        "title": sentence,
    }
    words = [
        html.Span(str(number + 1), className="flag", **HIDDEN),
        html.Span(tied(sentence), className="cut"),
        html.Span(tied(where), className="hint", title=how_often),
    ]
    return html.Button(words, type="button", **data)


def said(one: StandOut, lang: Lang) -> str:
    """The sentence of a row."""
    if one.stall is not None:
        return t(f"timeline.canvas.stall.{one.key}", lang, **one.values)
    return slow_step(one.key, lang).format(**one.values)


def slow_step(key: str, lang: Lang) -> str:
    """What took so much longer and why, with its values yet to be filled in."""
    texts = catalogue(lang)
    return t("timeline.stands_out.both", lang, **{
        part: texts[f"analysis.look.{key}.{part}"] for part in ("says", "remedy")
    })  # fmt: skip
