"""Every bundled workload says what it is and what it may be told, and keeps to it."""

import inspect
import json
import re
from pathlib import Path

import pytest
import torch

from tracer.cli import main
from tracer.model.refusal import Refusal
from tracer.passes.describe import describe_graph_file
from tracer.strategies.registry import STRATEGIES
from tracer.workloads.factory import options_of, says_of
from tracer.workloads.registry import GRAPHS, MODULES, WORKLOADS, find_workload
from tracer.workloads.requested import Requested


@pytest.mark.parametrize("name", WORKLOADS)
def test_it_says_what_it_is_and_what_each_option_sets(name: str) -> None:
    factory = find_workload(name)
    assert says_of(factory).endswith(".")
    assert len(says_of(factory)) <= 90
    assert all(option.says for option in options_of(factory, name).values())


@pytest.mark.parametrize("name", WORKLOADS)
def test_its_file_says_what_to_look_at(name: str) -> None:
    doc = inspect.getdoc(inspect.getmodule(find_workload(name))) or ""
    assert doc.startswith(f"{name}: ")
    assert "What to look at: " in doc


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_readme_names_it(name: str) -> None:
    readme = Path(__file__).parents[2] / "README.md"
    assert re.search(rf"[` ]{name}[` ]", readme.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_says_that_it_is_one_and_has_a_place_for_each_node(name: str) -> None:
    requested = Requested.named(name)
    assert requested.is_graph
    made = requested.make_graph({}, seed=0)
    cut = describe_graph_file(made.given)
    assert {row["reason"] for row in cut["placements"]} <= {
        "requested",
        "colocated",
        "resource",
        "control_flow",
    }
    assert cut["transfers"]


@pytest.mark.parametrize("name", MODULES)
def test_no_option_of_it_is_one_of_a_strategy(name: str) -> None:
    declared = options_of(find_workload(name), name).keys()
    assert not [s.name for s in STRATEGIES.values() if declared & s.options.keys()]


@pytest.mark.parametrize("name", MODULES)
def test_the_option_batch_sets_the_rows_of_a_batch(name: str) -> None:
    workload = Requested.named(name).make({"batch": "7"}, seed=0)
    x, y = next(workload.batches(0, 0, 1))
    assert len(x) == len(y) == 7
    with pytest.raises(Refusal, match="batch must be a whole number from 1 on"):
        Requested.named(name).make({"batch": "0"}, seed=0)


@pytest.mark.parametrize("name", MODULES)
def test_the_same_seed_gives_the_same_weights_and_data(name: str) -> None:
    workload = Requested.named(name).make({}, seed=0)
    for seed, is_same in ((3, True), (4, False)):
        ours, theirs = (next(workload.batches(s, 0, 1))[0] for s in (3, seed))
        assert torch.equal(ours, theirs) is is_same
        ours, theirs = (next(workload.make_module(s).parameters()) for s in (3, seed))
        assert torch.equal(ours, theirs) is is_same


def test_the_list_shows_them_with_their_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert set(listed) == {"workloads", "strategies"}
    assert set(listed["workloads"]) == set(WORKLOADS)
    kinds = {name: row["kind"] for name, row in listed["workloads"].items()}
    assert (kinds["digits-mlp"], kinds["diamond"]) == ("module", "graph")
    assert listed["workloads"]["digits-mlp"]["options"]["batch"] == {
        "type": "int", "default": 64, "allowed": [], "least": 1, "says": "images in a batch",
    }  # fmt: skip
    assert main(["list"]) == 0
    assert "--option batch=64  (int: a whole number from 1 on)" in capsys.readouterr().out
