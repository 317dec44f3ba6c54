"""How a step's graph came to its devices: stage by stage, what fell away, who put what where."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tracer.model.graph_table import STAGES, NodeRow, input_node
from vizdist.analysis.bytes_moved import device_title
from vizdist.analysis.graph_counts import graph_counts, own_nodes
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.mechanisms.text_table import listed, table
from vizdist.i18n import Lang, catalogue, t

NAMED = 6  #: names that are written out beside a count


@dataclass(frozen=True, slots=True)
class Placement:
    node: str
    op: str
    requested: str
    device: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stages:
    """`nodes` by stage; `parts`: stage → place → nodes in it. The client's ends are nowhere in it.

    `pruned` are names by why they went: no fetch needs them (`unneeded`), or they made only what
    was fed instead (`fed`). `added` counts by op what the cuts put in.
    """

    graph: str
    nodes: Mapping[str, int]
    parts: Mapping[str, Mapping[str, int]]
    pruned: Mapping[str, Sequence[str]]
    placed: Sequence[Placement]
    added: Mapping[str, int]


def find(one: OneStep) -> Stages | None:
    """None where the trace holds no graph of this step."""
    graph = one.graph
    if graph is None or not graph.stages:
        return None
    stages = {stage: own_nodes(rows) for stage, rows in graph.stages.items()}
    placed = stages.get("placed", ())
    return Stages(
        graph.id,
        graph_counts(graph).nodes,
        {stage: _parts(stages[stage]) for stage in ("worker", "device") if stage in stages},
        _pruned(stages.get("full", ()), stages.get("pruned", ())),
        [Placement(n.name, n.op, n.requested_device, n.device, n.reason) for n in placed],
        _added(placed, stages.get("device") or stages.get("worker") or ()),
    )


def _parts(rows: Iterable[NodeRow]) -> dict[str, int]:
    return dict(sorted(Counter(row.partition for row in rows).items()))


def _pruned(full: Sequence[NodeRow], pruned: Sequence[NodeRow]) -> dict[str, list[str]]:
    """A node that went although one that stayed could be reached from it served only a feed."""
    kept = {row.name for row in pruned}
    if not kept:
        return {}
    before = {row.name: [input_node(text) for text in row.inputs] for row in full}
    reached: set[str] = set()
    pending = [name for name in kept if name in before]
    while pending:
        sources = [name for name in before[pending.pop()] if name in before and name not in reached]
        reached.update(sources)
        pending += sources
    why: dict[str, list[str]] = defaultdict(list)
    for name in before:
        if name not in kept:
            why["fed" if name in reached else "unneeded"].append(name)
    return dict(why)


def _added(placed: Sequence[NodeRow], cut: Sequence[NodeRow]) -> dict[str, int]:
    before = {row.name for row in placed}
    counts = Counter(row.op for row in cut if row.name not in before)
    return dict(counts.most_common())


def tell(found: Stages, lang: Lang) -> Iterator[str]:
    way = [
        f"{t(f'mechanisms.stage.{s}', lang)} {found.nodes[s]}" for s in STAGES if s in found.nodes
    ]
    yield f"  {' → '.join(way)}"
    for why, names in found.pruned.items():
        values = {"count": len(names), "names": _some(names, lang)}
        yield f"  {t(f'mechanisms.stages.{why}', lang, **values)}"
    if found.placed:
        yield from table(
            ("reason", "device", "nodes", "example"), _by_reason(found.placed, lang), lang
        )
    if "device" in found.parts:
        parts = [f"{device_title(d)} {count}" for d, count in found.parts["device"].items()]
        yield f"  {t('mechanisms.stages.parts', lang, parts=listed(parts, lang))}"
    if found.added:
        ops = listed((f"{count} {op}" for op, count in found.added.items()), lang)
        yield f"  {t('mechanisms.stages.added', lang, ops=ops)}"


def _by_reason(placed: Iterable[Placement], lang: Lang) -> Iterator[tuple[str, str, int, str]]:
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in placed:
        groups[each.reason, each.device].append(each.node)
    for (reason, device), names in sorted(groups.items()):
        yield _reason_text(reason, lang), device_title(device), len(names), names[0]


def _reason_text(reason: str, lang: Lang) -> str:
    """Of each of its parts, as in `colocated, folded`; one that is unknown stands as it is."""
    words = ((part, f"graph.reason.{part or 'none'}") for part in reason.split(", "))
    known = catalogue(lang)
    return listed((t(key, lang) if key in known else part for part, key in words), lang)


def _some(names: Sequence[str], lang: Lang) -> str:
    return listed([*names[:NAMED], *("…" for _ in names[NAMED : NAMED + 1])], lang)
