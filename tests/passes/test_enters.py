"""Where the Enters of a value go, and what goes with them."""

from typing import Any

from tracer.model.cluster import DeviceName
from tracer.model.graph_builder import GraphBuilder
from tracer.ops.registry import lookup
from tracer.passes.control_flow import colocate_control_flow
from tracer.passes.place import place

NEAR, FAR = DeviceName("worker", 0, "CPU", 0), DeviceName("worker", 1, "CPU", 0)


def test_an_enter_of_an_enter_goes_to_the_consumer_of_both() -> None:
    """Alone on its device it would hand its value to the first iteration only."""
    b = GraphBuilder()
    with b.device("/job:worker/task:0"):
        x, k = b.placeholder([], name="x"), b.placeholder([], name="k")
        b.while_loop(
            lambda v: b.op("Less", v, b.const(9.0)),
            lambda v: b.while_loop(
                lambda w: b.op("Less", w, b.const(9.0)),
                lambda w: b.op("Add", w, k, name="sum"),
                [v],
                name="inner",
            ),
            [x],
            name="outer",
        )
    entered = ["outer/inner/sum/Enter", "outer/inner/sum/Enter_1"]
    for name in entered:
        b.replace(name, requested_device=str(FAR))
    placed = colocate_control_flow(place(b.graph(), [NEAR, FAR], NEAR, lookup))
    assert {placed[name].device for name in entered} == {str(NEAR)}


def test_a_switch_follows_an_enter_that_moves_and_so_does_the_enter_of_its_predicate() -> None:
    """Elsewhere the predicate would be handed to the first iteration only."""
    b = GraphBuilder()
    frame: dict[str, Any] = {"frame_name": "loop", "is_constant": True, "parallel_iterations": 10}
    with b.device("/job:worker/task:0"):
        x, p = b.placeholder([], name="x"), b.op("Placeholder", name="p", dtype="bool", shape=[])
        value = b.op("Enter", x, name="value", **frame)
        with b.device("/job:worker/task:1"):
            b.op("Mul", value, value, name="product")
        predicate = b.op("Enter", p, name="predicate", **frame)
        b.op("Switch", value, predicate, name="switch")
    placed = colocate_control_flow(place(b.graph(), [NEAR, FAR], NEAR, lookup))
    moved = {name: placed[name].device for name in ("value", "predicate", "switch")}
    assert moved == dict.fromkeys(moved, str(FAR))


def test_an_enter_and_the_switch_of_its_value_stay_with_the_switch() -> None:
    b = GraphBuilder()
    frame: dict[str, Any] = {"frame_name": "loop", "is_constant": True, "parallel_iterations": 10}
    with b.device("/job:worker/task:0"):
        x, p = b.placeholder([], name="x"), b.op("Placeholder", name="p", dtype="bool", shape=[])
        value, predicate = (b.op("Enter", each, **frame) for each in (x, p))
    with b.device("/job:worker/task:1"):
        b.op("Switch", value, predicate, name="switch")
    placed = colocate_control_flow(place(b.graph(), [NEAR, FAR], NEAR, lookup))
    assert {placed[name].device for name in (value.node, predicate.node, "switch")} == {str(FAR)}
