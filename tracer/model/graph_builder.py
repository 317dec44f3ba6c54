"""Build a graph by hand, with the scopes of TF's graph mode.

b = GraphBuilder()
with b.device("/job:ps"):
    w = b.op("VarHandleOp", name="w", dtype="float32", shape=[2])
with b.name_scope("train"), b.control_dependencies([w]):
    b.op("NoOp", name="done")
(big,) = b.while_loop(
    lambda x: b.op("Less", x, b.const(9.0)), lambda x: b.op("Add", x, x), [b.const(1.0)]
)
graph = b.graph()

Branches and loop bodies are functions that add nodes; they may use any value made before, which
then comes in as in TF's `tf.cond` and `tf.while_loop` (v1): through a Switch or a constant Enter.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, TypeVar

from tracer.model.cluster import DeviceSpec
from tracer.model.contexts import CondContext, Context, WhileContext, is_within, loop_of
from tracer.model.dtypes import dtype_of
from tracer.model.graph import Graph, GraphError, Input, Node, TensorSpec
from tracer.model.literal import literal_of

DeviceFunction = Callable[[Node], str]
Values = Input | Sequence[Input]

#: of every output; of a node whose outputs live apart (Switch), one context a port
Contexts = Mapping[str, Context | tuple[Context | None, ...] | None]

_Scope = TypeVar("_Scope")
_HERE = str(Path(__file__).parent)


class GraphBuilder:
    """Collects nodes; names are made unique as TF does (`a`, `a_1`, …).

    Goes on with `graph`, whose values live in `contexts`; new nodes take no name of `taken`.
    """

    def __init__(
        self,
        graph: Graph | None = None,
        contexts: Contexts | None = None,
        *,
        taken: Iterable[str] = (),
    ) -> None:
        self._nodes: dict[str, Node] = dict(graph or {})
        self._contexts = dict(contexts or {})
        self._context: Context | None = None
        self._taken = set(taken)
        self._source = ""
        self._scopes: list[str] = []
        self._devices: list[str | DeviceFunction] = []
        self._control: list[tuple[str, ...]] = []
        self._uses: Counter[str] = Counter()

    def graph(self) -> Graph:
        return Graph(self._nodes.values())

    def beside(self, *devices: str) -> "GraphBuilder":
        """Another one that adds to the same graph, on `devices`, with scopes of its own."""
        other = copy(self)
        other._scopes, other._devices, other._control, other._context = [], [*devices], [], None
        return other

    @property
    def nodes(self) -> Iterable[Node]:
        return self._nodes.values()

    def op(
        self,
        op: str,
        *inputs: Input,
        name: str = "",
        control_inputs: Iterable[Input] = (),
        specs: Iterable[TensorSpec] = (),
        **attrs: Any,
    ) -> Input:
        """Adds a node and gives its first output; others are `Input(output.node, port)`."""
        before = [name for scope in self._control for name in scope]
        before += [source.node for source in control_inputs]
        return self.add(
            Node(
                self.scoped(name or op),
                op,
                inputs,
                tuple(dict.fromkeys(before)),
                attrs=attrs,
                specs=tuple(specs),
                source=self._line(),
            )
        )

    def add(self, node: Node) -> Input:
        """Adds a node made elsewhere, under its own name or one like it, in the open context."""
        name, context = self._unique(node.name), self._context
        inputs = tuple(self.bring(source, context, name) for source in node.inputs)
        controls = self._waiting(inputs, node.control_inputs, context, name)
        made = node.with_(name=name, inputs=inputs, control_inputs=controls)
        return self.place(made, context)

    def put(self, node: Node, context: Context | tuple[Context, ...] | None) -> Input:
        """Adds a node as it is, but for its name; its outputs live in `context`."""
        name = self._unique(node.name)
        self._nodes[name] = node.with_(name=name, source=node.source or self._source)
        self._contexts[name] = context
        return Input(name)

    def keep(self, node: Node) -> Input:
        """Adds a node outside of all contexts under exactly its name, which may be a taken one."""
        self._nodes[node.name] = node
        return Input(node.name)

    def place(self, node: Node, context: Context | None) -> Input:
        """As `put`, on the device of the open scopes."""
        return self.put(self._on_device(node), context)

    def __getitem__(self, name: str) -> Node:
        return self._nodes[name]

    def __contains__(self, name: object) -> bool:
        return name in self._nodes

    def dtype_of(self, source: Input) -> str:
        """Empty if nothing tells it."""
        try:
            return dtype_of(self._nodes, source)
        except GraphError:
            return ""

    def replace(self, name: str, **changes: Any) -> None:
        """Changes fields of a node that is there."""
        self._nodes[name] = self._nodes[name].with_(**changes)

    def scoped(self, name: str) -> str:
        """The full name in the open scopes."""
        ends = [number for number, scope in enumerate(self._scopes) if scope.endswith("/")]
        scopes = self._scopes[ends[-1] if ends else 0 :]
        return "/".join([*(scope.removesuffix("/") for scope in scopes), name])

    def const(self, value: Any, dtype: str = "float32", *, name: str = "Const") -> Input:
        literal = literal_of(dtype, value)
        spec = TensorSpec(dtype, literal.shape)
        return self.op("Const", name=name, specs=[spec], dtype=dtype, value=literal)

    def placeholder(self, shape: Iterable[int], dtype: str = "float32", *, name: str) -> Input:
        spec = TensorSpec(dtype, tuple(shape))
        return self.op("Placeholder", name=name, specs=[spec], dtype=dtype, shape=list(spec.shape))

    @contextmanager
    def name_scope(self, name: str) -> Iterator[None]:
        """A name that ends in `/` stands for itself, whatever scopes are open, as in TF."""
        with _pushed(self._scopes, name):
            yield

    @contextmanager
    def at(self, source: str) -> Iterator[None]:
        """Nodes added meanwhile come from this line, not from that of whoever adds them."""
        before, self._source = self._source, source
        try:
            yield
        finally:
            self._source = before

    def _line(self) -> str:
        return self._source or _callers_line()

    @contextmanager
    def device(self, device: str | DeviceFunction) -> Iterator[None]:
        """Inner scopes win part by part; a function is asked for each node, as in `tf.device`."""
        with _pushed(self._devices, device):
            yield

    @contextmanager
    def control_dependencies(self, inputs: Iterable[Input]) -> Iterator[None]:
        with _pushed(self._control, tuple(source.node for source in inputs)):
            yield

    def cond(
        self,
        pred: Input,
        true: Callable[[], Values],
        false: Callable[[], Values],
        *,
        name: str = "cond",
    ) -> list[Input]:
        """What `true` gives where `pred` holds, else what `false` gives; only one of them runs.

        Raises GraphError if they give different numbers of values.
        """
        with self._fresh_scope(name):
            switch = self.op("Switch", pred, pred, name="Switch")
            pivots = [
                self.op("Identity", switch._replace(port=branch), name=f"switch_{'ft'[branch]}")
                for branch in (1, 0)
            ]
            pred = self.op("Identity", pred, name="pred_id")
            taken, other = (
                self._branch(CondContext(self._context, pred, branch, pivot), give)
                for branch, pivot, give in ((1, pivots[0], true), (0, pivots[1], false))
            )
            if len(taken) != len(other):
                raise GraphError(
                    f"the branches of {self.scoped('')[:-1]!r} give {len(taken)} and {len(other)} "
                    "values; both must give as many"
                )
            return [
                self.place(self._made("Merge", (no, yes)), self._context)
                for no, yes in zip(other, taken, strict=True)
            ]

    def _branch(self, context: CondContext, give: Callable[[], Values]) -> list[Input]:
        assert context.pivot is not None
        self._contexts[context.pivot.node] = context
        with self.inside(context):
            scope = self.scoped("")[:-1]
            return [self.bring(value, context, scope) for value in _list(give())]

    def while_loop(
        self,
        cond: Callable[..., Input],
        body: Callable[..., Values],
        loop_vars: Sequence[Input],
        *,
        parallel_iterations: int = 10,
        name: str = "while",
        make_context: Callable[..., WhileContext] = WhileContext,
    ) -> list[Input]:
        """`while cond(*loop_vars): loop_vars = body(*loop_vars)`; gives what they are at the end.

        At most `parallel_iterations` are in flight. Raises GraphError if `body` gives another
        number of values than it takes.
        """
        with self._fresh_scope(name) as scope:
            frame = f"{scope}/while_context"
            context = make_context(self._context, frame, parallel_iterations)
            enters = [self._enter_var(value, context) for value in loop_vars]
            with self.inside(context):
                merges = [self.op("Merge", enter, enter) for enter in enters]
                context.pivot = merges[0]
                goes_on = self.op("LoopCond", cond(*merges))
                switches = [self._loop_switch(merge, goes_on) for merge in merges]
                values = [self.op("Identity", s._replace(port=1)) for s in switches]
                context.pivot = values[0]
                results = _list(body(*values))
                if len(results) != len(values):
                    raise GraphError(
                        f"the body of {scope!r} takes {len(values)} values and gives "
                        f"{len(results)}; the next iteration needs as many as this one"
                    )
                nexts = [self.op("NextIteration", result) for result in results]
                context.following = nexts[0]
                for merge, enter, following in zip(merges, enters, nexts, strict=True):
                    self.replace(merge.node, inputs=(enter, following))
            return [self.place(self._made("Exit", (s,)), self._context) for s in switches]

    def _enter_var(self, value: Input, context: WhileContext) -> Input:
        name = self._unique(self.scoped("Enter"))
        value = self.bring(value, context.outer, name)
        enter = self.enter(value, context, name, is_constant=False)
        controls = self._waiting((value,), (), context.outer, name)
        self.replace(enter.node, control_inputs=controls)
        return enter

    def enter(self, value: Input, context: WhileContext, name: str, *, is_constant: bool) -> Input:
        """Takes a value of the context around into a loop."""
        node = Node(
            name,
            "Enter",
            (value,),
            attrs={
                "frame_name": context.frame_name,
                "is_constant": is_constant,
                "parallel_iterations": context.parallel_iterations,
            },
            source=self._line(),
        )
        return self.place(node, context)

    def _loop_switch(self, merge: Input, goes_on: Input) -> Input:
        switch = self.op("Switch", merge, goes_on, _class=[f"loc:@{merge.node}"])
        self.replace(switch.node, requested_device=self[merge.node].requested_device)
        return switch

    def _made(self, op: str, inputs: tuple[Input, ...]) -> Node:
        return Node(self.scoped(op), op, inputs, source=self._line())

    @property
    def context(self) -> Context | None:
        """Where nodes are added now."""
        return self._context

    @contextmanager
    def inside(self, context: Context | None) -> Iterator[None]:
        """What is added meanwhile lives in `context`."""
        before, self._context = self._context, context
        try:
            yield
        finally:
            self._context = before

    def context_of(self, source: Input) -> Context | None:
        found = self._contexts.get(source.node)
        return found[source.port] if isinstance(found, tuple) else found

    def bring(self, source: Input, into: Context | None, name: str) -> Input:
        """A value as it is seen in a context, for a node `name` there; once a context."""
        if into is None or is_within(self.context_of(source), into):
            return source
        if source not in into.brought:
            into.brought[source] = into.bring(self, source, name)
        return into.brought[source]

    def _waiting(
        self, inputs: tuple[Input, ...], given: Iterable[str], context: Context | None, name: str
    ) -> tuple[str, ...]:
        """Control inputs in a context: those given, as they are seen there, or its pivot.

        Without the pivot, what depends on nothing of a branch would run though it is not taken, and
        what depends on loop invariants only would run once.
        """
        loop = loop_of(context)
        controls = tuple(self.bring(Input(each), loop, name).node for each in given)
        if context is None or not all(map(self._is_invariant, inputs)):
            return controls
        if any(is_within(self.context_of(Input(each)), context) for each in controls):
            return controls
        return (*controls, self._pivot(context).node)

    def _is_invariant(self, source: Input) -> bool:
        node = self[source.node]
        return node.op == "Enter" and bool(node.attrs["is_constant"])

    def _pivot(self, context: Context) -> Input:
        if context.pivot is None:
            assert isinstance(context, CondContext), "the pivot of a loop is there from the start"
            with self.inside(context.outer):
                switch = self.op("Switch", context.pred, context.pred, name="cond/Switch")
            node = Node(
                self.scoped("cond/pivot"), "Identity", (switch._replace(port=context.branch),)
            )
            context.pivot = self.put(node, context)
        return context.pivot

    @contextmanager
    def _fresh_scope(self, name: str) -> Iterator[str]:
        """A scope of this name that no node and no other such scope has; gives its full name."""
        scope = self._unique(self.scoped(name))
        self._taken.add(scope)
        with _pushed(self._scopes, scope.removeprefix(self.scoped(""))):
            yield scope

    def _unique(self, name: str) -> str:
        unique = name
        while unique in self._nodes or unique in self._taken:
            self._uses[name] += 1
            unique = f"{name}_{self._uses[name]}"
        return unique

    def _on_device(self, node: Node) -> Node:
        for scope in reversed(self._devices):
            asked = DeviceSpec.parse(node.requested_device)
            outer = scope(node) if callable(scope) else scope
            node = node.with_(requested_device=str(asked.merged_over(DeviceSpec.parse(outer))))
        return node


def _list(values: Values) -> list[Input]:
    return [values] if isinstance(values, Input) else list(values)


@contextmanager
def _pushed(stack: list[_Scope], scope: _Scope) -> Iterator[None]:
    stack.append(scope)
    try:
        yield
    finally:
        stack.pop()


def _callers_line() -> str:
    """`file:line` of the first frame outside this folder; of files elsewhere only the name."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    path = Path(frame.f_code.co_filename)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.name
    return f"{shown}:{frame.f_lineno}"
