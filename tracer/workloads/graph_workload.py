"""A workload that is a graph made by hand: what a GRAPH.json holds, and what its steps are fed.

    def workload(size: Annotated[int, AtLeast(1), "elements"] = 3) -> GraphWorkload:
        b = GraphBuilder()
        ...
        return graph_workload(b.graph(), {"ps": 1, "worker": 1}, ["out:0"])

A factory says by its return annotation that it makes one: it needs no strategy then.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from tracer.model.graph import Graph
from tracer.model.graph_json import GraphFile, graph_file_of

Feeds = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class GraphWorkload:
    """`steps` are run unless a user asks for another number.

    `feeds(seed)` never ends: its next item feeds a step, beside what `given` feeds to all. `loss`
    is the fetch that becomes the loss of each step's span. `evaluation()` gives the name of a
    metric, its fetch and feeds, for once after the last step.
    """

    given: GraphFile
    steps: int = 1
    feeds: Callable[[int], Iterator[Feeds]] | None = None
    loss: str = ""
    evaluation: Callable[[], tuple[str, str, Feeds]] | None = None


def graph_workload(
    graph: Graph,
    devices: Mapping[str, str | int],
    fetches: Iterable[str],
    *,
    init: str | None = None,
    fed: Mapping[str, Any] | None = None,
    **of_workload: Any,
) -> GraphWorkload:
    """`devices`, `init` and `fetches` as in GRAPH.json; `fed` is what every step gets.

    `of_workload` are fields of GraphWorkload. Raises GraphError.
    """
    run = {"init": init, "feeds": dict(fed or {}), "fetches": list(fetches)}
    return GraphWorkload(graph_file_of(graph, devices, run), **of_workload)
