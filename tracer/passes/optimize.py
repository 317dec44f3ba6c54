"""Passes that change what is computed where and when; each is off until it is named."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from tracer.model.graph import Graph, GraphError, Node, Partition
from tracer.model.refusal import did_you_mean
from tracer.ops.registry import lookup
from tracer.passes.control_flow import colocate_control_flow
from tracer.passes.optimizations.bf16 import send_bf16
from tracer.passes.optimizations.fold import fold_constants
from tracer.passes.optimizations.merge import merge_common_subexpressions
from tracer.passes.optimizations.replicate import replicate_small_constants
from tracer.passes.optimizations.rules import Lookup
from tracer.passes.optimizations.schedule import schedule_recvs

#: on a placed graph, whose control flow is still where its lines asked for it
PLACED: Mapping[str, Callable[[Graph, Lookup], Graph]] = {
    "fold_constants": fold_constants,
    "merge_common_subexpressions": merge_common_subexpressions,
    "replicate_small_constants": replicate_small_constants,
}

#: once it has moved, and nothing else will
MOVED: Mapping[str, Callable[[Graph, Lookup], Graph]] = {"send_bf16": send_bf16}

#: on what the cut by worker made of a placed graph
CUT: Mapping[str, Callable[[Graph, list[Partition]], list[Partition]]] = {
    "schedule_recvs": schedule_recvs,
}

#: what `--passes` may name, in the order in which they run
OPTIMIZATIONS = (*PLACED, *MOVED, *CUT)
NAMES_TOLD = 20  #: of nodes, by a span
_ALL = ", ".join(OPTIMIZATIONS)


def named_passes(text: str) -> tuple[str, ...]:
    """Of names with commas between them, each once, as they run.

    Raises GraphError for a name that is none.
    """
    names = {name.strip() for name in text.split(",")} - {""}
    if unknown := names.difference(OPTIMIZATIONS):
        name = min(unknown)
        hint = did_you_mean(name, OPTIMIZATIONS) or "."
        raise GraphError(f"--passes {name}: no such pass{hint} There are: {_ALL}")
    return tuple(name for name in OPTIMIZATIONS if name in names)


@dataclass(frozen=True, slots=True)
class Change:
    """What a pass did, by the names of nodes."""

    name: str
    nodes_before: int
    nodes: int
    removed: tuple[str, ...]
    added: tuple[str, ...]
    changed: tuple[str, ...]


def tell_change(tell: Callable[[str, object], None], change: Change) -> None:
    """What a `graph.optimize` span says of its pass; of many nodes the first."""
    tell("vizdist.pass.name", change.name)
    tell("vizdist.graph.nodes_before", change.nodes_before)
    tell("vizdist.graph.nodes", change.nodes)
    for kind in ("removed", "added", "changed"):
        names: tuple[str, ...] = getattr(change, kind)
        tell(f"vizdist.pass.{kind}", len(names))
        if names:
            more = f" and {len(names) - NAMES_TOLD} more" if len(names) > NAMES_TOLD else ""
            tell(f"vizdist.pass.{kind}_nodes", ", ".join(names[:NAMES_TOLD]) + more)


Tell = Callable[[Change], None]
#: (name of a pass) → what surrounds its run, and is told of its change
Watch = Callable[[str], AbstractContextManager[Tell]]


@contextmanager
def _unwatched(_name: str) -> Iterator[Tell]:
    yield lambda _change: None


def optimize(
    graph: Graph, passes: Iterable[str], lookup: Lookup = lookup, watch: Watch = _unwatched
) -> Graph:
    """Runs those of the passes that work on a placed graph, and moves control flow to its data.

    That comes after constants were copied to who uses them, as in TF, and before all that depends
    on what crosses.
    """
    asked = tuple(passes)

    def run(among: Mapping[str, Callable[[Graph, Lookup], Graph]], graph: Graph) -> Graph:
        for name in asked:
            if name in among:
                with watch(name) as tell:
                    before, graph = graph, among[name](graph, lookup)
                    tell(_change(name, before, graph))
        return graph

    return run(MOVED, colocate_control_flow(run(PLACED, graph)))


def optimize_cut(
    placed: Graph, parts: list[Partition], passes: Iterable[str], watch: Watch = _unwatched
) -> list[Partition]:
    """Runs those of the passes that work on the cut by worker."""
    for name in passes:
        if name in CUT:
            with watch(name) as tell:
                before, parts = parts, CUT[name](placed, parts)
                tell(_change(name, _nodes(before), _nodes(parts)))
    return parts


def _nodes(parts: Sequence[Partition]) -> dict[str, Node]:
    return {node.name: node for part in parts for node in part.graph.nodes}


def _change(name: str, before: Mapping[str, Node], after: Mapping[str, Node]) -> Change:
    return Change(
        name,
        len(before),
        len(after),
        removed=tuple(node for node in before if node not in after),
        added=tuple(node for node in after if node not in before),
        changed=tuple(node for node in after if node in before and after[node] != before[node]),
    )
