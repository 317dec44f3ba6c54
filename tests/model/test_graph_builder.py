"""Graphs by hand: scopes of names, devices and control inputs, as in TF's graph mode."""

import pytest

from tracer.model.graph import Input
from tracer.model.graph_builder import GraphBuilder


def test_scopes_name_nodes_and_repeated_names_are_numbered() -> None:
    b = GraphBuilder()
    with b.name_scope("train"):
        first, second, third = (b.const(0.0, name="w") for _ in range(3))
    assert [first, second, third] == [Input("train/w"), Input("train/w_1"), Input("train/w_2")]


def test_the_inner_device_wins_part_by_part() -> None:
    b = GraphBuilder()
    with b.device("/job:ps/task:1"), b.device("/task:2/device:CPU:0"):
        b.op("NoOp", name="inner")
    b.op("NoOp", name="outer")
    graph = b.graph()
    assert graph["inner"].requested_device == "/job:ps/task:2/device:CPU:0"
    assert not graph["outer"].requested_device


def test_a_device_function_is_asked_for_each_node() -> None:
    b = GraphBuilder()
    with b.device(lambda node: "/job:ps" if node.op == "VarHandleOp" else "/job:worker"):
        b.op("VarHandleOp", name="v")
        b.op("NoOp", name="n")
    assert [node.requested_device for node in b.graph().nodes] == ["/job:ps", "/job:worker"]


def test_control_dependencies_add_up_and_end_with_their_scope() -> None:
    b = GraphBuilder()
    one, two = b.op("NoOp", name="one"), b.op("NoOp", name="two")
    with b.control_dependencies([one]), b.control_dependencies([two, one]):
        b.op("NoOp", name="after")
    b.op("NoOp", name="free", control_inputs=[two])
    graph = b.graph()
    assert graph["after"].control_inputs == ("one", "two")
    assert graph["free"].control_inputs == ("two",)


def test_a_scope_ends_when_its_body_fails() -> None:
    b = GraphBuilder()
    with pytest.raises(RuntimeError), b.name_scope("lost"):
        raise RuntimeError
    assert b.op("NoOp") == Input("NoOp")


def test_a_node_remembers_the_line_that_made_it() -> None:
    b = GraphBuilder()
    b.placeholder([2], name="x")
    source = b.graph()["x"].source
    assert source.split(":")[0].endswith("test_graph_builder.py")
    assert int(source.split(":")[1]) > 0
