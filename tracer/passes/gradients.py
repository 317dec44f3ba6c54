"""The gradients of some values with respect to others, as further nodes (whitepaper §4.1).

Walks the ops between `xs` and `ys` backwards and asks the rule of each, adds up where a value was
used several times. The gradient of a cond is a cond on the same predicate; that of a loop is a loop
that runs as often, backwards (TF `control_flow_grad.py`): its variables are the gradients of the
loop's variables, and a sum for each loop invariant. The nodes of a gradient ask for the device of
the op that they are the gradient of.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from graphlib import TopologicalSorter

from tracer.model.contexts import CondContext, Context, WhileContext, chain, loop_of
from tracer.model.graph import Graph, GraphError, Input, Node, TensorSpec
from tracer.model.graph_builder import GraphBuilder
from tracer.model.refusal import did_you_mean
from tracer.ops.gradients import GRADIENTS, WITHOUT_GRADIENT
from tracer.ops.infer import infer_specs
from tracer.ops.op_gradient import OpGradient
from tracer.passes.contexts import ControlFlow, Loop, LoopVar
from tracer.passes.history import SCOPE, BackBranch, BackLoop, Counter

_INTEGERS = ("bool", "int8", "int16", "int32", "int64", "uint8")

Sums = dict[Input, list[Input]]  #: what has come back to each forward value
Item = str | WhileContext  #: a node, or a whole loop


def gradients(
    graph: Graph, ys: Sequence[Input], xs: Sequence[Input], grad_ys: Sequence[Input] = ()
) -> tuple[Graph, list[Input | None]]:
    """The graph with the gradient of the sum of `ys` for each of `xs`; None where there is none.

    `grad_ys` weigh the elements of `ys`. Raises GraphError for an op without gradient, and for a
    value inside a loop or a branch, which has many or none.
    """
    found = _Gradients(graph, ys, xs)
    results = found.run(grad_ys)
    return found.builder.graph(), results


class _Gradients:
    def __init__(self, graph: Graph, ys: Sequence[Input], xs: Sequence[Input]) -> None:
        self._graph = graph
        self._ys, self._xs = ys, xs
        self._flow = ControlFlow(graph)
        self._specs = infer_specs(graph)
        self._active = _between(graph, ys, xs)
        self._enters: dict[WhileContext, list[Node]] = {}
        for node in graph.nodes:
            if node.op == "Enter":
                self._enters.setdefault(self._entered(node), []).append(node)
        self._back: dict[Context, Context] = {}
        self.builder = GraphBuilder(graph, self._flow.outputs)

    def run(self, grad_ys: Sequence[Input]) -> list[Input | None]:
        for value in (*self._ys, *self._xs):
            if value.node not in self._graph:
                hint = did_you_mean(value.node, self._graph)
                raise GraphError(f"the graph has no node {value.node!r} to differentiate{hint}")
            if self._flow.lives_in(value) is not None:
                raise GraphError(
                    f"{value} lives inside a loop or a branch; take the gradient of what comes out "
                    "of it, with respect to what goes in"
                )
        seeds: Sums = {}
        with self.builder.name_scope(SCOPE):
            for number, y in enumerate(self._ys):
                seed = grad_ys[number] if grad_ys else self.builder.op("OnesLike", y, name="ones")
                seeds.setdefault(y, []).append(seed)
            sums = self._level(None, seeds)
            return [self._total(sums, x) for x in self._xs]

    def _level(self, loop: WhileContext | None, sums: Sums) -> Sums:
        """Goes back through what runs in one loop (None: in none), loops in it as a whole."""
        for item in reversed([*self._in_order(loop)]):
            if isinstance(item, WhileContext):
                self._through_loop(self._flow.loops[item], sums)
            else:
                self._through_node(self._graph[item], sums)
        return sums

    def _in_order(self, loop: WhileContext | None) -> Iterator[Item]:
        """The active items of a level, inputs first."""
        before: dict[Item, set[Item]] = {}
        for name in self._graph:
            if name in self._active and (item := self._item(name, loop)) is not None:
                before.setdefault(item, set())
        for item, sources in before.items():
            nodes = self._enters[item] if isinstance(item, WhileContext) else [self._graph[item]]
            for source in (source for node in nodes for source in node.inputs):
                at = self._item(source.node, loop)
                if at in before and at != item:
                    sources.add(at)
        return iter(TopologicalSorter(before).static_order())

    def _item(self, name: str, level: WhileContext | None) -> Item | None:
        """What a node is at a level: itself, part of a loop, or nothing that is gone through."""
        node = self._graph[name]
        place = self._entered(node) if node.op == "Enter" else self._flow.loop_at(name)
        if place is level:
            return None if self._carries_variable(node) else name
        loops = [each for each in chain(place) if isinstance(each, WhileContext)]
        return next((each for each in loops if loop_of(each.outer) is level), None)

    def _carries_variable(self, node: Node) -> bool:
        return (
            node.op in ("Enter", "NextIteration", "Exit", "LoopCond")
            or self._flow.is_loop_merge(node)
            or self._flow.is_loop_switch(node)
        )

    def _entered(self, node: Node) -> WhileContext:
        context = self._flow.lives_in(Input(node.name))
        assert isinstance(context, WhileContext)
        return context

    def _through_node(self, node: Node, sums: Sums) -> None:
        if not any(source.node in self._active for source in node.inputs):
            return
        ports = sorted({value.port for value in sums if value.node == node.name})
        totals = {port: self._total(sums, Input(node.name, port)) for port in ports}
        grads = {port: total for port, total in totals.items() if total is not None}
        if not grads:
            return
        with self.builder.device(node.requested_device), self.builder.at(node.source):
            if node.op == "Switch":
                self._through_switch(node, grads, sums)
            elif node.op == "Merge":
                self._through_merge(node, grads[0], sums)
            else:
                with self.builder.inside(self._back_of(self._flow.runs_in(node.name))):
                    self._through_op(node, grads, sums)

    def _through_op(self, node: Node, grads: Mapping[int, Input], sums: Sums) -> None:
        rule = GRADIENTS.get(node.op)
        if rule is None:
            raise GraphError(_no_rule(node))
        scope = self.builder.scoped(f"{node.name}_grad")
        handed = OpGradient(self.builder, node, grads, self._spec_of, scope)
        for number, source in enumerate(node.inputs):
            if source.node in self._active:
                sums.setdefault(source, []).append(rule(handed, number).source)

    def _through_switch(self, node: Node, grads: Mapping[int, Input], sums: Sums) -> None:
        """Backwards two branches meet; one that nothing came back through gives zeros."""
        data = node.inputs[0]
        branches = self._flow.outputs[node.name]
        assert isinstance(branches, tuple)
        ends = [
            grads[port] if port in grads else self._zeros(data, self._back_of(branch), node)
            for port, branch in enumerate(branches)
        ]
        name = self.builder.scoped(f"{node.name}_grad/Merge")
        merged = Node(name, "Merge", tuple(ends), source=node.source)
        place = self._back_of(self._flow.runs_in(node.name))
        sums.setdefault(data, []).append(self.builder.place(merged, place))

    def _zeros(self, like: Input, place: Context | None, node: Node) -> Input:
        with self.builder.inside(place):
            return self.builder.op("ZerosLike", like, name=f"{node.name}_grad/zeros")

    def _through_merge(self, node: Node, dy: Input, sums: Sums) -> None:
        """Backwards a value parts: each branch gets it where that branch was taken."""
        branches = [self._flow.lives_in(source) for source in node.inputs]
        preds = {branch.pred for branch in branches if isinstance(branch, CondContext)}
        if len(preds) != 1:
            raise GraphError(
                f"the Merge {node.name!r} has no gradient: it joins values that no Switch on one "
                "predicate parts"
            )
        for source, branch in zip(node.inputs, branches, strict=True):
            if source.node in self._active:
                name = self.builder.scoped(f"{node.name}_grad")
                part = self.builder.bring(dy, self._back_of(branch), name)
                sums.setdefault(source, []).append(part)

    def _through_loop(self, loop: Loop, sums: Sums) -> None:
        context = loop.context
        carried = [v for v in loop.variables if v.merge in self._active]
        grads = [self._total(sums, Input(v.exit)) if v.exit else None for v in carried]
        if not any(grads):
            return
        invariants = [
            node
            for node in self._enters[context]
            if node.name in self._active and node.attrs["is_constant"]
        ]
        decides = self._graph[loop.pivot]
        beside, at = self.builder.device(decides.requested_device), self.builder.at(decides.source)
        with beside, at, self.builder.inside(self._back_of(context.outer)):
            counter = Counter(self.builder, context, Input(loop.pivot))
            starts = [
                grad or self._zeros_of(variable.enter)
                for variable, grad in zip(carried, grads, strict=True)
            ]
            sums_of_none = [self._zeros_of(node.name) for node in invariants]
            _, *results = self.builder.while_loop(
                lambda count, *_: self.builder.op("GreaterEqual", count, self._one()),
                lambda count, *back: [
                    self.builder.op("Sub", count, self._one()),
                    *self._back_through(context, carried, invariants, back),
                ],
                [counter.total, *starts, *sums_of_none],
                parallel_iterations=context.parallel_iterations,
                name=f"{context.frame_name.removesuffix('/while_context')}_grad",
                make_context=partial(BackLoop, context, counter, self._spec_of),
            )
            self._close(context)
        entries = [variable.enter for variable in carried] + [node.name for node in invariants]
        for enter, result in zip(entries, results, strict=True):
            sums.setdefault(self._graph[enter].inputs[0], []).append(result)

    def _back_through(
        self,
        loop: WhileContext,
        carried: Sequence[LoopVar],
        invariants: Sequence[Node],
        back: Sequence[Input],
    ) -> list[Input]:
        """The body of the backward loop: one iteration, from its results to what it began with."""
        here = self.builder.context
        assert here is not None
        self._back[loop] = here
        seeds: Sums = {}
        for variable, grad in zip(carried, back, strict=False):
            if variable.next:
                seeds.setdefault(self._graph[variable.next].inputs[0], []).append(grad)
        with self.builder.name_scope(f"{SCOPE}/"):
            sums = self._level(loop, seeds)
            firsts = [
                self._began_with(variable, grad, sums)
                for variable, grad in zip(carried, back, strict=False)
            ]
            added = [
                self._added(node, total, sums)
                for node, total in zip(invariants, back[len(carried) :], strict=True)
            ]
        return [*firsts, *added]

    def _began_with(self, variable: LoopVar, grad: Input, sums: Sums) -> Input:
        """The gradient of a variable as the iteration found it; zeros if it was not used."""
        inside = Input(variable.switch, 1)
        sums.setdefault(inside, []).extend(sums.pop(Input(variable.merge), ()))
        total = self._total(sums, inside)
        return total or self.builder.op("ZerosLike", grad, name=f"{variable.switch}_grad/zeros")

    def _added(self, enter: Node, total: Input, sums: Sums) -> Input:
        part = self._total(sums, Input(enter.name))
        return self.builder.op("AddV2", total, part, name=f"{enter.name}_grad") if part else total

    def _close(self, loop: WhileContext) -> None:
        back = self._back[loop]
        assert isinstance(back, BackLoop)
        back.close(self.builder)

    def _one(self) -> Input:
        return self.builder.const(1, "int32", name="b_count")

    def _zeros_of(self, enter: str) -> Input:
        return self.builder.op(
            "ZerosLike", self._graph[enter].inputs[0], name=f"{enter}_grad/zeros"
        )

    def _total(self, sums: Sums, value: Input) -> Input | None:
        parts = sums.get(value, [])
        if len(parts) < 2:
            return parts[0] if parts else None
        with self.builder.inside(self._back_of(self._flow.lives_in(value))):
            return self.builder.op("AddN", *parts, name=f"{value.node}_grad/AddN")

    def _back_of(self, context: Context | None) -> Context | None:
        """Where the gradients of what runs in a context are computed."""
        loop = loop_of(context)
        if context is None or loop is None:
            return context
        if context not in self._back:
            assert isinstance(context, CondContext), "loops are gone into before what runs in them"
            back, outer = self._back[loop], self._back_of(context.outer)
            assert isinstance(back, BackLoop)
            assert outer is not None
            self._back[context] = BackBranch(back, context, outer)
        return self._back[context]

    def _spec_of(self, value: Input) -> TensorSpec | None:
        specs = self._specs.get(value.node, ())
        return specs[value.port] if value.port < len(specs) else None


def _between(graph: Graph, ys: Iterable[Input], xs: Iterable[Input]) -> frozenset[str]:
    """The nodes that a gradient may flow through: x is before them, y after."""
    after: set[str] = set()
    open_names = [x.node for x in xs]
    while open_names:
        if (name := open_names.pop()) not in after:
            after.add(name)
            open_names += [
                edge.dst
                for edge in graph.out_edges(name)
                if not edge.is_control and _lets_through(graph[edge.dst], edge.dst_port)
            ]
    before: set[str] = set()
    open_names = [y.node for y in ys]
    while open_names:
        if (name := open_names.pop()) not in before:
            before.add(name)
            open_names += [source.node for source in graph[name].inputs]
    if any(graph[name].op == "StackPushV2" for name in after):  # no edge leads on to what pops
        for name in sorted(before):
            if graph[name].op == "StackPopV2":
                raise GraphError(_no_rule(graph[name]))
    return frozenset(after & before)


def _lets_through(node: Node, port: int | None) -> bool:
    if node.op == "Switch":
        return port == 0
    if node.op == "Cast":
        return node.attrs["DstT"] not in _INTEGERS
    return node.op not in WITHOUT_GRADIENT


def _no_rule(node: Node) -> str:
    if node.op.startswith("aten."):
        return (
            f"{node.name!r} is {node.op}: torch differentiates what it captures; capture the "
            "training step of the module (capture_step), which holds its gradients"
        )
    return (
        f"the op {node.op} of {node.name!r} has no gradient; put a StopGradient before it, or "
        f"build the value from ops that have one: {', '.join(GRADIENTS)}"
    )
