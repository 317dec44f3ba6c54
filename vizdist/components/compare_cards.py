"""The cards of Compare: a column a run, and how far two of them are apart."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from dash import html
from dash.development.base_component import Component

from vizdist.analysis.bytes_moved import Pair, device_title, short_device_titles
from vizdist.analysis.compare import ComparedRun, Comparison, PathKey
from vizdist.analysis.mechanisms.text_table import listed
from vizdist.analysis.medians import LEAST
from vizdist.analysis.step_split import CLASSES
from vizdist.components.cards import Children, card, swatch
from vizdist.components.compare_words import fact_name
from vizdist.components.run_badge import run_badge
from vizdist.i18n import Lang, t
from vizdist.i18n.units import micros, size, tied

K = TypeVar("K", bound=Hashable)
PATH_ROWS = 6
PAIR_ROWS = 4
MOST_TASKS = 6
MOST_ROWS = 300  #: that are told when a table is opened


class Row(NamedTuple):
    """A line of a table of numbers, one a run."""

    head: Children
    numbers: tuple[int, ...]
    hue: str


def split_card(found: Comparison, lang: Lang) -> Component:
    """Where the step went, on the task that leads it."""
    runs = [run for run in found.runs if run.split]
    parts = [run.split.parts for run in runs if run.split]
    rows = [
        Row(_part(name, lang), tuple(one[name] for one in parts), name)
        for name in CLASSES
        if any(one[name] for one in parts)
    ]
    total = Row(t("compare.step", lang), tuple(run.took for run in runs), "")
    tasks = dict.fromkeys(run.split.task for run in runs if run.split)
    note = t("compare.split.note", lang, tasks=listed(tasks, lang)) if runs else ""
    body = _table(runs, [*rows, total], micros, lang) if runs else _nothing("steps", lang)
    own = _tasks(found, lang) if runs else []
    return card(t("compare.split.title", lang), [body, *own], name="split", note=note)


def _tasks(found: Comparison, lang: Lang) -> list[Component]:
    """The tasks whose steps take longer in one run than in another."""
    rows = [
        Row(one.task, tuple(median.ns if median else 0 for median in one.medians), "other")
        for one in found.tasks
        if one.differs
    ]
    title = html.H3(t("compare.tasks.title", lang))
    if not rows:
        are_few = not any(one.is_known for run in found.runs for one in run.steps.values())
        why = "few" if are_few else "alike"
        return [title, html.P(t(f"compare.tasks.{why}", lang, least=LEAST))]
    table = _table(found.runs, rows[:MOST_TASKS], _median, lang)
    return [title, table, *_rest(found.runs, rows[MOST_TASKS:], _median, lang)]


def _median(ns: float) -> str:
    return micros(ns) if ns else "–"


def path_card(found: Comparison, lang: Lang) -> Component:
    """What has more of the critical path in one run than in another, the largest first."""
    runs = [run for run in found.runs if run.path]
    title = t("compare.path.title", lang)
    if len(runs) < len(found.runs):
        letters = listed((run.letter for run in found.runs if not run.path), lang)
        return card(title, html.P(t("compare.path.none", lang, runs=letters)), name="path")
    every = _beside([run.path for run in runs])
    apart = sorted(every, key=lambda key: min(every[key]) - max(every[key]))
    apart = [key for key in apart if len(set(every[key])) > 1]
    rows = [Row(_path_head(key, lang), every[key], key.part) for key in apart[:PATH_ROWS]]
    total = Row(t("compare.path.total", lang), tuple(run.took for run in runs), "")
    body = _table(runs, [*rows, total], micros, lang)
    others = [Row(_path_words(key, lang), every[key], "") for key in apart[PATH_ROWS:MOST_ROWS]]
    rest = _rest(runs, others, micros, lang)
    note = t("compare.path.note", lang)
    return card(title, [body, *rest], name="path", note=note)


def bytes_card(found: Comparison, lang: Lang) -> Component:
    """Bytes a step: a bar a run, then from where to where."""
    most = max(run.moved.per_step for run in found.runs)
    bars = [_bytes_bar(run, most, lang) for run in found.runs]
    every = _beside([run.pairs for run in found.runs])
    ordered = sorted(every, key=lambda pair: -max(every[pair]))
    titles = short_device_titles(device for pair in ordered for device in pair)
    rows = [Row(_pair(pair, titles), every[pair], "send") for pair in ordered[:MOST_ROWS]]
    table = [_table(found.runs, rows[:PAIR_ROWS], _size, lang)] if rows else []
    rest = _rest(found.runs, rows[PAIR_ROWS:], _size, lang)
    bars_first = html.Div(bars, className="bytes-bars")
    note = t("compare.bytes.note", lang) if rows else ""
    body = [bars_first, *table, *rest]
    return card(t("compare.bytes.title", lang), body, name="bytes", note=note)


def _bytes_bar(run: ComparedRun, most: float, lang: Lang) -> Component:
    share = 100 * run.moved.per_step / most if most else 0
    bar = html.Span(className="fill-send", style={"width": f"{share:.1f}%"}) if share else None
    total = html.B(_size(run.moved.per_step) if run.moved.num_steps else "–")
    return html.Div([run_badge(run.letter), bar, total, *_bytes_notes(run, lang)])


def _bytes_notes(run: ComparedRun, lang: Lang) -> list[Component]:
    """Whether the total is that of a closed form, and what one device has of it."""
    moved = run.moved
    variables = str(size(moved.variable_bytes))
    formula = t("compare.bytes.formula", lang, variables=variables)
    why = t("compare.bytes.formula_says", lang)
    exact = [html.Small(formula, title=why)] if moved.matches_closed_form else []
    device, sent = moved.busiest
    values = {"bytes": _size(sent), "device": device_title(device)}
    busiest = [html.Small(t("compare.bytes.busiest", lang, **values))] if device else []
    return [*exact, *busiest]


def _part(name: str, lang: Lang) -> list[Component | str]:
    return [swatch(name), t(f"shell.class.{name}", lang)]


def _path_head(key: PathKey, lang: Lang) -> list[Component | str]:
    name = key.name or t(f"shell.class.{key.part}", lang)
    return [swatch(key.part), html.Span(name, title=_path_words(key, lang))]


def _path_words(key: PathKey, lang: Lang) -> str:
    word = t(f"shell.class.{key.part}", lang)
    return f"{key.name} · {word}" if key.name else word


def _pair(pair: Pair, titles: Mapping[str, str]) -> str:
    return " → ".join(titles[device] for device in pair)


def _size(num_bytes: float) -> str:
    return str(size(num_bytes)) if num_bytes else "0"


def _nothing(what: str, lang: Lang) -> Component:
    return html.P(t(f"compare.none.{what}", lang))


def _beside(tables: Sequence[Mapping[K, int]]) -> dict[K, tuple[int, ...]]:
    """The numbers of every key in all tables, 0 where it is not there."""
    every = dict.fromkeys(key for table in tables for key in table)
    return {key: tuple(table.get(key, 0) for table in tables) for key in every}


# ---- tables ----


def _table(
    runs: Sequence[ComparedRun], rows: Sequence[Row], said: Callable[[float], str], lang: Lang
) -> Component:
    """Of two runs also how far they are apart, as a bar to the left (less) or right (more)."""
    gaps = [_gap(row) for row in rows if row.hue]
    scale = min([0, *gaps]), max([0, *gaps])
    is_two = len(runs) == 2
    letters = {"first": runs[0].letter, "second": runs[-1].letter}
    gap = [html.Th(t("compare.gap", lang, **letters), scope="col")] if is_two else []
    badges = [html.Th(run_badge(run.letter), scope="col") for run in runs]
    body = [
        html.Tr(
            [
                html.Th(row.head, scope="row"),
                *(html.Td(said(number)) for number in row.numbers),
                *([html.Td(_gap_bar(row, scale, said))] if is_two else []),
            ],
            className="" if row.hue else "total",
        )
        for row in rows
    ]
    head = html.Thead(html.Tr([html.Td(), *badges, *gap]))
    return html.Table([head, html.Tbody(body)], className="beside")


def _rest(
    runs: Sequence[ComparedRun], rows: Sequence[Row], said: Callable[[float], str], lang: Lang
) -> list[Component]:
    """What a card has no room for, to be opened; as one text, as cells cost a browser much."""
    if not rows:
        return []
    cells = [[run.letter for run in runs], *([*map(said, row.numbers)] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    heads = ["", *(str(row.head) for row in rows)]
    lines = [
        "  ".join([*map(str.rjust, numbers, widths), head])
        for numbers, head in zip(cells, heads, strict=True)
    ]
    words = html.Summary(t("compare.more", lang, count=len(rows)))
    listing = html.Pre("\n".join(lines), tabIndex=0)
    return [html.Details([words, listing], className="more")]


def _gap(row: Row) -> int:
    return row.numbers[-1] - row.numbers[0]


def _gap_bar(row: Row, scale: tuple[int, int], said: Callable[[float], str]) -> Component:
    """`scale` is from the farthest below to the farthest above."""
    gap = _gap(row)
    sign = "+" if gap > 0 else "−" if gap < 0 else ""
    text = html.Span(f"{sign}{said(abs(gap))}")
    if not row.hue or not gap:
        return html.Div([text], className="gap")
    least, most = scale
    width, zero = (100 * ns / max(1, most - least) for ns in (abs(gap), -least))
    left = zero - width if gap < 0 else zero
    place = {"width": f"{width:.1f}%", "left": f"{left:.1f}%"}
    bar = html.Span(className=f"fill-{row.hue}", style=place)
    axis = html.Span(bar, className="gap-bar", style={"--zero": f"{zero:.1f}%"})
    return html.Div([text, axis], className="gap")


def _value(text: str) -> list[Component | str]:
    """A line may end after an underscore, and not between a number and its unit."""
    *heads, last = tied(text).split("_")
    return [*(piece for head in heads for piece in (f"{head}_", html.Wbr())), last]


def facts_card(found: Comparison, lang: Lang) -> Component:
    """What differs in a table; what is alike in a line."""
    differs = [fact for fact in found.facts if fact.differs]
    alike = [fact for fact in found.facts if not fact.differs]
    badges = [html.Th(run_badge(run.letter), scope="col") for run in found.runs]
    rows = [
        html.Tr(
            [
                html.Th(fact_name(fact, lang), scope="row"),
                *(html.Td(_value(value) if value else "–") for value in fact.values),
            ]
        )
        for fact in differs
    ]
    table = html.Table(
        [html.Thead(html.Tr([html.Td(), *badges])), html.Tbody(rows)], className="beside facts"
    )
    same = [f"{fact_name(fact, lang)} {fact.values[0]}" for fact in alike]
    words = t("compare.facts.alike", lang, facts=listed(same, lang))
    body = [*([table] if rows else []), *([html.P(words, className="more")] if same else [])]
    return card(t("compare.facts.title", lang), body, name="facts")
