"""Accumulators in a cluster: gradients of workers meet on a ps, whose update waits for them."""

import threading
from collections.abc import Callable

import pytest
import torch

from tests.clusters import TestCluster, running_cluster
from tests.runtime.graphs import CLUSTER, WORKER_0, WORKER_1
from tracer.model.graph import Graph
from tracer.model.graph_builder import GraphBuilder
from tracer.runtime.interfaces import StepError

Start = Callable[..., TestCluster]


def accumulating(worker: str = "/job:worker/task:0") -> Graph:
    """`worker` applies the fed gradient `g` of the fed step; `mean` takes two on the ps."""
    b = GraphBuilder()
    with b.device(worker):
        gradient, step = b.placeholder([2], name="g"), b.placeholder([], "int64", name="step")
        wanted = b.placeholder([], "int32", name="wanted")
    with b.device("/job:ps/task:0"):
        accumulator = b.op("ResourceConditionalAccumulator", name="acc", dtype="float32", shape=[2])
        b.op("ResourceAccumulatorNumAccumulated", accumulator, name="count")
    # these ask for no device: they go with the accumulator
    b.op("ResourceAccumulatorApplyGradient", accumulator, step, gradient, name="apply")
    b.op("ResourceAccumulatorTakeGradient", accumulator, wanted, name="mean", dtype="float32")
    return b.graph()


def given(step: int, *gradient: float) -> dict[str, torch.Tensor]:
    return {"g:0": torch.tensor(gradient), "step:0": torch.tensor(step)}


WANT_TWO = {"wanted:0": torch.tensor(2, dtype=torch.int32)}


def test_gradients_of_two_workers_meet_and_whoever_takes_waits_for_both(
    start_cluster: Start,
) -> None:
    cluster = start_cluster(CLUSTER)
    one = cluster.session(accumulating())
    other = cluster.session(accumulating("/job:worker/task:1"), at=WORKER_1)
    chief = cluster.session(accumulating())
    assert chief.run("count:0").item() == 0
    means: list[list[float]] = []
    taker = threading.Thread(target=lambda: means.append(chief.run("mean:0", WANT_TWO).tolist()))
    taker.start()
    one.run("apply", given(0, 1.0, 2.0))
    assert not means
    other.run("apply", given(0, 3.0, 6.0))
    taker.join(10)
    assert means == [[2.0, 4.0]]


@pytest.mark.parametrize("executor", ["generated", "queue"])
def test_a_stale_gradient_is_dropped_and_its_span_says_so(
    start_cluster: Start, executor: str
) -> None:
    cluster = start_cluster(CLUSTER, executor=executor)
    session = cluster.session(accumulating())
    for step in (0, 0, 1, 0):
        session.run("apply", given(step, 1.0, 1.0))
        if step == 0 and session.run("count:0").item() == 2:
            session.run("mean:0", WANT_TWO)
    assert session.run("count:0").item() == 1
    cluster.leave()
    applied = [span for span in cluster.spans("op.run") if span.name == "apply"]
    told = [bool(span.attributes.get("vizdist.dropped")) for span in applied]
    assert sorted(told) == [False, False, False, True]
    versions = sorted(int(span.attributes.get("vizdist.variable.version", 0)) for span in applied)
    assert versions == [0, 0, 1, 1]


def test_a_step_that_waits_in_vain_takes_nothing(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER, step_timeout_s=0.3)
    session = cluster.session(accumulating(), at=WORKER_0)
    session.run("apply", given(0, 1.0, 1.0))
    with pytest.raises(StepError, match="did not end within"):
        session.run("mean:0", WANT_TWO)
    session.run("apply", given(0, 3.0, 3.0))
    assert session.run("mean:0", WANT_TWO).tolist() == [2.0, 2.0]


def test_a_step_that_waits_for_who_has_died_ends_with_that_word_and_takes_nothing() -> None:
    """Whoever takes has no connection to those who would put something in."""
    died: list[StepError] = []
    with running_cluster("near", CLUSTER, lost=lambda: died[0] if died else None) as cluster:
        session = cluster.session(accumulating(), at=WORKER_0)
        session.run("apply", given(0, 1.0, 1.0))
        news = StepError("ABORTED", "a task of this session died")
        threading.Timer(0.1, died.append, [news]).start()
        with pytest.raises(StepError, match="a task of this session died") as caught:
            session.run("mean:0", WANT_TWO)
        assert caught.value.code == "ABORTED"
        died.clear()
        session.run("apply", given(0, 3.0, 3.0))
        assert session.run("mean:0", WANT_TWO).tolist() == [2.0, 2.0]
