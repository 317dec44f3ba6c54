"""`torch.cond` and `torch.while_loop` → Switch, Merge, Enter, NextIteration, Exit.

They arrive as ops over graphs of their own, forward and backward. Under autograd a loop is a
`while_loop_stack_output`, which also stacks what its variables were, and its backward pass a
`while_loop` that takes rows off these stacks, the last first. Here no such tensor is made: the
backward iterations see what the forward ones left as in the gradient of a hand-written loop
(`tracer.passes.history`), so no shape depends on how often a loop runs.
"""

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from tracer.capture_graph.errors import CaptureError
from tracer.capture_graph.in_place import flow_of
from tracer.model.contexts import WhileContext
from tracer.model.graph import Input, TensorSpec
from tracer.model.graph_builder import GraphBuilder
from tracer.passes.history import BackLoop, Counter

if TYPE_CHECKING:
    from tracer.capture_graph.lower import Lowering

_aten = torch.ops.aten


@dataclass(slots=True)
class _Loop:
    """A forward loop; `found` are its variables as an iteration finds them."""

    context: WhileContext
    body: fx.GraphModule
    found: Sequence[Input]

    def goes_on(self, builder: GraphBuilder) -> Input:
        switch = builder[self.found[0].node].inputs[0]
        return builder[switch.node].inputs[1]


class Flow:
    """Lowers the conds and loops of one traced graph. Their results are read by `getitem`."""

    def __init__(self, lower: "Lowering") -> None:
        self._lower = lower
        self._loops: dict[fx.Node, _Loop] = {}

    def sources(self, node: fx.Node) -> list[fx.Node]:
        """What must be there before a traced op."""
        if flow_of(node) == "cond":
            pred, _, _, operands = _args(node)
            return _nodes([pred, *operands])
        if flow_of(node):
            _, _, carried, operands = _args(node)
            pasts = ((each, _past_of(each)) for each in _nodes(operands))
            return [*_nodes(carried), *(past[0] if past else each for each, past in pasts)]
        if last := _last_of(node):
            loop, _number = last
            return [loop]
        return list(node.all_input_nodes)

    def __call__(self, node: fx.Node) -> Input:
        """Gives its first result."""
        match flow_of(node):
            case "cond":
                results = self._cond(node)
            case "while_loop" if any(map(_past_of, _nodes(_args(node)[3]))):
                results = self._back_loop(node)
            case "while_loop" | "while_loop_stack_output":
                results = self._loop(node)
            case other:
                raise CaptureError(f"the step calls {other}, which is no aten op; it has no kernel")
        for user in node.users:
            if user.target is operator.getitem:
                self._hand_out(node, user, results)
        return results[0]

    def _hand_out(self, node: fx.Node, result: fx.Node, results: Sequence[Input]) -> None:
        number = result.args[1]
        assert isinstance(number, int)
        if flow_of(node) != "while_loop_stack_output":
            self._lower.stands_for(result, results[number])
            return
        for use in result.users:
            if _last_of(use):
                self._lower.stands_for(use, results[number])

    def _cond(self, node: fx.Node) -> list[Input]:
        pred, true, false, operands = _args(node)
        choose, given = self._given(node, [pred])[0], self._given(node, operands)
        with self._lower.builder.at(self._lower.origin(node).source):
            return self._lower.builder.cond(
                choose,
                partial(self._run, node, self._graph(true), given),
                partial(self._run, node, self._graph(false), given),
                name=self._lower.name(node, "cond"),
            )

    def _loop(self, node: fx.Node) -> list[Input]:
        cond, body = map(self._graph, _args(node)[:2])
        carried, given = (self._given(node, values) for values in _args(node)[2:])
        builder = self._lower.builder
        loops: list[_Loop] = []

        def step(*values: Input) -> list[Input]:
            assert isinstance(builder.context, WhileContext)
            loops.append(_Loop(builder.context, body, values))
            return self._run(node, body, [*values, *given])

        with builder.at(self._lower.origin(node).source):
            last = builder.while_loop(
                lambda *values: self._run(node, cond, [*values, *given])[0],
                step,
                carried,
                name=self._lower.name(node, "while_loop"),
            )
        self._loops[node] = loops[0]
        return last

    def _back_loop(self, node: fx.Node) -> list[Input]:
        """A loop that begins at the last iteration of another one."""
        body, operands = self._graph(node.args[1]), _nodes(_args(node)[3])
        past = [_past_of(each) for each in operands]
        loop = next(self._loops[each[0]] for each in past if each)
        where = self._lower.origin(node).source
        _check_carries(body, loop.body, where)
        given = [self._lower.value(each) if not _past_of(each) else None for each in operands]
        builder, name = self._lower.builder, self._lower.name(node, "while_loop")

        def step(*values: Input) -> list[Input]:
            assert isinstance(builder.context, BackLoop)
            backs.append(builder.context)
            inner = self._inner(node, body, [*values, *given])
            rows = list(_placeholders(body))[len(values) :]
            for stack, each in zip(rows, past, strict=True):
                for row in stack.users if each else ():
                    if each and _is_row(row):
                        inner.stands_for(row, loop.found[each[1]])
            return inner(_outputs(body))

        with builder.at(where):
            with builder.name_scope(name):
                counter = Counter(builder, loop.context, loop.goes_on(builder))
                total = builder.op("Cast", counter.total, SrcT="int32", DstT="int64")
            backs: list[BackLoop] = []
            results = builder.while_loop(
                lambda done, *_: builder.op("Less", done, total),
                step,
                self._given(node, node.args[2]),
                name=name,
                make_context=partial(BackLoop, loop.context, counter, self._spec_of),
            )
            backs[0].close(builder)
        return results

    def _run(
        self, node: fx.Node, module: fx.GraphModule, given: Sequence[Input | None]
    ) -> list[Input]:
        results = _outputs(module)
        if strange := [each for each in results if not isinstance(each, fx.Node)]:
            where = self._lower.origin(node).source
            raise CaptureError(
                f"a branch or body of {flow_of(node)} ({where}) gives {strange[0]}, which is no "
                "tensor; give tensors only"
            )
        return self._inner(node, module, given)(results)

    def _inner(
        self, node: fx.Node, module: fx.GraphModule, given: Sequence[Input | None]
    ) -> "Lowering":
        value_of = dict(zip(_placeholders(module), given, strict=True))

        def source(placeholder: fx.Node) -> Input:
            value = value_of[placeholder]
            if value is None:
                raise CaptureError(_strange(self._lower.origin(node).source))
            return value

        return self._lower.inside(node, module, source)

    def _graph(self, node: Any) -> fx.GraphModule:
        module: fx.GraphModule = getattr(self._lower.module, node.target)
        return module

    def _given(self, node: fx.Node, values: Any) -> list[Input]:
        for value in values:
            if not isinstance(value, fx.Node) or not isinstance(value.meta["val"], torch.Tensor):
                where = self._lower.origin(node).source
                raise CaptureError(
                    f"{flow_of(node)} ({where}) takes {value}, which is no tensor; hand in "
                    "a tensor, such as torch.tensor(0) for a count"
                )
        return [self._lower.value(value) for value in values]

    def _spec_of(self, value: Input) -> TensorSpec | None:
        specs = self._lower.builder[value.node].specs
        return specs[value.port] if value.port < len(specs) else None


def _args(node: fx.Node) -> tuple[Any, ...]:
    return node.args


def _nodes(values: Any) -> list[fx.Node]:
    return [value for value in values if isinstance(value, fx.Node)]


def _placeholders(module: fx.GraphModule) -> Iterator[fx.Node]:
    return (node for node in module.graph.nodes if node.op == "placeholder")


def _outputs(module: fx.GraphModule) -> list[fx.Node]:
    (results,) = next(node for node in module.graph.nodes if node.op == "output").args
    return list(results) if isinstance(results, list | tuple) else [results]


def _variable_of(node: Any) -> tuple[fx.Node, int] | None:
    """The loop and the number of the variable whose stacked values a traced value is."""
    if not isinstance(node, fx.Node) or node.target is not operator.getitem:
        return None
    loop, number = _args(node)
    return (loop, number) if flow_of(loop) == "while_loop_stack_output" else None


def _last_of(node: fx.Node) -> tuple[fx.Node, int] | None:
    """Of what takes the last of the stacked values: the loop and the number of the variable."""
    if node.target is _aten.select.int and node.args[1:] == (0, -1):
        return _variable_of(node.args[0])
    return None


def _past_of(node: fx.Node) -> tuple[fx.Node, int] | None:
    """Of what each iteration of a loop found: the loop and the number of the variable.

    That is the first value and all stacked ones but the last, as torch writes it.
    """
    if node.target is not _aten.cat.default or len(parts := _args(node)[0]) != 2:
        return None
    _first, others = parts
    if others.target is _aten.slice.Tensor and others.args[1:] == (0, 0, -1):
        return _variable_of(others.args[0])
    return None


def _is_row(node: fx.Node) -> bool:
    """Whether it is what a backward iteration takes off a stack: row `size - done - 1`."""
    if node.target is not _aten.select.int or node.args[1] != 0:
        return False
    number = node.args[2]
    form = [_aten._local_scalar_dense.default, _aten.sub.Tensor, _aten.rsub.Scalar]
    for target in form:
        if not isinstance(number, fx.Node) or number.target is not target:
            return False
        number = number.args[0]
    return isinstance(number, fx.Node) and number.op == "placeholder"


def _strange(where: str) -> str:
    return (
        f"the backward pass of the while_loop at {where} has a form that is not known (torch "
        f"{torch.__version__}); train with a plain Python loop, which is unrolled"
    )


def _check_carries(back: fx.GraphModule, ahead: fx.GraphModule, where: str) -> None:
    """Refuses what torch does not differentiate, but fills with zeros.

    The gradient by a variable whose first value wants no gradient, in a body that depends on it.
    """
    variables = list(_placeholders(ahead))[: len(_outputs(ahead))]
    floats = [node for node in variables if node.meta["val"].dtype.is_floating_point]
    for number, variable in enumerate(floats, 1):  # the first result of a backward body is a count
        if _outputs(back)[number].target is _aten.zeros_like.default and _reaches(variable, ahead):
            raise CaptureError(
                f"torch takes no gradient through loop variable {variables.index(variable)} of the "
                f"while_loop at {where}, because its first value wants none, and the loss would "
                "learn from the last iteration only; let the first value want one: "
                "torch.zeros(..., requires_grad=True)"
            )


def _reaches(variable: fx.Node, module: fx.GraphModule) -> bool:
    """Whether a float that the body gives depends on the variable."""
    reached, open_nodes = set[fx.Node](), [variable]
    while open_nodes:
        if (node := open_nodes.pop()) not in reached:
            reached.add(node)
            open_nodes += node.users
    return any(
        node in reached and node.meta["val"].dtype.is_floating_point for node in _outputs(module)
    )
