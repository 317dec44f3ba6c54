"""Sentences and tables of the Strategy page."""

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from vizdist.analysis.replicas import ROLES, Build, Mechanisms, Work, names_of
from vizdist.analysis.variables import Variable
from vizdist.components.cards import Children, icon, link, rich
from vizdist.components.view import View
from vizdist.figures.call_lines import time_text
from vizdist.i18n import Lang, t
from vizdist.i18n.units import size
from vizdist.store.trace import StepInfo, Trace


def headline(
    trace: Trace,
    made: Sequence[Build],
    rows: Sequence[Work],
    found: Sequence[Variable],
    lang: Lang,
) -> Children:
    """A variable counts once, however many copies of it there are, as on its own page."""
    strategy = trace.manifest.strategy or t("strategy.unnamed", lang)
    holders = sum(row.variables > 0 for row in rows)
    copies = sum(len(one.copies) for one in found)
    values = {"strategy": strategy, "devices": len(rows), "holders": holders, "count": len(found)}
    if made:
        replicas, graphs = sum(len(build.replicas) for build in made), len(made)
        key = f"strategy.head.{'turns' if graphs == 1 else 'graphs'}"
        return rich(key, lang, replicas=replicas, graphs=graphs, **values)
    key = "copied" if copies > len(found) else "plain"
    return rich(f"strategy.head.{key}", lang, copies=copies, **values)


def facts(trace: Trace, requests: Sequence[StepInfo], lang: Lang) -> list[Component]:
    steps = {step.number for step in trace.steps}
    found = [
        ("clients", f"{len(requests):,}"),
        ("steps", f"{len(steps):,}"),
        ("step_time", time_text(max(step.duration for step in requests))),
    ]
    return [
        html.Div([html.Dt(t(f"strategy.fact.{name}", lang)), html.Dd(value)])
        for name, value in found
    ]


def build_sentence(made: Sequence[Build], lang: Lang) -> Children:
    if not made:
        return rich("strategy.build.none", lang)
    merges = sum(one.merges for one in made)
    together = sum(one.together for one in made)
    counts = {"turns": sum(len(one.turns) for one in made) - merges, "count": merges}
    counts |= {"replicas": sum(len(one.replicas) for one in made)}
    key = "strategy.build.together" if together else "strategy.build.says"
    told = rich(key, lang, together=together, **counts)
    if len(made) == 1:
        return told
    return [*told, " ", t("strategy.build.graphs", lang, count=len(made), task=made[0].task)]


def roles_table(rows: Sequence[Work], lang: Lang) -> Component:
    """Which nodes run where, how many variables a device holds, how long it was at work."""
    columns = ("device", "variables", *ROLES, "busy")
    head = html.Tr([html.Th(t(f"strategy.column.{name}", lang), scope="col") for name in columns])
    body = [html.Tr([html.Th(_where(row, rows), scope="row"), *_cells(row)]) for row in rows]
    return html.Table([html.Thead(head), html.Tbody(body)], className="calls-table roles-table")


def _where(row: Work, rows: Sequence[Work]) -> list[Component]:
    first, rest = names_of(row, rows)
    return [html.B(first), html.Small(rest)]


def _cells(row: Work) -> list[Component]:
    held = [html.B(f"{row.variables:,}"), html.Small(str(size(row.variable_bytes)))]
    counts = [html.Td(f"{row.nodes[role]:,}" if row.nodes[role] else "–") for role in ROLES]
    variables = html.Td(held if row.variables else "–")
    return [variables, *counts, html.Td(time_text(row.busy_ns))]


def used_rows(used: Mechanisms, made: Sequence[Build], view: View) -> list[Component]:
    """A row a mechanism that the step used, with the page that shows it."""
    found: list[tuple[str, str, int, dict[str, object]]] = [
        ("pairs", "rendezvous", used.pairs, {"bytes": size(used.bytes)}),
        ("calls", "rendezvous", used.calls, {}),
        (
            "passed" if used.passed else "collectives",
            "collectives",
            used.collectives,
            {"ranks": used.ranks, "bytes": size(used.passed)},
        ),
        ("writes", "graph", used.writes, {}),
    ]
    rows = [_used(name, page, count, values, view) for name, page, count, values in found]
    return [*rows, _used("turns", "", used.turns, {}, view)] if made else rows


def _used(name: str, page: str, count: int, values: dict[str, object], view: View) -> Component:
    says = html.Span([t(f"strategy.used.{name}", view.lang, count=count, **values),
                      html.Small(t(f"strategy.used.{name}_is", view.lang))])  # fmt: skip
    cells = [html.B(f"{count:,}"), says]
    if not page or not count:
        return html.Div(cells)
    return link([*cells, icon("right")], f"/t/{view.trace}/{page}")
