"""Scopes of nodes, and the names that folded ones have in the address."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vizdist.analysis.scopes import (
    FAMILIES,
    FRAME,
    bundle_id,
    ends_of,
    group_id,
    parse,
    said,
    scope_of,
)

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


def test_a_scope_holds_the_nodes_of_its_family_alone() -> None:
    nodes = {
        "fc1/w": "VarHandleOp",
        "fc1/w/Read": "ReadVariableOp",
        "fc1/mm": "aten.mm.default",
        "gradients/fc1/mm": "aten.mm.default",
        "train/update_fc1/w": "ResourceApplyAdam",
        "train/update_fc1/w/step": "AssignAddVariableOp",
        "fc10/mm": "aten.mm.default",
        "_cloopfc1/mm_S0": "Enter",
        "fc1": "aten.mm.default",
    }
    found = {family: parse(group_id("fc1", WORKER, family)) for family in FAMILIES}
    held = {
        family: [
            name
            for name, op in nodes.items()
            if scope and scope.holds(name) and scope.is_of_family(op)
        ]
        for family, scope in found.items()
    }
    turning = held.pop(FRAME)  # all that lies in the scope of a loop turns with it
    assert turning == [name for name in nodes if name not in ("fc10/mm", "fc1")]
    assert {family: names for family, names in held.items() if names} == {
        "read": ["fc1/mm"],
        "forward": ["fc1/mm"],
        "backward": ["gradients/fc1/mm"],
        "variables": ["fc1/w"],
        "reads": ["fc1/w/Read"],
        "assignments": ["train/update_fc1/w/step"],
        "updates": ["train/update_fc1/w"],
    }
