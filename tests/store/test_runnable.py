"""What a viewer may start: every bundled workload and strategy, and nothing that is not listed."""

from typing import Any

import pytest

from tracer.strategies.registry import STRATEGIES
from tracer.workloads.registry import WORKLOADS
from vizdist.store.runnable import NUMBERS, NotRunnable, arguments_of, runnable


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
