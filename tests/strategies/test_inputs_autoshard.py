"""Which worker sees which example: every policy on every data set, as TensorFlow gave them."""

from pathlib import Path

import numpy as np
import pytest

from tests.strategies.inputs_golden import (
    GOLDEN,
    elements,
    files,
    ids_of,
    in_order,
    of_case,
    rows,
    steps,
)
from tracer.ops.kernel import OpError
from tracer.strategies.inputs.autoshard import Policy, sharding_of
from tracer.strategies.inputs.dataset import Rows

SHUFFLED = "range(10).shuffle(10, seed=3) then batch 4, DATA"
CASES = {
    name: case
    for name, case in GOLDEN["cases"].items()
    if "shuffle" not in name and not name.startswith("distribute_datasets_from_function")
}
REFUSED = [name for name, case in CASES.items() if "error" in case["worker0"]]
SHARED_OUT = [
    (name, worker)
    for name, case in CASES.items()
    for worker in (0, 1)
    if name not in REFUSED and "error" not in case[f"worker{worker}"]
]


def local(name: str, worker: int) -> list[list[int]]:
    return [ids_of(step)[0] for step in steps(*of_case(name), worker)]


@pytest.mark.parametrize(("name", "worker"), SHARED_OUT)
def test_a_worker_gets_the_batches_that_tensorflow_gave_it(name: str, worker: int) -> None:
    got = local(name, worker)
    while got and not got[-1]:  # the record leaves them out
        got.pop()
    assert got == CASES[name][f"worker{worker}"]


@pytest.mark.parametrize("worker", [0, 1])
@pytest.mark.parametrize("name", GOLDEN["cases_in_fresh_processes"])
def test_data_end_on_all_workers_at_the_same_step(name: str, worker: int) -> None:
    assert local(name, worker) == GOLDEN["cases_in_fresh_processes"][name][f"worker{worker}"]


def test_one_file_is_too_few_for_two_workers_and_does_not_fall_back_to_data() -> None:
    assert REFUSED == ["1 file of 8 lines, global batch 4, AUTO"]
    for policy in ("AUTO", "FILE"):
        for worker in (0, 1):
            with pytest.raises(OpError, match=r"the dataset only has 1 file\(s\)") as caught:
                steps(rows(files(8), 4), policy, worker)
            assert caught.value.code == "INVALID_ARGUMENT"


def test_a_source_without_files_cannot_be_split_by_file() -> None:
    with pytest.raises(OpError, match="Found an unshardable source dataset") as caught:
        steps(rows(elements(10), 4), "FILE", 0)
    assert caught.value.code == "NOT_FOUND"


@pytest.mark.parametrize(
    ("asked", "of_files", "of_elements"),
    [("AUTO", "FILE", "DATA"), ("DATA", "DATA", "DATA"), ("OFF", "OFF", "OFF")],
)
def test_what_a_policy_becomes_is_told_beside_what_was_asked(
    asked: str, of_files: str, of_elements: str
) -> None:
    for dataset, effective in (
        (rows(files(6, 4, 2), 4), of_files),
        (rows(elements(9), 4), of_elements),
    ):
        sharding = sharding_of(dataset, asked, 2)
        assert (sharding.asked, sharding.effective) == (asked, Policy(effective))


def test_a_shuffle_of_elements_comes_before_the_split() -> None:
    dataset = Rows(elements(10), 4, shuffle=3, epochs=1)
    order = [number for batch in dataset.batches() for number in batch.ids.tolist()]
    assert sorted(order) == list(range(10))
    assert order != list(range(10))
    first, second = ([ids_of(step)[0] for step in steps(dataset, "DATA", w)] for w in (0, 1))
    assert [*zip(first, second, strict=True)] == [
        (order[0:2], order[2:4]),
        (order[4:6], order[6:8]),
        (order[8:9], order[9:10]),
    ]


@pytest.mark.parametrize("worker", [0, 1])
def test_a_shuffle_is_split_as_tensorflow_split_it(worker: int) -> None:
    pairs = zip(*(GOLDEN["cases"][SHUFFLED][f"worker{w}"] for w in (0, 1)), strict=True)
    order = [number for pair in pairs for batch in pair for number in batch]
    got = [ids_of(step)[0] for step in steps(in_order(order, 4), "DATA", worker)]
    assert got == GOLDEN["cases"][SHUFFLED][f"worker{worker}"]


def test_files_of_other_workers_are_never_opened() -> None:
    source = files(5, 5, 5, 5)
    mine = Rows(source, 4, epochs=1).of_files(1, 2)
    list(mine.batches())
    assert isinstance(mine.source, type(source))
    assert [path.name for path in mine.source.opened] == ["1.npz", "3.npz"]


def test_the_steps_of_a_worker_open_its_own_files_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    load = np.load

    def noted(path: Path) -> object:
        opened.append(path.name)
        return load(path)

    monkeypatch.setattr(np, "load", noted)
    assert len(steps(rows(files(4, 5, 6), 3), "FILE", 2, workers=3)) == 6
    assert opened == ["2.npz"]


def test_data_reads_everything_and_throws_the_rest_away() -> None:
    given = steps(rows(elements(10), 4), "DATA", 1)
    assert [(ids_of(step)[0], step.discarded.tolist()) for step in given] == [
        ([2, 3], [0, 1]),
        ([6, 7], [4, 5]),
        ([9], [8]),
    ]


def test_off_gives_every_example_to_both_workers_and_throws_none_away() -> None:
    for worker in (0, 1):
        given = steps(rows(elements(8), 4), "OFF", worker)
        assert [n for step in given for n in ids_of(step)[0]] == list(range(8))
        assert not any(len(step.discarded) for step in given)
