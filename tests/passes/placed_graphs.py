"""Random graphs on random devices: plain ones, and some with conditions and loops."""

from hypothesis import strategies as st

from tracer.model.cluster import DeviceName
from tracer.model.graph import Graph, Input, Node, TensorSpec
from tracer.model.graph_builder import GraphBuilder
from tracer.passes.control_flow import colocate_control_flow

DEVICES = [
    DeviceName(job, task, "CPU", index)
    for job, task in (("ps", 0), ("worker", 0), ("worker", 1))
    for index in (0, 1)
]
SPEC = TensorSpec("float32", (2, 3))


@st.composite
def plain_graphs(draw: st.DrawFn) -> Graph:
    nodes: list[Node] = []
    for i in range(draw(st.integers(1, 14))):
        outputs = [Input(node.name, port) for node in nodes for port in (0, 1)]
        some_outputs = st.lists(st.sampled_from(outputs), max_size=3) if outputs else st.just([])
        names = [node.name for node in nodes]
        some_names = st.sets(st.sampled_from(names), max_size=2) if names else st.just(set())
        device = str(draw(st.sampled_from(DEVICES)))
        inputs, controls = tuple(draw(some_outputs)), tuple(sorted(draw(some_names)))
        nodes.append(Node(f"n{i}", "Op", inputs, controls, device=device, specs=(SPEC, SPEC)))
    return Graph(draw(st.permutations(nodes)))


@st.composite
def control_flow_graphs(draw: st.DrawFn) -> Graph:
    """As `cond` and `while_loop` make them, up to two deep."""
    b = GraphBuilder()

    def some(values: list[Input]) -> Input:
        return draw(st.sampled_from(values))

    def block(values: list[Input], depth: int) -> Input:
        values = list(values)
        kinds = ["add", "wait", "cond", "loop"] if depth else ["add", "wait"]
        for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3)):
            values.append(make[kind](values, depth - 1))
        return values[-1]

    def add(values: list[Input], _depth: int) -> Input:
        return b.op("AddV2", some(values), some(values), T="float32")

    def wait(values: list[Input], _depth: int) -> Input:
        return b.op("Neg", some(values), control_inputs=[some(values)], T="float32")

    def cond(values: list[Input], depth: int) -> Input:
        pred = b.op("Less", some(values), some(values), T="float32")
        (value,) = b.cond(pred, lambda: block(values, depth), lambda: block(values, depth))
        return value

    def loop(values: list[Input], depth: int) -> Input:
        (value,) = b.while_loop(
            lambda x: b.op("Less", x, some([x, *values]), T="float32"),
            lambda x: block([x, *values], depth),
            [some(values)],
        )
        return value

    make = {"add": add, "wait": wait, "cond": cond, "loop": loop}
    block([b.const(1.0), b.const(2.0)], 2)
    device = st.sampled_from(DEVICES[:4])
    return colocate_control_flow(
        Graph(node.with_(device=str(draw(device))) for node in b.graph().nodes)
    )


def placed_graphs() -> st.SearchStrategy[Graph]:
    return st.one_of(plain_graphs(), control_flow_graphs())
