"""Where in the control flow of a graph a value lives: in one branch of a cond, in one loop.

Contexts nest; None is outside of all. A value of an outer context comes into a branch through a
Switch on the predicate, into a loop through a constant Enter (TF `control_flow_ops.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tracer.model.graph import Input, Node

if TYPE_CHECKING:
    from tracer.model.graph_builder import GraphBuilder


@dataclass(eq=False, slots=True)
class CondContext:
    """One branch (0 false, 1 true) of a cond.

    `pivot` is alive exactly where the branch is taken: what has no input waits for it.
    """

    outer: "Context | None"
    pred: Input
    branch: int
    pivot: Input | None = None
    brought: dict[Input, Input] = field(default_factory=dict)

    def bring(self, builder: "GraphBuilder", source: Input, name: str) -> Input:
        """Through a Switch beside the value; `name` is that of the node that wants it."""
        value = builder.bring(source, self.outer, name)
        pred = builder.bring(self.pred, self.outer, name)
        switch = Node(
            f"{name}/Switch",
            "Switch",
            (value, pred),
            requested_device=builder[value.node].requested_device,
            attrs={"_class": [f"loc:@{value.node}"]},
        )
        return builder.put(switch, self)._replace(port=self.branch)


@dataclass(eq=False, slots=True)
class WhileContext:
    """A loop; its frame's name is unique in the graph.

    `pivot` runs once an iteration: what depends on nothing of the iteration waits for it.
    `following` is the NextIteration of its first variable.
    """

    outer: "Context | None"
    frame_name: str
    parallel_iterations: int = 10
    pivot: Input | None = None
    following: Input | None = None
    brought: dict[Input, Input] = field(default_factory=dict)

    def bring(self, builder: "GraphBuilder", source: Input, name: str) -> Input:
        """Through a constant Enter, which every iteration sees."""
        value = builder.bring(source, self.outer, name)
        return builder.enter(value, self, f"{name}/Enter", is_constant=True)


Context = CondContext | WhileContext


def chain(context: Context | None) -> Iterator[Context]:
    """The context and those around it, inside out."""
    while context is not None:
        yield context
        context = context.outer


def is_within(context: Context | None, outer: Context | None) -> bool:
    return outer is None or any(each is outer for each in chain(context))


def loop_of(context: Context | None) -> WhileContext | None:
    """The innermost loop around."""
    return next((each for each in chain(context) if isinstance(each, WhileContext)), None)
