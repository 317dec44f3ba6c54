"""What dtype an output has, as far as attributes tell."""

from typing import Any

import pytest

from tracer.model.dtypes import dtype_of
from tracer.model.graph import Graph, GraphError, Input, Node


def chain(length: int, **attrs: Any) -> Graph:
    """`n0` with these attributes, then nodes that say nothing of themselves."""
    rest = [Node(f"n{i}", "Neg", (Input(f"n{i - 1}"),)) for i in range(1, length)]
    return Graph([Node("n0", "Placeholder", attrs=attrs), *rest])


def test_an_output_is_of_the_dtype_that_its_source_states() -> None:
    assert dtype_of(chain(3, dtype="int32"), Input("n2")) == "int32"


def test_many_questions_about_one_graph_walk_it_once() -> None:
    class Counting(dict[str, Node]):
        looks = 0

        def __getitem__(self, name: str) -> Node:
            self.looks += 1
            return super().__getitem__(name)

    nodes = Counting(chain(500, dtype="int32"))
    known: dict[Input, str] = {}
    for name in reversed(nodes):
        assert dtype_of(nodes, Input(name), known) == "int32"
    assert nodes.looks <= 2 * len(nodes)


def test_a_dtype_that_nothing_tells_is_an_error() -> None:
    with pytest.raises(GraphError, match="dtype of output n0 is unknown: op 'Placeholder'"):
        dtype_of(chain(2), Input("n1"))
    circle = {"a": Node("a", "Neg", (Input("b"),)), "b": Node("b", "Neg", (Input("a"),))}
    with pytest.raises(GraphError, match="is unknown"):
        dtype_of(circle, Input("a"))
