"""Nodes of collectives: what their attributes come to, and those that cannot be served."""

from dataclasses import replace
from typing import Any

import pytest

from tests.ops.graph_runner import context
from tracer.model.collective import Collective
from tracer.model.graph import Node
from tracer.ops.kernel import JoinCollective, OpError
from tracer.ops.registry import lookup

DEVICES = tuple(f"/job:localhost/replica:0/task:0/device:CPU:{rank}" for rank in range(2))


class Runtime:
    """Keeps what is asked of it."""

    def __init__(self, *, is_native: bool = False) -> None:
        self.is_native = is_native
        self.asked: list[Collective] = []

    def rank(self, collective: Collective) -> JoinCollective:
        self.asked.append(collective)
        return lambda *_: lambda: None


def bound(op: str, *, is_native: bool = False, **attrs: Any) -> Collective:
    """What the node of rank 0 asks for."""
    runtime = Runtime(is_native=is_native)
    node = Node("n", op, attrs={"T": "float32", "group_devices": DEVICES, **attrs})
    lookup(op).bind(node, replace(context(), collectives=runtime))
    return runtime.asked[0]


@pytest.mark.parametrize(
    ("op", "hint", "algorithm"),
    [
        ("CollectiveReduceV2", "auto", "ring"),
        ("CollectiveReduceV2", "tree", "tree"),
        ("CollectiveGatherV2", "tree", "ring"),
        ("CollectiveBcastSendV2", "ring", "tree"),
        ("CollectiveBcastSendV2", "native", "native"),
    ],
)
def test_the_algorithm_that_is_told_is_the_one_that_runs(
    op: str, hint: str, algorithm: str
) -> None:
    assert bound(op, communication_hint=hint).algorithm == algorithm
    assert bound(op, communication_hint=hint, is_native=True).algorithm == "native"


@pytest.mark.parametrize("op", ["CollectiveBcastSendV2", "CollectiveBcastRecvV2"])
@pytest.mark.parametrize("source", [-1, 2])
def test_who_broadcasts_is_one_of_the_ranks(op: str, source: int) -> None:
    with pytest.raises(OpError, match=f"n has source {source}; it is a rank, 0 to 1"):
        bound(op, source=source)


def test_the_source_gives_and_no_other_rank_does() -> None:
    assert bound("CollectiveBcastSendV2", source=0).source == 0
    assert bound("CollectiveBcastRecvV2", source=1).source == 1
    with pytest.raises(OpError, match=r"rank 0 gets, and rank 0 is the source; use .*SendV2"):
        bound("CollectiveBcastRecvV2", source=0)
    with pytest.raises(OpError, match=r"rank 0 gives, and rank 1 is the source; use .*RecvV2"):
        bound("CollectiveBcastSendV2", source=1)
