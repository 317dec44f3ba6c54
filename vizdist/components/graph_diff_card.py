"""What of the graphs of several runs is not alike: a line for each way to differ."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dash import html
from dash.development.base_component import Component

from vizdist.analysis.compare import Comparison
from vizdist.analysis.graph_diff import EdgeKey, Everywhere, GraphDiff, NodeKey, PairKey
from vizdist.analysis.mechanisms.text_table import listed
from vizdist.components.cards import card
from vizdist.components.run_badge import run_badge
from vizdist.i18n import Lang, t

ROWS = 7
MOST_ROWS = 200
NAMES = 200  #: that an opened line spells out


class _Group(NamedTuple):
    """Things that differ in the same way: where they are in each run, and their names."""

    kind: str
    where: Everywhere
    names: list[str]


def graph_diff_card(found: Comparison, lang: Lang) -> Component:
    title = t("compare.graph.title", lang)
    if found.graphs is None:
        letters = listed((run.letter for run in found.runs if run.graph is None), lang)
        return card(title, html.P(t("compare.graph.none", lang, runs=letters)), name="graphs")
    diff = found.graphs
    if diff.none:
        return card(
            title, html.P(t("compare.graph.alike", lang, count=diff.num_alike)), name="graphs"
        )
    groups = sorted(_groups(diff), key=lambda group: (_ORDER.index(group.kind), -len(group.names)))
    badges = [html.Th(run_badge(run.letter), scope="col") for run in found.runs]
    note = t("compare.graph.note", lang, count=diff.num_alike) if diff.num_alike else ""
    body = [_table(groups[:ROWS], badges, lang)]
    if rest := groups[ROWS:MOST_ROWS]:
        words = html.Summary(t("compare.more", lang, count=len(rest)))
        body.append(html.Details([words, _table(rest, badges, lang)], className="more"))
    return card(title, body, name="graphs", note=note or t("compare.graph.nothing", lang))


def _table(groups: Sequence[_Group], badges: Sequence[Component], lang: Lang) -> Component:
    head = html.Thead(html.Tr([html.Td(), *badges]))
    body = html.Tbody([_row(group, lang) for group in groups])
    return html.Table([head, body], className="beside facts")


_ORDER = ("node", "moved", "edge", "pair", "control")


def _groups(diff: GraphDiff) -> Iterator[_Group]:
    yield from _grouped("node", {_node(key): where for key, where in diff.nodes.items()})
    yield from _grouped("moved", {_node(key): where for key, where in diff.moved.items()})
    yield from _grouped("edge", {_edge(key): where for key, where in diff.edges.items()})
    for kind, is_control in (("pair", False), ("control", True)):
        own = {key: where for key, where in diff.pairs.items() if key.is_control == is_control}
        yield from _grouped(kind, {_pair(key): where for key, where in own.items()})


def _grouped(kind: str, things: Mapping[str, Everywhere]) -> Iterator[_Group]:
    groups: dict[Everywhere, list[str]] = defaultdict(list)
    for name, where in things.items():
        groups[where].append(name)
    return (_Group(kind, where, names) for where, names in groups.items())


def _node(key: NodeKey) -> str:
    return key.name if key.op in key.name else f"{key.name} {key.op}"


def _edge(key: EdgeKey) -> str:
    return f"{key.source} → {key.target}"


def _pair(key: PairKey) -> str:
    return f"{key.tensor}: {key.source} → {key.target}"


def _row(group: _Group, lang: Lang) -> Component:
    count = len(group.names)
    more = [t("compare.more", lang, count=count - NAMES)] if count > NAMES else []
    names = html.Pre("\n".join([*group.names[:NAMES], *more]), tabIndex=0)
    says = html.Summary(t(f"compare.graph.{group.kind}", lang, count=count))
    opened = html.Details([says, names])
    cells = [html.Td(_place(place, count)) for place in group.where]
    return html.Tr([html.Th(opened, scope="row"), *cells])


def _place(place: str | None, count: int) -> str:
    """The device of nodes; of edges and pairs how many."""
    return "–" if place is None else place or f"{count:,}"
