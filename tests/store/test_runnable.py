"""What a viewer may start: every bundled workload and strategy, and nothing that is not listed."""

from typing import Any

import pytest

from tracer.model.fault import Fault
from tracer.strategies.registry import STRATEGIES
from tracer.strategies.strategy import Topology
from tracer.workloads.registry import WORKLOADS
from vizdist.store.runnable import NUMBERS, NotRunnable, arguments_of, runnable, tasks_of


def asked(workload: str = "digits-mlp", strategy: str = "mirrored", **more: Any) -> dict[str, Any]:
    return {"workload": workload, "strategy": strategy, **more}


def test_every_workload_and_every_strategy_can_be_started() -> None:
    can = runnable()
    assert can["workloads"].keys() == WORKLOADS.keys()
    assert can["strategies"].keys() == STRATEGIES.keys()
    assert can["strategies"]["parameter_server_v1"]["numbers"] == ["workers", "ps", "devices"]
    assert can["strategies"]["mirrored"]["numbers"] == ["devices"]


def test_what_is_chosen_becomes_the_arguments_of_a_run() -> None:
    numbers = {"workers": "3", "ps": "1", "devices": "2", "steps": "20", "seed": "4"}
    options = {"sync": "true", "batch": "8", "drop_remainder": "false"}
    request = asked("digits-mlp", "parameter_server_v1", numbers=numbers, options=options)
    assert arguments_of(request) == [
        "digits-mlp", "--strategy", "parameter_server_v1",
        "--workers", "3", "--ps", "1", "--devices", "cpu:2", "--steps", "20", "--seed", "4",
        "--option", "sync=true", "--option", "batch=8", "--option", "drop_remainder=false",
    ]  # fmt: skip


def test_a_fault_that_is_chosen_is_asked_for_as_the_command_line_spells_it() -> None:
    numbers = {"workers": "2", "ps": "1"}
    late = {"kind": "delay", "task": "worker:1", "step": "7", "ms": "20"}
    told = arguments_of(asked("digits-mlp", "parameter_server_v1", numbers=numbers, fault=late))
    assert told[-2:] == ["--fault", "delay=20:worker:1@step:7"]
    told = arguments_of(asked(fault={"kind": "kill", "task": "worker:0"}))
    assert told[-2:] == ["--fault", "kill:worker:0@step:5"]
    assert str(Fault.parse(told[-1])) == told[-1]


def test_a_graph_has_no_strategy() -> None:
    assert arguments_of({"workload": "diamond", "strategy": "", "numbers": {"steps": "3"}}) == [
        "diamond", "--steps", "3",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "key"),
    [
        ([], "form"),
        (asked(numbers=[1]), "form"),
        (asked(numbers={"steps": 5}), "form"),
        (asked("os:system"), "choice"),
        (asked("graph.json"), "choice"),
        (asked("--help"), "choice"),
        (asked("digits-mlp", "nothing"), "choice"),
        (asked("digits-mlp", "mirrored --out /tmp"), "choice"),
        (asked(numbers={"ps": "1"}), "choice"),
        (asked(numbers={"out": "1"}), "choice"),
        (asked(numbers={"steps": "0"}), "number"),
        (asked(numbers={"steps": "10001"}), "number"),
        (asked(numbers={"devices": "2,cuda:0"}), "number"),
        (asked(options={"sync": "true"}), "choice"),
        (asked(options={"autoshard": "ALL"}), "choice"),
        (asked(options={"batch": "0"}), "number"),
        (asked(options={"read_ms": "nan"}), "number"),
        (asked(fault={"kind": "explode", "task": "worker:0"}), "choice"),
        (asked(fault={"kind": "kill", "task": "worker:1"}), "choice"),
        (asked(fault={"kind": "drop", "task": "worker:0"}), "choice"),
        (asked(fault={"kind": "kill", "task": "worker:0", "step": "0,kill"}), "number"),
        ({"workload": "diamond", "fault": {"kind": "kill", "task": "worker:0"}}, "choice"),
    ],
)
def test_what_is_none_of_the_choices_is_refused(request_: Any, key: str) -> None:
    with pytest.raises(NotRunnable) as caught:
        arguments_of(request_)
    assert caught.value.key == key


def test_options_of_free_text_are_not_offered() -> None:
    can = runnable()
    offered = [
        option
        for part in (*can["workloads"].values(), *can["strategies"].values())
        for option in part["options"].values()
    ]
    assert offered
    assert all(option["type"] != "str" or option["allowed"] for option in offered)


def test_the_usual_numbers_lie_within_their_bounds() -> None:
    assert all(one.least <= one.usual <= one.most for one in NUMBERS.values())


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_the_tasks_that_are_told_are_those_of_the_strategy(name: str) -> None:
    numbers = {n: "3" for n in runnable()["strategies"][name]["numbers"] if n != "devices"}
    workers, ps = (3 if each in numbers else None for each in ("workers", "ps"))
    topology = Topology(workers, ps)
    tasks = map(str, STRATEGIES[name].cluster(topology).tasks())
    assert sorted(tasks_of(asked("digits-mlp", name, numbers=numbers))) == sorted(tasks)
