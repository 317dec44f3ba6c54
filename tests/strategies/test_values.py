"""Every synchronization and aggregation of a variable does what TensorFlow's does (G15)."""

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.strategies.sessions import DEVICES, on_devices, session
from tracer.model.cluster import TaskName
from tracer.model.graph import Input, TensorSpec
from tracer.model.graph_builder import GraphBuilder
from tracer.model.literal import literal_of
from tracer.strategies.contexts import DistributionError, ReplicaContext, current
from tracer.strategies.cross_device import CollectiveAllReduce, ReductionToOneDevice
from tracer.strategies.distribution import Distribution
from tracer.strategies.values import DistributedVariable, PerReplica

GOLDEN = json.loads(
    (Path(__file__).parent.parent / "golden" / "c_mirrored_variables.json").read_text()
)
MADE = [each for each in GOLDEN["variables"] if "create" not in each]
METHODS = ("assign_add", "assign_sub", "assign")
ACROSS = {f"cross_replica_ctx.{method}(6.0)": method for method in ("assign", "assign_add")}


def two_replicas(**options: Any) -> Distribution:
    return Distribution(GraphBuilder(), DEVICES[:2], ReductionToOneDevice(), **options)


def variable_of(case: Mapping[str, Any], distribution: Distribution) -> DistributedVariable:
    rules = {name: case[name] for name in ("synchronization", "aggregation")}
    return distribution.variable("v", GOLDEN["initial_value"], **rules)


def replica() -> int:
    context = current()
    assert isinstance(context, ReplicaContext)
    return context.replica


def says(case: Mapping[str, Any]) -> str:
    return f"{case['synchronization']}-{case['aggregation']}"


class Probe:
    """A variable, one write to it, and every way to look at it; each is a step of its own."""

    def __init__(
        self,
        case: Mapping[str, Any],
        write: Callable[[Distribution, DistributedVariable], Any],
        before: Callable[[Distribution, DistributedVariable], Any] | None = None,
    ) -> None:
        self.distribution = two_replicas()
        with self.distribution.scope():
            self.variable = variable_of(case, self.distribution)
            self._before = self._targets(before) if before else []
            self._write = self._targets(write)
            self._inside = self.distribution.run(self.variable.read).values
            self._across = self._or_error(self.variable.read)

    def _targets(self, write: Callable[[Distribution, DistributedVariable], Any]) -> list[str]:
        done = write(self.distribution, self.variable)
        ends = done.values if isinstance(done, PerReplica) else (done,)
        return [end.node for end in ends]

    @staticmethod
    def _or_error(read: Callable[[], Input]) -> Input | str:
        try:
            return read()
        except ValueError as error:
            return type(error).__name__

    def values(self) -> dict[str, Any]:
        """What the copies hold after the write, and what reads of the variable give."""
        inits = [each.node for each in self.distribution.initializers]
        with session(self.distribution.builder) as opened:
            opened.run(inits)
            for targets in (self._before, self._write):
                if targets:
                    opened.run(targets)
            inside = [value.item() for value in opened.run([f"{i}:0" for i in self._inside])]
            across = self._across
            if isinstance(across, Input):
                across = opened.run(f"{across}:0").item()
        return {"inside": inside, "across": across}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", MADE, ids=says)
def test_replicas_that_write_leave_what_they_leave_in_tensorflow(
    case: Mapping[str, Any], method: str
) -> None:
    golden = case[f"replica_ctx.{method}"]
    read = golden["read_in_cross_replica"]
    probe = Probe(case, lambda d, v: d.run(lambda: getattr(v, method)(replica() + 1.0)))
    found = probe.values()
    assert found["inside"] == golden["components_after"] == golden["read_in_replica"]
    refused = isinstance(read, dict)
    assert ("Error" in str(found["across"])) == refused
    if not refused:
        assert found["across"] == read


@pytest.mark.parametrize("way", ACROSS)
@pytest.mark.parametrize("case", MADE, ids=says)
def test_a_write_from_outside_leaves_what_it_leaves_in_tensorflow(
    case: Mapping[str, Any], way: str
) -> None:
    golden, method = case[way], ACROSS[way]

    def write(_: Distribution, variable: DistributedVariable) -> Any:
        return getattr(variable, method)(6.0)

    def part(distribution: Distribution, variable: DistributedVariable) -> Any:
        return distribution.run(lambda: variable.assign(10.0 + replica()))

    if "error" in golden:
        with pytest.raises(ValueError, match="variable 'v'"):
            Probe(case, write)
        return
    parts = golden["components_before"] == [10.0, 11.0]
    found = Probe(case, write, part if parts else None).values()
    assert found["inside"] == golden["components_after"]
    assert found["across"] == golden["read"]


def test_copies_have_the_names_and_devices_of_tensorflow() -> None:
    for case in MADE:
        with (distribution := two_replicas()).scope():
            variable = variable_of(case, distribution)
        assert [f"{copy.name}:0" for copy in variable.copies] == case["component_names"]
        assert [copy.device for copy in variable.copies] == case["component_devices"]


def test_a_synchronization_of_none_is_refused() -> None:
    for case in GOLDEN["variables"]:
        if "create" in case:
            with pytest.raises(DistributionError, match=r"'v'.*ON_WRITE, ON_READ"):
                variable_of(case, two_replicas())


def test_values_of_replicas_are_reduced_and_gathered() -> None:
    distribution = two_replicas()
    builder = distribution.builder
    with distribution.scope():
        numbers = PerReplica((builder.const(1.0), builder.const(2.0)))
        rows = PerReplica((builder.const([0.0, 1.0]), builder.const([0.0, 1.0, 2.0])))
        wanted = [
            *(distribution.reduce(op, numbers) for op in ("SUM", "MEAN")),
            *(distribution.reduce(op, rows, axis=0) for op in ("SUM", "MEAN")),
            distribution.reduce("MEAN", 5.0),
            distribution.gather(rows),
        ]
        with pytest.raises(ValueError, match="no PerReplica value"):
            distribution.reduce("SUM", 5.0)
    *singles, gathered = [value.tolist() for value in on_devices(builder, wanted)]
    reduced = GOLDEN["strategy.reduce of per-replica 1.0, 2.0"]
    by_row = GOLDEN["strategy.reduce over axis 0 of [0,1] and [0,1,2]"]
    assert singles == pytest.approx([*reduced.values(), *by_row.values(), 5.0])
    assert gathered == GOLDEN["strategy.gather axis 0 of [0,1] and [0,1,2]"]


def test_replicas_reduce_among_themselves() -> None:
    for op, expected in GOLDEN["all_reduce in replica ctx"].items():
        distribution = two_replicas()

        def step(op: str = op) -> Any:
            context = current()
            assert isinstance(context, ReplicaContext)
            return context.all_reduce(op, context.builder.const(context.replica + 1.0))

        with distribution.scope():
            made = distribution.run(step)
        values = on_devices(distribution.builder, list(made.values))
        assert [value.item() for value in values] == expected


def test_the_mean_of_whole_numbers_is_refused() -> None:
    distribution = two_replicas()
    counts = PerReplica(tuple(distribution.builder.const(each, "int32") for each in (1, 2)))
    with distribution.scope(), pytest.raises(DistributionError, match="MEAN of int32"):
        distribution.reduce("MEAN", counts)


def test_means_of_rows_are_of_numbers_that_have_one_and_of_all_replicas() -> None:
    distribution = two_replicas()
    rows = PerReplica(tuple(distribution.builder.const([each] * 2, "int32") for each in (1, 2)))
    with distribution.scope():
        with pytest.raises(DistributionError, match="MEAN of int32"):
            distribution.reduce("MEAN", rows, axis=0)
        with pytest.raises(DistributionError, match="ONLY_FIRST_REPLICA is asked for with axis 0"):
            distribution.reduce("ONLY_FIRST_REPLICA", rows, axis=0)


def test_a_mean_among_several_graphs_is_over_the_replicas_of_all() -> None:
    workers = [str(TaskName("worker", index).device("CPU", 0)) for index in (0, 1)]
    reduction = CollectiveAllReduce(workers, ranks=(0,), between_graphs=True)
    distribution = Distribution(GraphBuilder(), workers[:1], reduction)
    builder = distribution.builder
    with distribution.scope():
        mean = distribution.reduce("MEAN", PerReplica((builder.const(3.0),)))
        by_row = distribution.reduce("MEAN", PerReplica((builder.const([3.0, 4.0]),)), axis=0)
    count = builder[mean.node].inputs[1]
    assert builder[mean.node].op == "RealDiv"
    assert builder[count.node].attrs["value"] == literal_of("float32", 2.0)
    assert "CollectiveReduceV2" in ops_before(builder, builder[by_row.node].inputs[1])


def ops_before(builder: GraphBuilder, value: Input) -> set[str]:
    node = builder[value.node]
    return {node.op}.union(*(ops_before(builder, each) for each in node.inputs))


def test_copies_that_part_are_told_once_with_the_remedy(caplog: pytest.LogCaptureFixture) -> None:
    distribution = two_replicas()
    with distribution.scope(), caplog.at_level(logging.WARNING):
        counter = distribution.variable("counter", 0.0)
        distribution.run(lambda: counter.assign_add(1.0))
        distribution.run(lambda: counter.assign_add(1.0))
    (told,) = [record.getMessage() for record in caplog.records]
    assert "'counter'" in told
    assert "replica context" in told
    assert "aggregation (SUM, MEAN, ONLY_FIRST_REPLICA)" in told
    assert counter.has_diverged


@pytest.mark.parametrize(
    ("aggregation", "value"), [("SUM", 2), ("MEAN", 1), ("ONLY_FIRST_REPLICA", 1)]
)
def test_a_counter_with_an_aggregation_is_the_same_on_every_copy(
    aggregation: str, value: float
) -> None:
    case = {"synchronization": "AUTO", "aggregation": aggregation}
    probe = Probe(case, lambda d, v: d.run(lambda: v.assign_add(1.0)))
    assert probe.values() == {"inside": [10.0 + value] * 2, "across": 10.0 + value}


def test_a_variable_made_outside_of_the_scope_is_named_where_it_is_used() -> None:
    outside, distribution = two_replicas(), two_replicas()
    foreign = outside.variable("embedding", [1.0, 2.0])
    with distribution.scope(), pytest.raises(DistributionError) as refused:
        distribution.run(foreign.read)
    text = str(refused.value)
    assert "'embedding'" in text
    assert "test_values.py:" in text
    assert "replica 0" in text
    assert "distribution.scope()" in text


def test_one_copy_for_all_replicas_takes_their_sum_once() -> None:
    distribution = two_replicas(copies_on=lambda _: DEVICES[:1])
    with distribution.scope():
        shared = distribution.variable("v", 10.0, aggregation="SUM")
        alone = distribution.variable("w", 10.0)
        done = distribution.run(lambda: shared.assign_add(replica() + 1.0))
        with pytest.raises(DistributionError, match="one copy for all replicas"):
            distribution.run(lambda: alone.assign_add(1.0))
        value = shared.read()
    with session(distribution.builder) as opened:
        opened.run([each.node for each in distribution.initializers])
        opened.run([each.node for each in done.values])
        assert opened.run(f"{value}:0").item() == 13.0


@pytest.mark.parametrize("aggregation", ["NONE", "SUM"])
def test_a_replica_may_write_plain_numbers_also_where_replicas_meet(aggregation: str) -> None:
    with (distribution := two_replicas()).scope():
        variable = distribution.variable("v", [0.0, 0.0], aggregation=aggregation)
        done = distribution.run(lambda: variable.assign([1.0, 2.0]))
        value = variable.read()
    with session(distribution.builder) as opened:
        opened.run([each.node for each in distribution.initializers])
        opened.run([each.node for each in done.values])
        times = 2 if aggregation == "SUM" else 1
        assert opened.run(f"{value}:0").tolist() == [times * 1.0, times * 2.0]


def test_a_name_that_is_taken_is_refused_with_the_line_that_took_it() -> None:
    with (distribution := two_replicas()).scope():
        distribution.variable("v", 1.0)
        with pytest.raises(DistributionError, match=r"'v' was made at .*test_values\.py:\d+; give"):
            distribution.variable("v", 2.0)


def test_no_replica_makes_a_variable_of_all() -> None:
    with (distribution := two_replicas()).scope():
        refused = pytest.raises(DistributionError, match="`variable` is called inside a replica")
        with refused:
            distribution.run(lambda: distribution.variable("v", 1.0))


def test_creators_in_scope_make_variables_the_last_one_first() -> None:
    distribution, order = two_replicas(), []

    def creator(mark: str) -> Callable[..., DistributedVariable]:
        def create(following: Any, name: str, value: Any, **kwargs: str) -> DistributedVariable:
            order.append(mark)
            made: DistributedVariable = following(name, value, **kwargs)
            return made

        return create

    with (
        distribution.scope(),
        distribution.variable_creator_scope(creator("outer")),
        distribution.variable_creator_scope(creator("inner")),
    ):
        variable = distribution.variable("v", 1.0)
    assert order == ["inner", "outer"]
    assert variable.spec == TensorSpec("float32", ())
