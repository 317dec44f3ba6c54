"""In which context code builds a graph, as in TF's `distribution_strategy_context.py`.

    with distribution.scope():                 cross-replica: values of all replicas at once
        distribution.run(fn)                   replica: fn builds its part, once for each replica
            context.merge_call(merge, v)       cross-replica again, with the v of every replica
                distribution.update(var, f)    update: f builds what happens to one copy of var

Contexts are nested by entering them, each thread has a stack of its own.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracer.model.contexts import CondContext, WhileContext
from tracer.model.graph_builder import GraphBuilder
from tracer.model.refusal import Refusal

if TYPE_CHECKING:
    from tracer.strategies.distribution import Distribution


class DistributionError(Refusal):
    """Something is asked for in a context, or of a value, that has no answer to it."""


@dataclass(frozen=True, slots=True)
class Context:
    """`builder` adds nodes where this context is: on its device, under its name."""

    distribution: "Distribution"
    builder: GraphBuilder


@dataclass(frozen=True, slots=True)
class CrossReplicaContext(Context):
    """Nobody's part: a value is one for all replicas, or a `PerReplica`."""


@dataclass(frozen=True, slots=True)
class ReplicaContext(Context):
    """Inside `run`: the part of one replica; `replica` counts from 0 on within this client."""

    replica: int
    device: str
    pause: Callable[[Callable[..., Any], tuple[Any, ...]], Any]

    def merge_call(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Waits until every replica is here, then `fn(distribution, *args)` once for all.

        Each of `args` reaches `fn` as a PerReplica of what the replicas gave; of a PerReplica that
        it returns each replica gets its own. Raises DistributionError inside of a branch or loop.
        """
        if (inside := self.builder.context) is not None:
            raise DistributionError(
                f"replica {self.replica} calls merge_call inside {_told(inside)}, for {named(fn)}: "
                "replicas meet while the graph is built, and only a step knows whether, and how "
                "often, it comes by there; call it before or after, with what that gives"
            )
        return self.pause(fn, args)

    def all_reduce(self, op: str, value: Any) -> Any:
        """The sum or mean of the value over all replicas, on each of them."""
        return self.merge_call(lambda d, values: d.reduce_to_all(op, values), value)


@dataclass(frozen=True, slots=True)
class UpdateContext(Context):
    """Inside `update`: what happens to the copy number `copy` of a variable."""

    copy: int


def _told(inside: CondContext | WhileContext) -> str:
    if isinstance(inside, WhileContext):
        return f"the loop {inside.frame_name!r}"
    return f"the {str(bool(inside.branch)).lower()} branch of the cond on {str(inside.pred)!r}"


def named(fn: Callable[..., Any]) -> str:
    """A function as errors tell of it, with whose it is."""
    name = getattr(fn, "__qualname__", repr(fn))
    owner = getattr(getattr(fn, "__self__", None), "name", "")
    return f"{name} of {owner!r}" if owner else str(name)


_stack = threading.local()


def current() -> Context | None:
    """The innermost context of this thread, None outside of every scope."""
    stack: list[Context] = getattr(_stack, "contexts", [])
    return stack[-1] if stack else None


@contextmanager
def entered(context: Context) -> Iterator[None]:
    stack: list[Context] = _stack.__dict__.setdefault("contexts", [])
    stack.append(context)
    try:
        yield
    finally:
        stack.pop()
