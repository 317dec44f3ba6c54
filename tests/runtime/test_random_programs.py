"""Random programs of conds and loops, nested over three tasks, give what Python gives."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.clusters import running_cluster
from tests.runtime.graphs import CLUSTER, PS_0, WORKER_0, WORKER_1
from tests.runtime.loops import at
from tracer.model.cluster import TaskName
from tracer.model.graph import Graph, Input
from tracer.model.graph_builder import GraphBuilder

TASKS = st.sampled_from([PS_0, WORKER_0, WORKER_1])


@dataclass(frozen=True)
class Add:
    task: TaskName
    amount: int


@dataclass(frozen=True)
class Negate:
    task: TaskName


@dataclass(frozen=True)
class If:
    """Whether x is below the limit is found out on the task."""

    task: TaskName
    limit: int
    true: "Sequence[Statement]"
    false: "Sequence[Statement]"


@dataclass(frozen=True)
class Repeat:
    task: TaskName
    times: int
    width: int
    body: "Sequence[Statement]"


Statement = Add | Negate | If | Repeat


def _some(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, min_size=1, max_size=2)


_NUMBERS = st.integers(-3, 3)
_SIMPLE = st.one_of(st.builds(Add, TASKS, _NUMBERS), st.builds(Negate, TASKS))
STATEMENTS: st.SearchStrategy[Statement] = st.recursive(
    _SIMPLE,
    lambda inner: st.one_of(
        st.builds(If, TASKS, _NUMBERS, _some(inner), _some(inner)),
        st.builds(Repeat, TASKS, st.integers(0, 3), st.integers(1, 3), _some(inner)),
    ),
    max_leaves=6,
)


def in_python(program: Sequence[Statement], x: int) -> int:
    for statement in program:
        match statement:
            case Add(_, amount):
                x += amount
            case Negate():
                x = -x
            case If(_, limit, true, false):
                x = in_python(true if x < limit else false, x)
            case Repeat(_, times, _, body):
                for _ in range(times):
                    x = in_python(body, x)
    return x


def graph_of(program: Sequence[Statement]) -> Graph:
    b = GraphBuilder()
    with b.device(at(WORKER_0)):
        x = b.placeholder([], "int32", name="x")
        b.op("Identity", _built(b, program, x), name="end", T="int32")
    return b.graph()


def _built(b: GraphBuilder, program: Sequence[Statement], x: Input) -> Input:
    for statement in program:
        with b.device(at(statement.task)):
            x = _statement(b, statement, x)
    return x


def _statement(b: GraphBuilder, statement: Statement, x: Input) -> Input:
    def number(value: int) -> Input:
        return b.const(value, "int32")

    match statement:
        case Add(_, amount):
            return b.op("AddV2", x, number(amount), T="int32")
        case Negate():
            return b.op("Neg", x, T="int32")
        case If(_, limit, true, false):
            below = b.op("Less", x, number(limit), T="int32")
            return b.cond(below, lambda: _built(b, true, x), lambda: _built(b, false, x))[0]
        case Repeat(_, times, width, body):
            return b.while_loop(
                lambda i, _: b.op("Less", i, number(times), T="int32"),
                lambda i, y: [b.op("AddV2", i, number(1), T="int32"), _built(b, body, y)],
                [number(0), x],
                parallel_iterations=width,
            )[1]


@settings(max_examples=40, deadline=None)
@given(program=st.lists(STATEMENTS, min_size=1, max_size=3), x=_NUMBERS)
def test_a_program_gives_what_python_gives(program: list[Statement], x: int) -> None:
    with running_cluster("near", CLUSTER, step_timeout_s=20) as cluster:
        fed = {"x:0": torch.tensor(x, dtype=torch.int32)}
        assert cluster.session(graph_of(program)).run("end:0", fed).item() == in_python(program, x)
