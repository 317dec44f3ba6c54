"""What stands beside the graph: the selected node, pair or scope in words, or the whole."""

from collections.abc import Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from vizdist.analysis.node_measures import Measured
from vizdist.analysis.scopes import label_of
from vizdist.components.cards import HIDDEN, rich
from vizdist.components.graph_toolbar import glyph_tile
from vizdist.figures.graph_facts import (
    BundleFacts,
    Facts,
    GraphFacts,
    InputFact,
    NodeFacts,
    PairFacts,
    ScopeFacts,
)
from vizdist.figures.graph_identity import StageFact
from vizdist.figures.graph_passes import KINDS, PassChange
from vizdist.figures.graph_stage import CUT_STAGES
from vizdist.i18n import Lang, t
from vizdist.i18n.units import size, us
from vizdist.store.trace import StepInfo

MOST = 12  #: lines of a list; the rest is counted


def aside(
    facts: Facts, step: StepInfo | None, lang: Lang, tried: Sequence[Component] = ()
) -> list[Component]:
    """`tried` is what would save time, of one node or pair; it follows what the step measured."""
    if isinstance(facts, NodeFacts):
        return _node(facts, step, tried, lang)
    if isinstance(facts, PairFacts):
        return _pair(facts, tried, lang)
    if isinstance(facts, BundleFacts):
        return _bundle(facts, lang)
    return _scope(facts, lang) if isinstance(facts, ScopeFacts) else _graph(facts, lang)


def gone(name: str, stage: str, lang: Lang) -> list[Component]:
    """The selection is real, but not in the stage on screen."""
    shown = t(f"graph.stage.{stage}", lang)
    words = html.P(rich("graph.gone_next", lang, name=name, stage=shown))
    return [html.H2(t("graph.gone", lang)), html.Div(words, className="placement")]


def _head(tile: Component, title: str, name: str) -> Component:
    words = [html.H2(title, className="cut"), html.Code(name, className="name", title=name)]
    return html.Div([tile, html.Div(words, className="head-words")], className="head")


def _rows(pairs: Sequence[tuple[Any, Any]]) -> Component:
    return html.Dl([html.Div([html.Dt(name), html.Dd(value)]) for name, value in pairs])


def _part(title: str, *children: Any) -> Component:
    return html.Section([html.H3(title), *children])


def pick(name: str, label: str) -> Component:
    """A name that selects its node."""
    data: dict[str, Any] = {"data-sel": f"node:{name}"}
    return html.Button(label, type="button", className="pick", title=name, **data)


# node


def _node(
    facts: NodeFacts, step: StepInfo | None, tried: Sequence[Component], lang: Lang
) -> list[Component]:
    tile = glyph_tile(facts.look.kind, facts.look.glyph)
    return [
        _head(tile, facts.op, facts.name),
        _placement(facts, lang),
        *([_step_part(facts, step, lang)] if step else []),
        *tried,
        *([_part(t("graph.fact.inputs", lang), _inputs(facts, lang))] if facts.inputs else []),
        _part(t("graph.fact.history", lang), _rows(_history(facts, lang))),
        *([_scope_button(facts.scope, lang)] if facts.scope else []),
    ]


def _placement(facts: NodeFacts, lang: Lang) -> Component:
    why = facts.why
    chip = t(f"graph.reason.{why.reason}", lang) if why.reason else facts.reason
    where = " / ".join(part for part in (facts.box, facts.device) if part)
    top: list[Component] = [html.B(where or t("graph.reason.none", lang), className="cut")]
    top += [html.Span(chip, className="chip outline")] if where else []
    values = {"requested": facts.requested, "tied": why.tied, "reason": facts.reason}
    words: list[Component] = [html.P(rich(f"graph.why.{why.key}", lang, **values))]
    words += [html.P(t("graph.why.folded", lang))] if why.is_folded else []
    words += [_came(facts, lang)] if facts.coming else []
    words += [html.P(rich("graph.coming.changed", lang))] if facts.changed else []
    words += [html.P(rich(f"graph.going.{facts.going}", lang))] if facts.going else []
    return html.Div([html.Div(top, className="placement-head"), *words], className="placement")


def _came(facts: NodeFacts, lang: Lang) -> Component:
    """Who put a node there that the client did not build, and beside what."""
    said = rich(f"graph.coming.{facts.coming}", lang)
    if not facts.origin:
        return html.P(said)
    beside = f"{t('graph.coming.origin', lang)} "
    return html.P([*said, " ", beside, pick(facts.origin, facts.origin)])


def _step_part(facts: NodeFacts, step: StepInfo, lang: Lang) -> Component:
    title = t("graph.fact.step", lang, step=f"{step.number:,}")
    found = facts.measured
    if not found.runs:
        return _part(title, html.P(t("graph.fact.not_run", lang), className="hint"))
    share = f"{100 * found.time / max(1, step.duration):.1f}"
    rows = [
        (t("graph.fact.queueing", lang), us(found.queueing)),
        (
            t("graph.fact.run", lang),
            t("graph.fact.run_share", lang, time=us(found.time), share=share),
        ),
    ]
    if facts.arrival:
        rows.insert(0, (t("graph.fact.arrives", lang), us(facts.arrival)))
    if found.runs > 1 or found.dead:
        rows.append((t("graph.fact.runs", lang), _runs(found, lang)))
    if facts.shape:
        rows.append((t("graph.fact.output", lang), facts.shape))
    return _part(title, _mini_bar(facts), _rows(rows))


def _runs(found: Measured, lang: Lang) -> str:
    runs = f"{found.runs:,}"
    return t("graph.fact.runs_dead", lang, runs=runs, dead=found.dead) if found.dead else runs


def _mini_bar(facts: NodeFacts) -> Component:
    found = facts.measured
    hue = "update" if facts.look.kind in ("update", "variable", "read") else "compute"
    parts = [("transfer", facts.transfer), ("queueing", found.queueing), (hue, found.time)]
    blocks = [
        html.Span(className=f"fill-{name}", style={"flexGrow": length})
        for name, length in parts
        if length > 0
    ]
    return html.Div(blocks, className="mini-bar", **HIDDEN)


def _inputs(facts: NodeFacts, lang: Lang) -> Component:
    shown = [
        ([f"{fact.port} · ", pick(fact.name, fact.label)], _how(fact, facts.box, lang))
        for fact in facts.inputs[:MOST]
    ]
    return html.Div([_rows(shown), *_others(len(facts.inputs) - MOST, lang)])


def _how(fact: InputFact, box: str, lang: Lang) -> str:
    """How an input gets here; nothing is known of that before anything is placed."""
    if fact.over:
        recv = fact.over.rsplit("/", 1)[-1]
        return t("graph.fact.recv_from", lang, recv=recv, box=fact.source_box)
    if fact.source_box:
        return t("graph.fact.from_box", lang, box=fact.source_box)
    if not box:
        return ""
    return t(f"graph.fact.{'reference' if fact.is_reference else 'same_device'}", lang)


def _history(facts: NodeFacts, lang: Lang) -> list[tuple[Any, Any]]:
    rows: list[tuple[Any, Any]] = [
        (_stages(fact, lang), t(f"graph.fact.{fact.state}", lang, count=fact.num_cut))
        for fact in facts.history
    ]
    if facts.source:
        rows.append((t("graph.fact.source", lang), html.Code(facts.source)))
    return rows


def _stages(fact: StageFact, lang: Lang) -> str:
    first = t(f"graph.stage.{fact.first}", lang)
    return first if fact.first == fact.last else f"{first} → {t(f'graph.stage.{fact.last}', lang)}"


# pair, scope, graph


def _pair_sign() -> Component:
    ends = [html.Span(className=f"tag tag-{end}") for end in ("send", "recv")]
    return html.Span(ends, className="pair-sign", **HIDDEN)


def _pair(facts: PairFacts, tried: Sequence[Component], lang: Lang) -> list[Component]:
    title = facts.label or t("graph.control", lang)
    says = ("control_pair" if facts.control else "") if facts.is_cut else "future"
    rows = [(t("graph.fact.bytes", lang), str(size(facts.num_bytes)))]
    rows += _sharing(facts, lang)
    parts = {"request": facts.request, "wait": facts.wait, "transfer": facts.transfer}
    if any(parts.values()):
        rows += [(t(f"graph.fact.{name}", lang), us(ns)) for name, ns in parts.items()]
    ends = [(t(f"graph.fact.{end}", lang), name) for end, name in _ends(facts) if name]
    consumers = [html.Li(pick(name, name)) for name in facts.consumers[:MOST]]
    key = html.Code(facts.key, className="key")
    return [
        _head(_pair_sign(), title, f"{facts.source_box} → {facts.target_box}"),
        *([html.P(t(f"graph.fact.{says}", lang), className="placement")] if says else []),
        html.Section(_rows(rows)),
        *tried,
        *([html.Section(_rows([(name, html.Code(end)) for name, end in ends]))] if ends else []),
        _part(t("graph.fact.consumers", lang), html.Ul(consumers)),
        *([_part(t("graph.fact.key", lang), key)] if facts.key else []),
    ]


def _sharing(facts: PairFacts, lang: Lang) -> list[tuple[Any, Any]]:
    """What sharing one transfer among several uses saves."""
    if facts.num_uses < 2:
        return []
    without = t(
        "graph.fact.transfers",
        lang,
        count=facts.num_uses,
        bytes=str(size(facts.num_uses * facts.num_bytes)),
    )
    return [
        (t("graph.fact.shared", lang), t("graph.fact.shared_by", lang, count=facts.num_uses)),
        (t("graph.fact.unshared", lang), without),
    ]


def _ends(facts: PairFacts) -> tuple[tuple[str, str], ...]:
    return ("send", facts.send), ("recv", facts.recv)


def _scope_button(scope: str, lang: Lang) -> Component:
    """Opens a folded scope on the canvas, folds an open one."""
    data: dict[str, Any] = {"data-scope": scope}
    words = [html.Span(t("graph.fact.fold", lang, scope=label_of(scope)), className="cut")]
    return html.Button(
        [*words, html.Kbd("E", **HIDDEN)], type="button", className="button scope-button", **data
    )


def _bundle(facts: BundleFacts, lang: Lang) -> list[Component]:
    title = t("graph.control", lang) if facts.control else f"{facts.source} → {facts.target}"
    rows = [
        (t("graph.fact.pairs", lang), f"{len(facts.pairs):,}"),
        (t("graph.fact.per_step", lang), str(size(facts.num_bytes))),
    ]
    if facts.wait:
        rows.append((t("graph.fact.longest_wait", lang), us(facts.wait)))
    most = facts.pairs[0].num_bytes
    bars = [_byte_bar(pair, most, name) for pair, name in _named(facts.pairs[:MOST])]
    return [
        _head(_pair_sign(), title, f"{facts.source_box} → {facts.target_box}"),
        html.P(t("graph.fact.bundle", lang), className="placement"),
        html.Section(_rows(rows)),
        _part(t("graph.fact.largest", lang), *bars, *_others(len(facts.pairs) - MOST, lang)),
    ]


def _scope(facts: ScopeFacts, lang: Lang) -> list[Component]:
    tile = glyph_tile("compute", str(len(facts.members)))
    where = " / ".join(part for part in (facts.box, facts.device) if part)
    return [
        _head(tile, facts.label, where),
        *([html.P(_turns(facts, lang), className="placement")] if facts.iterations else []),
        _scope_button(facts.id, lang),
        _part(
            t("graph.fact.members", lang),
            _costs(facts.members[:MOST]),
            *_others(len(facts.members) - MOST, lang),
            _rows([(t("graph.fact.total", lang), us(facts.time))]),
        ),
    ]


def _turns(facts: ScopeFacts, lang: Lang) -> list[Any]:
    return rich("graph.fact.turns", lang, count=facts.iterations)


def _graph(facts: GraphFacts, lang: Lang) -> list[Component]:
    pairs = "pairs" if facts.stage in CUT_STAGES else "crossing"
    numbers = [
        (facts.num_nodes, "nodes"),
        (len(facts.devices), "devices"),
        (facts.num_pairs, pairs),
        (facts.num_control, "control_pairs"),
    ]
    values = {"nodes": f"{facts.num_nodes:,}", "gone": f"{facts.num_gone:,}"}
    says = rich(f"graph.says.{facts.stage}", lang, **values)
    bars = [
        _byte_bar(pair, facts.largest[0].num_bytes, name) for pair, name in _named(facts.largest)
    ]
    per_step = [(t("graph.fact.per_step", lang), str(size(facts.num_bytes)))]
    return [
        html.H2(t(f"graph.stage.{facts.stage}", lang), className="stage-title"),
        html.P(says, className="placement"),
        html.Section(
            _rows([(t(f"graph.fact.{name}", lang), f"{n:,}") for n, name in numbers if n])
        ),
        *([_part(t("graph.fact.largest", lang), *bars, _rows(per_step))] if bars else []),
        *(
            [_part(t("graph.fact.costliest", lang), _costs(facts.costliest))]
            if facts.costliest
            else []
        ),
    ]


def optimizations(passes: Sequence[PassChange], lang: Lang) -> list[Component]:
    """What the passes did that were asked for; nothing where none was."""
    rows = [(one.name.replace("_", " "), _did(one, lang)) for one in passes]
    return [_part(t("graph.fact.passes", lang), _rows(rows))] if rows else []


def _did(one: PassChange, lang: Lang) -> str:
    counts = zip(KINDS, one[1:], strict=True)
    said = [
        t(f"graph.fact.{kind}", lang, number=f"{number:,}") for kind, number in counts if number
    ]
    return " · ".join(said) or t("graph.fact.did_nothing", lang)


def _named(pairs: Sequence[PairFacts]) -> list[tuple[PairFacts, str]]:
    """Pairs by what they carry; where labels are alike, by as much of the name as tells apart."""
    labels = [pair.label for pair in pairs]
    paths = [(pair.source.removesuffix("/Read") or pair.label).split("/") for pair in pairs]
    for depth in range(1, max(map(len, paths), default=0) + 1):
        if len(set(labels)) == len(labels):
            break
        labels = ["/".join(path[-depth:]) for path in paths]
    return list(zip(pairs, labels, strict=True))


def _byte_bar(pair: PairFacts, most: int, name: str) -> Component:
    share = f"{100 * pair.num_bytes / max(1, most):.0f}%"
    sel = f"key:{pair.key}" if pair.key else f"edge:{pair.send}→{pair.recv}"
    data: dict[str, Any] = {"data-sel": sel}
    return html.Button(
        [
            html.Span(html.Bdi(name), className="cut-start"),
            html.Span(html.I(style={"width": share}), className="track"),
            html.Span(str(size(pair.num_bytes)), className="number"),
        ],
        type="button",
        className="byte-bar",
        title=f"{name} · {pair.source_box} → {pair.target_box}",
        **data,
    )


def _costs(members: Sequence[tuple[str, str, int]]) -> Component:
    return _rows([(pick(name, name), us(time)) for name, _, time in members])


def _others(number: int, lang: Lang) -> list[Component]:
    if number <= 0:
        return []
    return [html.P(t("graph.fact.others", lang, count=f"{number:,}"), className="hint")]
