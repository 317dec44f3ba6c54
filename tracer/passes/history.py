"""How the backward iterations of a loop see what the forward ones computed.

Iteration i of the forward loop pushes a value on a stack, the backward iteration for i pops it (TF
`control_flow_state.py`). Constants are made again, loop invariants enter as they are. A stack is
made where the loop is entered, so that a loop within a loop has one for each of its runs; its
handle then is a forward value of the outer loop, with a history like any other.
"""

from collections.abc import Callable
from typing import Any

from tracer.model.contexts import CondContext, Context, WhileContext, is_within, loop_of
from tracer.model.graph import Input, Node, TensorSpec
from tracer.model.graph_builder import GraphBuilder

SCOPE = "gradients"  #: of all nodes of gradients

_HANDLE = TensorSpec("resource", ())
SpecOf = Callable[[Input], TensorSpec | None]


class Counter:
    """Counts the iterations of a forward loop, beside its variables (TF `AddForwardLoopCounter`).

    `step` is the count's increment; pushes come after it and before the next iteration.
    """

    def __init__(self, builder: GraphBuilder, loop: WhileContext, goes_on: Input) -> None:
        with builder.inside(loop.outer):
            zero = builder.const(0, "int32", name="f_count")
        with builder.name_scope("f_count"), builder.inside(loop):
            enter = builder.enter(zero, loop, builder.scoped("Enter"), is_constant=False)
            merge = builder.op("Merge", enter, enter)
            switch = builder.op("Switch", merge, goes_on)
            loop.pivot = builder.op("Identity", switch._replace(port=1))
            self.step = builder.op("AddV2", loop.pivot, builder.const(1, "int32", name="one"))
            following = builder.op("NextIteration", self.step)
            builder.replace(merge.node, inputs=(enter, following))
            leave = Node(builder.scoped("Exit"), "Exit", (switch,))
            self.total = builder.place(leave, loop.outer)
            self._gate = Gate(builder, loop, following, builder.scoped("sync"))

    def before_next(self, node: Input) -> None:
        self._gate.wait_for(node)


class Gate:
    """Holds the next iteration of a loop back until nodes of this one have run, dead or not."""

    def __init__(
        self, builder: GraphBuilder, loop: WhileContext, following: Input, name: str
    ) -> None:
        self._builder = builder
        self._loop = loop
        self._following = following
        self._name = name
        self._trigger: Input | None = None

    def wait_for(self, node: Input) -> None:
        builder = self._builder
        if self._trigger is None:
            self._trigger = builder.place(Node(self._name, "ControlTrigger"), self._loop)
            builder.replace(self._following.node, control_inputs=(self._trigger.node,))
        waits = builder[self._trigger.node].control_inputs
        builder.replace(self._trigger.node, control_inputs=(*waits, node.node))


class BackLoop(WhileContext):
    """The loop that goes back through the iterations of `forward`."""

    __slots__ = ("_gate", "_pops", "_spec_of", "_stacks", "counter", "forward")

    def __init__(
        self, forward: WhileContext, counter: Counter, spec_of: SpecOf, *given: Any
    ) -> None:
        super().__init__(*given)
        self.forward = forward
        self.counter = counter
        self._spec_of = spec_of
        self._stacks: dict[Input, Input] = {}
        self._pops: list[Input] = []

    def bring(self, builder: GraphBuilder, source: Input, name: str) -> Input:
        place = builder.context_of(source)
        if loop_of(place) is not self.forward:
            return super().bring(builder, source, name)
        node = builder[source.node]
        if node.op == "Enter" and node.attrs["is_constant"]:
            return builder.bring(node.inputs[0], self, name)
        return self.recall(builder, source, self)

    def recall(self, builder: GraphBuilder, source: Input, into: Context) -> Input:
        """A value of the forward loop, in this loop or in a branch in it."""
        node = builder[source.node]
        beside = builder.device(node.requested_device)
        with beside, builder.inside(into), builder.name_scope(f"{SCOPE}/"):
            if node.op == "Const":
                return builder.add(node.with_(name=builder.scoped(node.name), control_inputs=()))
            if source not in self._stacks:
                self._stacks[source] = self._push(builder, source)
            spec = self._spec_of(source)
            pop = builder.op(
                "StackPopV2",
                self._stacks[source],
                name=f"{source.node}/StackPop",
                specs=[spec] if spec else (),
                elem_type=builder.dtype_of(source),
                _class=[f"loc:@{source.node}"],
            )
            self._pops.append(pop)
            return pop

    def _push(self, builder: GraphBuilder, source: Input) -> Input:
        beside = [f"loc:@{source.node}"]
        with builder.inside(self.forward.outer):
            no_limit = builder.const(-1, "int32", name=f"{source.node}/Stack/max_size")
            stack = builder.op(
                "StackV2", no_limit, name=f"{source.node}/Stack", specs=[_HANDLE], _class=beside
            )
        with builder.inside(builder.context_of(source)):
            push = builder.op(
                "StackPushV2",
                stack,
                source,
                name=f"{source.node}/StackPush",
                control_inputs=[self.counter.step],
                _class=beside,
            )
        self.counter.before_next(push)
        return stack

    def close(self, builder: GraphBuilder) -> None:
        """Orders the pops of one iteration before those of the next."""
        assert self.following is not None, "a loop is closed when it is whole"
        name = self.frame_name.replace("while_context", "sync")
        gate = Gate(builder, self, self.following, name)
        for pop in self._pops:
            gate.wait_for(pop)


class BackBranch(CondContext):
    """The gradient's side of one branch of a cond in a loop: on the predicate as it was then."""

    __slots__ = ("_back", "_forward")

    def __init__(self, back: BackLoop, forward: CondContext, outer: Context) -> None:
        super().__init__(outer, forward.pred, forward.branch)
        self._back = back
        self._forward = forward

    def bring(self, builder: GraphBuilder, source: Input, name: str) -> Input:
        place = builder.context_of(source)
        if loop_of(place) is self._back.forward and is_within(place, self._forward):
            return self._back.recall(builder, source, self)
        return super().bring(builder, source, name)
