"""Scopes of nodes, and the names that folded ones have in the address."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vizdist.analysis.scopes import bundle_id, ends_of, group_id, parse, said, scope_of

WORKER = "/job:worker/replica:0/task:1/device:CPU:0"
NAMES = st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda text: "/* " not in text)


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("fc1/addmm", "fc1"),
        ("gradients/fc1/mm", "fc1"),
        ("gradients/fc1_grad/tuple/control_dependency", "fc1_grad"),
        ("train/update_fc1/weight", "fc1"),
        ("gradients/ones_like", "gradients"),
        ("train/update", "train"),
        ("loss", ""),
    ],
)
def test_a_layer_has_one_scope_in_all_phases(name: str, scope: str) -> None:
    assert scope_of(name, 8) == scope


@given(NAMES, NAMES)
def test_the_id_of_a_scope_says_what_it_was_made_of(scope: str, band: str) -> None:
    assert parse(group_id(scope, band, "forward")) == (scope, "forward", band)


@given(NAMES)
def test_any_other_name_is_no_scope(name: str) -> None:
    assert parse(name) is None
    assert parse(f"{name}/* no such family @ {WORKER}") is None


def test_a_bundle_is_named_by_the_tiles_it_joins() -> None:
    ends = (group_id("fc", WORKER, "backward"), "train/update_fc/w")
    assert ends_of(bundle_id(*ends, control=False)) == ends
    assert ends_of(bundle_id(*ends, control=True)) == ends
    assert ends_of("a→b") is None
    assert said(bundle_id(*ends, control=True)) == (
        "fc → train/update_fc/w", "", "worker:1 CPU:0",
    )  # fmt: skip


def test_a_scope_holds_the_nodes_of_its_pass_alone() -> None:
    nodes = ["fc1/mm", "gradients/fc1/mm", "train/update_fc1/w", "fc10/mm", "fc1"]
    held = {
        family: [name for name in nodes if found and found.holds(name)]
        for family in ("forward", "backward", "updates")
        for found in [parse(group_id("fc1", WORKER, family))]
    }
    assert held == {
        "forward": ["fc1/mm"],
        "backward": ["gradients/fc1/mm"],
        "updates": ["train/update_fc1/w"],
    }
