"""Sentences and tables of the Variables page: copies and their prints, what each policy does."""

from collections.abc import Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from vizdist.analysis.variables import (
    NONE,
    Access,
    Copy,
    Variable,
    by_number,
    held_by,
    missed_counts,
    places_of,
    read_of,
)
from vizdist.components.cards import Children, chip, icon, rich, says
from vizdist.i18n import Lang, t
from vizdist.i18n.units import size

MOST_NAMED = 3  #: variables in the headline
MOST_PLACES = 8  #: side by side; more would leave no room for prints

#: What two replicas that assign 1 and 2 leave behind, as TensorFlow has it: the copies, what a read
#: from outside of them gives. "" is an error.
POLICIES: Sequence[tuple[str, tuple[str, str], tuple[str, str]]] = (
    ("NONE", ("1, 2", "1"), ("1, 2", "")),
    ("SUM", ("3, 3", "3"), ("1, 2", "3")),
    ("MEAN", ("1.5, 1.5", "1.5"), ("1, 2", "1.5")),
    ("ONLY_FIRST_REPLICA", ("1, 1", "1"), ("1, 2", "1")),
)


def headline(found: Sequence[Variable], lang: Lang) -> Children:
    """Whether copies agree; of variables with one copy each, where they lie."""
    told = [one for one in found if one.agrees is not None]
    untold = sum(one.is_copied and one.agrees is None for one in found)
    if told:
        rest = rich("variables.head.and_untold", lang, count=untold) if untold else []
        return [*_agreement(told, lang), "" if lang == "zh" else " ", *rest]
    places = places_of(found)
    if untold:
        return rich("variables.head.untold", lang, count=untold, places=len(places))
    total = sum(one.bytes for one in found)
    values = {"count": len(found), "bytes": size(total)}
    if len(places) == 1:
        return rich("variables.head.one_place", lang, place=places[0], **values)
    most = max(places, key=lambda place: held_by(found, place))
    share = f"{100 * held_by(found, most) / total:.0f}" if total else "0"
    return rich("variables.head.placed", lang, places=len(places), most=most, share=share, **values)


def _agreement(told: Sequence[Variable], lang: Lang) -> list[Component | str]:
    parted = [one for one in told if one.has_parted]
    own = sum(not one.agrees for one in told) - len(parted)
    counts = {"count": sum(bool(one.agrees) for one in told), "differ": own}
    if not parted:
        return rich(f"variables.head.{'read' if own else 'equal'}", lang, **counts)
    total = len(parted) + counts["count"]
    says = rich("variables.head.parted", lang, parted=len(parted), total=total)
    ways = [_chooses(one.name, one, className="button") for one in parted[:MOST_NAMED]]
    return [*says, *(part for way in ways for part in (" ", way))]


def copies_table(found: Sequence[Variable], shown: str, lang: Lang) -> Component:
    """A row a variable, a column a place; equal bytes have equal prints, joined by a bar."""
    every = places_of(found)
    places = sorted(every[:MOST_PLACES], key=by_number)
    left = len(every) - len(places)
    more = [html.Th(t("variables.copies.more", lang, count=left), scope="col")] if left else []
    has_copies = any(one.is_copied for one in found)
    read = [html.Th(t("variables.copies.read", lang), scope="col")] if has_copies else []
    head = html.Tr([html.Td(), *(html.Th(place, scope="col") for place in places), *more, *read])
    rows = [
        html.Tr(
            [
                _name(one, one.copies[0].name == shown, lang),
                *_cells(one, places, lang),
                *([html.Td()] if more else []),
                *([html.Td(_read(one, lang), className="read")] if read else []),
            ],
            className={True: "equal", False: "apart", None: ""}[one.agrees],
        )
        for one in found
    ]
    held = [html.Td(str(size(held_by(found, place)))) for place in places]
    foot = html.Tr([html.Th(t("variables.copies.held", lang), scope="row"), *held])
    label = says(t("variables.copies.title", lang))
    parts = [html.Thead(head), html.Tbody(rows), html.Tfoot(foot)]
    return html.Table(parts, className="copies-table", **label)


def _name(one: Variable, is_shown: bool, lang: Lang) -> Component:
    shape = "×".join(map(str, one.shape)) or t("variables.copies.scalar", lang)
    rule = f" · {one.synchronization} · {one.aggregation}" if one.synchronization else ""
    words = [html.B(one.name), html.Small(f"{shape} · {size(one.bytes)}{rule}")]
    if one.has_parted:
        mark = chip([icon("warning"), t("variables.copies.parted", lang)], kind="error")
        words.append(mark)
    pressed: dict[str, Any] = {"aria-pressed": str(is_shown).lower()}
    return html.Th(_chooses(words, one, className="variable", **pressed), scope="row")


def _chooses(words: Children, one: Variable, **attributes: Any) -> Component:
    """A button that chooses the variable."""
    return html.Button(words, type="button", **{"data-variable": one.copies[0].name, **attributes})


def _cells(one: Variable, places: Sequence[str], lang: Lang) -> list[Component]:
    by_place = {copy.place: copy for copy in one.copies}
    return [_cell(by_place.get(place), lang) for place in places]


def _read(one: Variable, lang: Lang) -> Children:
    """What a read from outside of replicas gives."""
    given = read_of(one)
    if isinstance(given, float):
        return html.B(f"{given:.4g}")
    if isinstance(given, str):
        if given == NONE:
            return html.Span("ValueError", className="no-read")
        return t(f"variables.read.{given.lower()}", lang)
    if given.scalar is not None:
        return html.B(f"{given.scalar:.4g}")
    return _print(given.print, lang) if given.print else "–"


def _print(text: str, lang: Lang) -> Component:
    shown: dict[str, Any] = {"data-print": text, "role": "img"}
    label = t("variables.copies.print", lang, print=text)
    return html.Span(className="print", title=label, **says(label, **shown))


def _cell(copy: Copy | None, lang: Lang) -> Component:
    if copy is None:
        return html.Td(className="none")
    version = t("variables.copies.version", lang, version=copy.version) if copy.version >= 0 else ""
    value = f"{copy.scalar:.4g}" if copy.scalar is not None else ""
    told = html.Small(" · ".join(filter(None, (value, version))))
    if not copy.print:
        return html.Td(html.Span([html.Span(className="no-print"), told], className="copy"))
    return html.Td(html.Span([_print(copy.print, lang), told], className="copy"))


def policy_table(lang: Lang) -> Component:
    """What two replicas that assign 1 and 2 leave behind under each policy."""
    top = [html.Th(t("variables.policy.aggregation", lang), rowSpan=2, scope="col")]
    top += [html.Th(name, colSpan=2, scope="colgroup") for name in ("ON_WRITE", "ON_READ")]
    below = [html.Th(t(f"variables.policy.{name}", lang), scope="col")
             for name in ("copies", "read") * 2]  # fmt: skip
    rows = [
        html.Tr([html.Th(name, scope="row"),
                 *(html.Td(text or html.Span("ValueError", className="no-read"))
                   for text in (*write, *read))])
        for name, write, read in POLICIES
    ]  # fmt: skip
    parts = [html.Thead([html.Tr(top), html.Tr(below)]), html.Tbody(rows)]
    return html.Table(parts, className="calls-table policy-table")


def stairs_sentence(found: Sequence[Access], one: Variable, lang: Lang) -> Children:
    """How many applies missed versions that others had made since their read; of its first copy."""
    variable = one.name
    if len(one.copies) > 1:
        place = one.copies[0].place
        variable = t("variables.stairs.copy", lang, variable=one.name, place=place)
    applies = [one for one in found if one.kind == "apply"]
    late = [one for one in applies if one.missed]
    clients = t("variables.stairs.clients", lang, count=len({one.client for one in found}))
    values = {"variable": variable, "count": len(applies), "clients": clients}
    if not applies:
        return rich("variables.stairs.none", lang, **values)
    if not late:
        return rich("variables.stairs.fresh", lang, **values)
    most = max(one.missed for one in late)
    return rich("variables.stairs.stale", lang, late=f"{len(late):,}", most=most, **values)


def staleness_bars(found: Sequence[Access], lang: Lang) -> list[Component]:
    """A bar for each number of versions missed: how many updates missed so many."""
    counts = missed_counts(found)
    most = max(counts, default=0)
    head = html.Div(t("variables.missed.title", lang), className="missed-head")
    rows = [_missed_row(number, count, most, lang) for number, count in enumerate(counts)]
    return [head, html.Div(rows, className="missed-rows")] if rows else []


def _missed_row(missed: int, count: int, most: int, lang: Lang) -> Component:
    told = t("variables.missed.row", lang, count=count, missed=missed)
    width = {"width": f"{100 * count / most:.1f}%"}
    fill = html.Span(className="fill-update", style=width) if count else None
    bar = html.Span(fill, className="missed-bar")
    cells = [html.Span(str(missed)), bar, html.B(f"{count:,}")]
    return html.Div(cells, className="missed-row", title=told)
