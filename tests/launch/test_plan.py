"""A plan survives its way to the tasks; flags that cannot be served are refused with a hint."""

import argparse
from pathlib import Path

import pytest

from tracer.launch.arguments import BadRequest, add_run_flags, plan_from
from tracer.launch.plan import Plan
from tracer.model.cluster import TaskName
from tracer.model.graph import GraphError
from tracer.model.option import Option, OptionError, text_of
from tracer.model.trace_policy import TracePolicy, TracePolicyError
from tracer.record.recorder import Recorder
from tracer.strategies.registry import STRATEGIES
from tracer.strategies.strategy import StrategyError
from tracer.training.trainer import tracing_of

DECLARED = {
    "batch": Option(64, "images", least=1),
    "last": Option("keep", allowed=("keep", "drop")),
}


def asked(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("workload")
    add_run_flags(parser)
    return parser.parse_args(arguments)


def plan_of(*arguments: str) -> Plan:
    return plan_from(asked(*arguments), DECLARED)


def test_a_plan_reads_back_as_it_was_written() -> None:
    topology = ("--strategy", "parameter_server_v1", "--devices", "cpu:2", "--ps", "2")
    more = ("--passes", "replicate_small_constants", "--option", "batch=8")
    plan = plan_of("digits-mlp", *topology, *more)
    declared = STRATEGIES["parameter_server_v1"].options.items()
    own = {name: text_of(option.default) for name, option in declared}
    assert plan.options == {**own, "batch": "8", "last": "keep"}
    assert plan.passes == ("replicate_small_constants",)
    assert not plan.placer.soft
    softly = plan_of("digits-mlp", *topology, *more, "--soft-placement")
    assert softly.placer.soft
    for each in (plan, softly):
        assert Plan.from_json(each.to_json()) == each


def test_a_module_needs_a_strategy_and_a_graph_refuses_one() -> None:
    with pytest.raises(StrategyError, match="one_device"):
        plan_of("digits-mlp")
    with pytest.raises(BadRequest, match="names its devices itself"):
        plan_of("graph.json", "--strategy", "one_device")


def test_a_graph_runs_one_step_and_a_module_a_hundred() -> None:
    assert plan_of("graph.json").steps == 1
    assert plan_of("digits-mlp", "--strategy", "one_device").steps == 100


def test_a_graph_workload_has_options_and_says_itself_how_many_steps_it_is_worth() -> None:
    plan = plan_from(asked("rows", "--option", "batch=8"), DECLARED, is_graph=True)
    assert (plan.strategy, plan.options["batch"], plan.steps) == ("", "8", 0)
    assert plan_from(asked("rows", "--steps", "3"), DECLARED, is_graph=True).steps == 3
    with pytest.raises(BadRequest, match="--strategy is for modules"):
        plan_from(asked("rows", "--strategy", "one_device"), DECLARED, is_graph=True)
    with pytest.raises(OptionError, match="rows declares: batch, last"):
        plan_from(asked("rows", "--option", "rows=8"), DECLARED, is_graph=True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("batch", "write NAME=VALUE"),
        ("btach=3", "did you mean batch.*one_device and digits-mlp declare: prefetch, batch, last"),
        ("batch=0", "batch must be a whole number from 1 on"),
        ("batch=many", "batch must be a whole number from 1 on"),
        ("last=lose", "last must be keep or drop"),
    ],
)
def test_an_option_that_cannot_be_is_refused_with_what_can(text: str, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        plan_of("digits-mlp", "--strategy", "one_device", "--option", text)


def test_an_unknown_pass_gets_the_nearest_name() -> None:
    with pytest.raises(GraphError, match="did you mean replicate_small_constants"):
        plan_of("graph.json", "--passes", "replicate_constants")


def test_an_unknown_strategy_gets_the_nearest_name() -> None:
    with pytest.raises(StrategyError, match="did you mean parameter_server_v1"):
        plan_of("digits-mlp", "--strategy", "parameter_server1")


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--steps", "0"),
        ("--seed", "-1"),
        ("--step-timeout", "0"),
        ("--connect-timeout", "nan"),
        ("--session-gc", "-1"),
        ("--session-gc", "inf"),
    ],
)
def test_a_value_out_of_range_is_refused(flag: str, value: str) -> None:
    with pytest.raises(BadRequest, match=flag):
        plan_of("digits-mlp", "--strategy", "one_device", flag, value)


def test_what_is_off_unless_it_is_asked_for_reaches_the_tasks() -> None:
    plain = plan_of("digits-mlp", "--strategy", "one_device")
    assert (plain.limits.session_gc_s, plain.caches_responses) == (0.0, False)
    flags = ("--session-gc", "30", "--cache-responses")
    told = Plan.from_json(plan_of("digits-mlp", "--strategy", "one_device", *flags).to_json())
    assert (told.limits.session_gc_s, told.caches_responses) == (30.0, True)


@pytest.mark.parametrize(
    ("policy", "sampled"),
    [("all", [1, 2, 3, 4]), ("none", []), ("every:2", [1, 3]), ("2-3", [2, 3])],
)
def test_a_trace_policy_picks_steps(policy: str, sampled: list[int]) -> None:
    assert [s for s in range(1, 5) if TracePolicy(policy).samples(s)] == sampled


@pytest.mark.parametrize("text", ["", "every:0", "3", "every", "2-", "every:٣"])
def test_a_trace_policy_that_cannot_be_read_says_what_can(text: str) -> None:
    with pytest.raises(TracePolicyError, match="every:N"):
        TracePolicy(text)


def test_a_range_of_steps_begins_before_it_ends() -> None:
    with pytest.raises(TracePolicyError, match="the first step comes after the last"):
        TracePolicy("8-5")
    assert TracePolicy("5-5").samples(5)


def test_a_step_is_recorded_where_the_policy_says_so_and_there_is_room(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "worker:0")
    tracing = tracing_of(recorder, "run", TaskName("worker", 0), TracePolicy("every:2"))
    assert [tracing.step(n).sampled for n in (1, 2, 3)] == [True, False, True]
    recorder.has_room = lambda: False  # type: ignore[method-assign]
    assert not tracing.step(1).sampled
    recorder.close()
