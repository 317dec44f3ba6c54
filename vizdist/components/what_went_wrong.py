"""What a run opens with that failed, hung or was killed: cause, wave, and who was left waiting."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from dash import html
from dash.development.base_component import Component

from vizdist.analysis.mechanisms.leftovers import Alone
from vizdist.analysis.what_went_wrong import Echo, Unfinished, WhatWentWrong
from vizdist.analysis.wrong_report import (
    by_task,
    echoes_text,
    emptied_text,
    facts_of,
    fate_text,
    instant_text,
    outcome_text,
    waits_text,
)
from vizdist.components.cards import HIDDEN, Children, card, chip, icon, link
from vizdist.components.proof import proof
from vizdist.components.view import View
from vizdist.i18n import Lang, t
from vizdist.i18n.printable import printable
from vizdist.i18n.units import duration, tied

MOST = 6  #: rows of a table; `vizdist report` has all
LANES = 8
BINS = 20  #: places for marks along a lane; those that fall on one are one mark

Row = Sequence[Children]


def wrong_card(found: WhatWentWrong, view: View) -> Component:
    parts = [
        html.Div(
            [
                _facts(found, view),
                *_no_instant(found, view.lang),
                *_wave(found, view),
            ],
            className="wrong-cause",
        ),
        _beside(found, view),
        _part("unmet", _UNMET, [_unmet(one, found, view) for one in found.unmet], view.lang),
        _part(
            "unfinished", _OPEN, [_open(one, found, view) for one in found.unfinished], view.lang
        ),
        _part("absent", ("task", "address", "waited", "error"), _absent(found, view), view.lang),
        *_log(found, view.lang),
    ]
    body = html.Div([part for part in parts if part is not None], className="wrong-parts")
    return card(t("wrong.title", view.lang), body, name="wrong")


def _beside(found: WhatWentWrong, view: View) -> Component:
    """What became of the tasks and of their mailboxes."""
    seen = _part("seen", ("task", "outcome", "last"), _seen(found, view.lang), view.lang)
    parts = [*([seen] if seen else []), *_sentences(found, view)]
    return html.Div(parts, className="wrong-beside")


def _sentences(found: WhatWentWrong, view: View) -> Iterator[Component]:
    """Who waits in a circle for whom, and what became of the mailboxes, each with its proof."""
    lang = view.lang
    keys = [f"key:{each.key}" for each in (*found.waits.circle, *found.waits.waiting)]
    spans = [f"span:{each.span}" for each in found.emptied]
    told = (
        ("waits", waits_text(found, lang), "rendezvous", keys),
        ("emptied", emptied_text(found, lang), "timeline", spans),
    )
    for name, words, page, proofs in told:
        if words:
            way = proof(view, page, found.step, proofs[0])
            label = [html.Span(t(f"shell.pages.{page}", lang)), icon("right")]
            parts = [icon(page), html.Span(tied(words)), link(label, way, kind="button")]
            yield html.Div(parts, className=f"sentence {name}")


def wrong_chip(found: WhatWentWrong, lang: Lang) -> list[Component]:
    """The cause in a row of a list, and below it the op and its line."""
    words = t(f"analysis.cause.{found.cause.key}", lang, **found.cause.values).rstrip(".。")
    facts = facts_of(found)
    where = " · ".join(facts[name] for name in ("op", "source") if name in facts)
    if "stood" in facts:
        where = f"{t('wrong.fact.stood', lang)} {facts['stood']}"
    cause = chip([icon("warning"), html.Span(words)], kind="error")
    return [cause, *([html.Small(where)] if where else [])]


def _facts(found: WhatWentWrong, view: View) -> Component:
    """Op, task, address, step and line of the cause, and the two pages that show it."""
    lang = view.lang
    facts = [
        html.Div([html.Dt(t(f"wrong.fact.{name}", lang)), html.Dd(fact)])
        for name, fact in facts_of(found).items()
    ]
    places = [("timeline", f"span:{span}") for span in _first_span(found)]
    if found.root is not None:
        places.insert(0, ("graph", f"node:{found.root.node}"))
    ways = [
        link(
            [icon(page), t(f"shell.pages.{page}", lang)],
            proof(view, page, found.step, selection),
            kind="button",
        )
        for page, selection in places
    ]
    return html.Div([html.Dl(facts), html.Div(ways, className="ways")], className="wrong-facts")


def _no_instant(found: WhatWentWrong, lang: Lang) -> Iterator[Component]:
    if found.from_end:
        yield html.P(t("wrong.from_end", lang), className="wave-says")


def _first_span(found: WhatWentWrong) -> Iterator[str]:
    """The one to look at first, if there is any."""
    own = [found.root.span] if found.root else []
    others = (one.span for part in (found.unfinished, found.unmet, found.echoes) for one in part)
    yield from islice((*own, *others), 1)


def _wave(found: WhatWentWrong, view: View) -> Iterator[Component]:
    """A lane a task, the root's first; what failed for the cause stands where its time is."""
    if not found.echoes:
        return
    lanes = by_task(found.echoes)
    own = [found.task] if found.task else []
    tasks = [*own, *(task for task in lanes if task != found.task)]
    last = max(1, *(echo.after_ns for echo in found.echoes))
    says: list[Any] = [
        tied(echoes_text(found, view.lang)),
        html.Small(t("wrong.squares", view.lang)),
    ]
    yield html.P(says, className="wave-says")
    rows = [_lane(task, lanes.get(task, []), last, found, view) for task in tasks[:LANES]]
    axis = html.Div(
        [html.Span("0"), html.Span(str(duration(last / 2))), html.Span(str(duration(last)))],
        className="wave-axis",
        **HIDDEN,
    )
    yield html.Div([*rows, axis], className="wave")
    yield from _more(len(tasks) - LANES, view.lang)


def _lane(
    task: str, echoes: Sequence[Echo], last: int, found: WhatWentWrong, view: View
) -> Component:
    lang = view.lang
    marks = [_mark(here, place, lang) for place, here in _binned(echoes, last)]
    if task == found.task:
        name = found.root.node if found.root else t("wrong.origin", lang)
        marks.insert(0, html.Span(icon("close"), className="echo root", title=name))
    words: Children = html.B(task)
    if echoes:
        reached = instant_text(max(0, echoes[0].after_ns), lang)
        words = link(
            [html.B(task), html.Span(tied(reached))],
            proof(view, "timeline", found.step, f"span:{echoes[0].span}"),
        )
    return html.Div(
        [html.Div(words, className="wave-task"), html.Div(marks, className="wave-lane")],
        className="wave-row",
    )


def _binned(echoes: Iterable[Echo], last: int) -> Iterator[tuple[int, list[Echo]]]:
    """(place in percent, the echoes that fall on it)."""
    found: dict[int, list[Echo]] = {}
    for echo in echoes:
        found.setdefault(round(BINS * max(0, echo.after_ns) / last), []).append(echo)
    for place, here in found.items():
        yield round(100 * place / BINS), here


def _mark(here: Sequence[Echo], place: int, lang: Lang) -> Component:
    lines = [f"{one.name or one.kind}  {instant_text(one.after_ns, lang)}" for one in here]
    title = "\n".join(lines[:MOST])
    return html.Span(f"{len(here)}", className="echo", style={"left": f"{place}%"}, title=title)


def _part(name: str, columns: Sequence[str], rows: Sequence[Row], lang: Lang) -> Component | None:
    """A table with its heading; nothing where it has no rows."""
    if not rows:
        return None
    labels = [t(f"wrong.column.{column}", lang) for column in columns]
    body = [html.Tr(list(map(_cell, columns, labels, row))) for row in rows[:MOST]]
    table = html.Table(
        [html.Thead(html.Tr([html.Th(label, scope="col") for label in labels])), html.Tbody(body)]
    )
    more = _more(len(rows) - MOST, lang)
    title = html.H3(t(f"wrong.{name}", lang))
    return html.Div([title, html.Div(table, **_SCROLLS), *more], className=f"wrong-part {name}")


def _more(count: int, lang: Lang) -> Iterator[Component]:
    if count > 0:
        yield html.P(t("wrong.more", lang, count=count))


def _cell(column: str, label: str, content: Children) -> Component:
    """On a phone its heading stands beside it."""
    attributes: dict[str, Any] = {"data-label": label}
    return html.Td(html.Div(content), className=f"wrong-{column}", **attributes)


_SCROLLS: dict[str, Any] = {"className": "wrong-table", "data-scrolls": "x"}
_UNMET = ("waits", "tensor", "other", "since", "waited", "why")
_OPEN = ("task", "span", "began", "open")


def _unmet(one: Alone, found: WhatWentWrong, view: View) -> Row:
    lang = view.lang
    value = link(one.maker, proof(view, "rendezvous", found.step, f"key:{one.key}"))
    return (
        one.task,
        [value, html.Code(_breakable(one.key))],
        one.other,
        tied(str(duration(one.since_ns))),
        tied(str(duration(one.waited_ns))),
        fate_text(one, lang),
    )


def _breakable(key: str) -> list[Component | str]:
    """A line may end after each part of a key."""
    first, *parts = key.split(";")
    return [first, *(piece for part in parts for piece in (";", html.Wbr(), part))]


def _open(one: Unfinished, found: WhatWentWrong, view: View) -> Row:
    where = proof(view, "timeline", found.step, f"span:{one.span}")
    name = link([html.B(one.name or one.kind), html.Span(one.kind)], where)
    began = tied(instant_text(one.since_ns, view.lang))
    return one.task, name, began, tied(str(duration(one.open_ns)))


def _absent(found: WhatWentWrong, view: View) -> list[Row]:
    return [
        (
            link(one.task, proof(view, "timeline", 0, f"span:{one.span}")),
            one.address,
            tied(str(duration(one.waited_ns))),
            one.error,
        )
        for one in found.absent
    ]


def _seen(found: WhatWentWrong, lang: Lang) -> list[Row]:
    rows: list[Row] = []
    for one in found.seen:
        bad = one.outcome in ("failed", "killed", "lost")
        words = outcome_text(one, lang)
        ended: Children = html.Span([icon("warning"), words], className="bad") if bad else words
        rows.append((html.B(one.task), ended, tied(instant_text(one.after_ns, lang))))
    return rows


def _log(found: WhatWentWrong, lang: Lang) -> Iterator[Component]:
    if found.log:
        lines = "\n".join(map(printable, found.log))
        title = html.Summary(t("wrong.log", lang, task=found.task))
        yield html.Details([title, html.Pre(lines)], className="wrong-log")
