"""Pruning: what a request needs stays, and the client's ends are put on it."""

import pytest

from tracer.model.cluster import DeviceName
from tracer.model.graph import Graph, GraphError, Input
from tracer.model.graph_builder import GraphBuilder
from tracer.passes.prune import prune

CLIENT = DeviceName("worker", 0, "CPU", 0)
LOCAL = DeviceName("localhost", 0, "CPU", 0)


def chain() -> Graph:
    """x → a → b → c, and d beside it with a control edge from x."""
    b = GraphBuilder()
    x = b.placeholder([2], name="x")
    a = b.op("Neg", x, name="a", T="float32")
    y = b.op("Unpack", a, name="b", T="float32", num=2)
    b.op("Neg", Input(y.node, 1), name="c", T="float32")
    b.op("NoOp", name="d", control_inputs=[x])
    return b.graph()


def test_what_nothing_needs_falls_away() -> None:
    pruned = prune(chain(), [], ["a:0"], [], CLIENT)
    assert list(pruned) == ["x", "a", "_send_a_0"]
    assert pruned["_send_a_0"].inputs == (Input("a"),)


def test_a_target_keeps_what_it_waits_for() -> None:
    assert list(prune(chain(), [], [], ["d"], CLIENT)) == ["x", "d"]


def test_a_feed_takes_the_place_of_what_made_the_value() -> None:
    pruned = prune(chain(), ["b:1"], ["c:0"], [], CLIENT)
    assert list(pruned) == ["_recv_b_1", "c", "_send_c_0"]
    assert pruned["c"].inputs == (Input("_recv_b_1"),)
    assert pruned["_recv_b_1"].attrs["tensor_name"] == "b:1"
    assert pruned["_recv_b_1"].attrs["edge_kind"] == "feed"


def test_the_other_outputs_of_a_fed_node_still_come_from_it() -> None:
    pruned = prune(chain(), ["b:1"], ["b:0", "c:0"], [], CLIENT)
    assert {"x", "a", "b"} <= pruned.keys()


def test_what_waits_for_a_fed_placeholder_waits_for_the_feed() -> None:
    pruned = prune(chain(), ["x:0"], [], ["d"], CLIENT)
    assert list(pruned) == ["_recv_x_0", "d"]
    assert pruned["d"].control_inputs == ("_recv_x_0",)


def test_a_tensor_fed_and_fetched_never_reaches_the_runtime() -> None:
    assert not prune(chain(), ["x:0"], ["x:0"], [], CLIENT)


def test_a_feed_that_nothing_needs_is_no_error() -> None:
    assert list(prune(chain(), ["c:0"], ["a:0"], [], CLIENT)) == ["x", "a", "_send_a_0"]


def test_the_same_tensor_named_twice_is_one() -> None:
    once, twice = (prune(chain(), ["x:0"] * n, ["a:0"] * n, ["d"] * n, CLIENT) for n in (1, 2))
    assert list(once.nodes) == list(twice.nodes)


def test_without_a_cluster_values_come_as_arguments() -> None:
    pruned = prune(chain(), ["b:1", "a:0"], ["c:0"], [], LOCAL)
    assert list(pruned) == ["_arg_b_1_1", "c", "_retval_c_0_0"]
    assert pruned["_arg_b_1_1"].attrs["index"] == 1
    assert pruned["_arg_b_1_1"].attrs["T"] == "float32"


@pytest.mark.parametrize(
    ("feeds", "fetches", "targets", "hint"),
    [
        ([], ["aa:0"], [], "fetch 'aa:0': .* no operation 'aa'; near are a"),
        ([], ["a:7"], [], "exists but has only 1 output"),
        ([], ["b:2"], [], "exists but has only 2 outputs"),
        (["nope:0"], [], [], "feed 'nope:0': .* no operation 'nope'"),
        ([], [], ["nope"], "target 'nope'"),
    ],
)
def test_a_name_of_nothing_is_refused(
    feeds: list[str], fetches: list[str], targets: list[str], hint: str
) -> None:
    with pytest.raises(GraphError, match=hint):
        prune(chain(), feeds, fetches, targets, CLIENT)
