"""Replicas are built by threads that hand a baton, once; no step runs them again (G16, G17)."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes import recorded
from tests.strategies.loss_curve import perceptron
from tests.strategies.sessions import DEVICES
from tests.training.trained import trained
from tracer.model.graph import Input
from tracer.model.graph_builder import GraphBuilder
from tracer.model.step import trace_of_step
from tracer.strategies.contexts import DistributionError, ReplicaContext, current
from tracer.strategies.distribution import Building, Distribution
from tracer.strategies.values import PerReplica


def here() -> ReplicaContext:
    context = current()
    assert isinstance(context, ReplicaContext)
    return context


def two_replicas(building: Building | None = None) -> Distribution:
    return Distribution(GraphBuilder(), DEVICES[:2], building=building)


def test_replicas_take_turns_and_meet_in_merges() -> None:
    order: list[str] = []

    def merge(_: Distribution, values: PerReplica) -> PerReplica:
        order.append(f"merge {values.values}")
        return PerReplica(tuple(value * 10 for value in values.values))

    def step() -> int:
        replica = here().replica
        order.append(f"R{replica} in")
        first = here().merge_call(merge, replica + 1)
        order.append(f"R{replica} mid")
        second: int = here().merge_call(merge, first)
        order.append(f"R{replica} end")
        return second

    with (distribution := two_replicas()).scope():
        made = distribution.run(step)
    assert order == [
        "R0 in", "R1 in", "merge (1, 2)",
        "R0 mid", "R1 mid", "merge (10, 20)",
        "R0 end", "R1 end",
    ]  # fmt: skip
    assert made.values == (100, 200)


def test_each_replica_has_its_own_device_and_name() -> None:
    def step() -> str:
        made = here().builder.const(1.0, name="made")
        here().merge_call(lambda _: None)
        here().builder.op("Identity", made, name="after")
        return made.node

    with (distribution := two_replicas()).scope():
        names = distribution.run(step).values
    assert names == ("made", "replica_1/made")
    asked = {node.name: node.requested_device[-5:] for node in distribution.builder.nodes}
    assert asked == {
        "made": "CPU:0", "replica_1/made": "CPU:1", "after": "CPU:0", "replica_1/after": "CPU:1",
    }  # fmt: skip


def test_an_unequal_number_of_merges_is_refused() -> None:
    def met(_: Distribution) -> None: ...

    def step() -> None:
        for _ in range(here().replica + 1):
            here().merge_call(met)

    before = threading.active_count()
    with (distribution := two_replicas()).scope(), pytest.raises(RuntimeError) as refused:
        distribution.run(step)
    tensorflows, ours = str(refused.value).split(". ", 1)
    assert tensorflows == (
        "Some replicas made a different number of replica_context().merge_call() calls"
    )
    assert ours.startswith("Replica 0 returned after 1, and replica 1 would go on in one more with")
    assert "met" in ours
    assert threading.active_count() == before


def test_a_meeting_of_different_functions_is_refused_since_only_one_would_be_called() -> None:
    with (distribution := two_replicas()).scope():
        v, w = (distribution.variable(name, 0.0, aggregation="SUM") for name in "vw")

        def step(apart: Callable[[], Any]) -> Any:
            return apart() if here().replica else v.assign(1.0)

        with pytest.raises(RuntimeError, match=r"of 'v', replica 1 with .* of 'w'; let all"):
            distribution.run(step, lambda: w.assign(1.0))
        with pytest.raises(RuntimeError, match="variable 'v' by assign, assign_add"):
            distribution.run(step, lambda: v.assign_add(1.0))


def test_a_meeting_in_a_branch_or_a_loop_is_refused_and_named() -> None:
    with (distribution := two_replicas()).scope():
        v = distribution.variable("v", 0.0, aggregation="SUM")

        def branch() -> None:
            builder = here().builder
            is_large = builder.const(value=True, dtype="bool", name="is_large")
            builder.cond(is_large, lambda: v.assign(1.0), lambda: is_large)

        def loop() -> None:
            builder = here().builder
            first = builder.const(1.0)

            def body(x: Input) -> Input:
                met: Input = here().all_reduce("SUM", x)
                return met

            builder.while_loop(lambda x: builder.op("Less", x, x), body, [first])

        says = r"calls merge_call inside the true branch of the cond on 'cond/pred_id', for .*'v'"
        with pytest.raises(DistributionError, match=says):
            distribution.run(branch)
        with pytest.raises(DistributionError, match="inside the loop 'while/while_context', for"):
            distribution.run(loop)


def test_an_error_of_one_replica_stops_all() -> None:
    ended: list[int] = []

    def step() -> None:
        if here().replica:
            raise KeyError("no such layer")
        here().merge_call(lambda _: None)
        ended.append(0)

    before = threading.active_count()
    with (distribution := two_replicas()).scope(), pytest.raises(KeyError, match="no such layer"):
        distribution.run(step)
    assert not ended
    assert threading.active_count() == before


@pytest.mark.parametrize("what", ["run", "reduce", "gather"])
def test_what_belongs_to_the_scope_is_refused_in_a_replica(what: str) -> None:
    calls: dict[str, Any] = {
        "run": lambda d: d.run(lambda: None),
        "reduce": lambda d: d.reduce("SUM", PerReplica((1.0, 2.0))),
        "gather": lambda d: d.gather(PerReplica((1.0, 2.0))),
    }
    distribution, refused = two_replicas(), f"`{what}` is called inside a replica"
    with distribution.scope(), pytest.raises(DistributionError, match=refused):
        distribution.run(lambda: calls[what](distribution))


def test_turns_and_merges_are_recorded_where_the_graph_is_built() -> None:
    run = trace_of_step("test", "run", 0)
    with recorded() as recording:
        with (distribution := two_replicas(Building(recording.recorder, run))).scope():
            counter = distribution.variable("counter", 0.0)
            other = distribution.variable("other", 0.0)

            def step() -> None:
                here().merge_call(lambda _: None)
                for variable in (counter, other, counter):
                    variable.assign_add(1.0)

            distribution.run(step)
        spans = recording.spans(at_end=True)
    turns = [span for span in spans if span.kind.startswith("replica")]
    told = [
        (s.kind, s.attributes.get("vizdist.replica"), s.attributes["vizdist.replica.turn"],
         s.attributes.get("vizdist.replica.paused_by"),
         s.attributes.get("vizdist.variable.diverged"))
        for s in sorted(turns, key=lambda s: s.start)
    ]  # fmt: skip
    assert told == [
        ("replica.build", 0, 0, "merge", None), ("replica.build", 1, 0, "merge", None),
        ("replica.merge", None, 0, None, None),
        ("replica.build", 0, 1, "returned", "counter, other"),
        ("replica.build", 1, 1, "returned", "counter, other"),
    ]  # fmt: skip


def test_threads_build_once_for_each_signature_and_never_in_a_step() -> None:
    spans = trained(perceptron(0.0), "mirrored", 3, devices=("cpu:0", "cpu:1")).spans
    turns = [span for span in spans if span.kind == "replica.build"]
    names = "vizdist.replica", "vizdist.replica.turn"
    assert [tuple(span.attributes[name] for name in names) for span in turns] == [
        (0, 0), (1, 0), (0, 1), (1, 1),
    ]  # fmt: skip
    (capture,) = [span for span in spans if span.kind == "graph.capture"]
    assert {span.parent for span in turns} == {capture.span}
    assert {span.step for span in turns} == {0}
    assert len([span for span in spans if span.kind == "session.run"]) == 3
