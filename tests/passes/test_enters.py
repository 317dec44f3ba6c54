"""Where the Enters of a value go that comes in through two loops."""

from tracer.model.cluster import DeviceName
from tracer.model.graph_builder import GraphBuilder
from tracer.ops.registry import lookup
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
    placed = place(b.graph(), [NEAR, FAR], NEAR, lookup)
    assert {placed[name].device for name in entered} == {str(NEAR)}
