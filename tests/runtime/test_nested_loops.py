"""A loop in a loop over two devices: the values and gradients of one device, under keys of its own.

The outer loop runs three times and the inner one twice each; the inner body is on another device
than the predicates.
"""

import re
from collections.abc import Callable

import pytest
import torch

from tests.clusters import TestCluster
from tests.runtime.graphs import CLUSTER
from tests.runtime.loops import choice
from tracer.model.graph import Graph, Input
from tracer.model.graph_builder import GraphBuilder
from tracer.model.trace_folder import Flag
from tracer.passes.gradients import gradients
from tracer.runtime.session import DirectSession

Start = Callable[..., TestCluster]

OUTER, INNER = 3, 2
HERE, THERE = "/job:ps/task:0", "/job:worker/task:1"
X, W = torch.tensor([0.5, -1.5]), torch.tensor([1.1, 0.9])
FEEDS = {"x:0": X, "w:0": W}


def nested(predicates: str, body: str) -> tuple[Graph, list[str]]:
    """`out` is x · w six times over, one added after each inner loop, and its gradients."""
    b = GraphBuilder()

    def times(n: int, step: Callable[[Input], Input], start: Input, name: str) -> Input:
        _, result = b.while_loop(
            lambda i, _: b.op("Less", i, b.const(n, "int32"), T="int32"),
            lambda i, value: [b.op("AddV2", i, b.const(1, "int32"), T="int32"), step(value)],
            [b.const(0, "int32"), start],
            name=name,
        )
        return result

    with b.device(predicates):
        x, w = b.placeholder([2], name="x"), b.placeholder([2], name="w")

        def multiplied(value: Input) -> Input:
            with b.device(body):
                return b.op("Mul", value, w, name="product", T="float32")

        def row(value: Input) -> Input:
            inner = times(INNER, multiplied, value, "inner")
            return b.op("AddV2", inner, b.const([1.0, 1.0]), T="float32")

        out = b.op("Identity", times(OUTER, row, x, "outer"), name="out", T="float32")
        loss = b.op("Sum", out, b.const([0], "int32"), name="loss")
    graph, found = gradients(b.graph(), [loss], [x, w])
    return graph, ["out:0", *(f"{each.node}:{each.port}" for each in found if each)]


def unrolled() -> list[torch.Tensor]:
    """What eager torch makes of it."""
    x, w = X.clone().requires_grad_(), W.clone().requires_grad_()
    value = x
    for _ in range(OUTER):
        for _ in range(INNER):
            value = value * w
        value = value + 1
    return [value.detach(), *torch.autograd.grad(value.sum(), [x, w])]


def test_two_devices_find_what_one_does_and_eager_torch(start_cluster: Start) -> None:
    graph, names = nested("", "")
    with DirectSession(graph) as session:
        alone = session.run(names, FEEDS)
    graph, names = nested(HERE, THERE)
    found = start_cluster(CLUSTER).session(graph).run(names, FEEDS)
    for ours, single, eager in zip(found, alone, unrolled(), strict=True):
        assert ours.equal(single)
        torch.testing.assert_close(ours, eager)


def test_a_key_says_in_which_frame_and_iteration_its_value_is(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    cluster.session(nested(HERE, THERE)[0]).run("out:0", FEEDS)
    crossings: dict[bool, set[tuple[str, int]]] = {True: set(), False: set()}
    for span in cluster.spans("rendezvous.recv"):
        if found := re.search(r"_outer/inner/product;(\d+):(\d+)$", span.key):
            is_dead = bool(span.flags & Flag.DEAD)
            assert (found[1], int(found[2])) not in crossings[is_dead]
            crossings[is_dead].add((found[1], int(found[2])))
    frames = {frame for frame, _ in crossings[False]}
    assert len(frames) == OUTER
    assert crossings[False] == {(frame, i) for frame in frames for i in range(INNER)}
    last = {(frame, INNER) for frame in frames}  # the predicate says no: the body is dead
    assert last < crossings[True]
    assert {i for _, i in crossings[True] - last} == {0}  # nor is there a fourth inner loop


@pytest.mark.parametrize("taken", [True, False])
def test_the_branch_not_taken_sends_a_dead_value_and_no_bytes(
    start_cluster: Start, taken: bool
) -> None:
    cluster = start_cluster(CLUSTER)
    feeds = {"pred:0": torch.tensor(taken), "x:0": X}
    out = cluster.session(choice()).run("out:0", feeds)
    assert out.equal(X + X if taken else -X)
    crossed = {
        name: (bool(span.flags & Flag.DEAD), span.attributes.get("vizdist.bytes"))
        for span in cluster.spans("rendezvous.recv")
        for name in ("doubled", "negated")
        if f"_cond/{name};" in span.key
    }
    alive, dead = ("doubled", "negated") if taken else ("negated", "doubled")
    assert crossed == {alive: (False, 8), dead: (True, None)}
