"""Which mailboxes a page shows, in which order, and where their marks lie."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vizdist.analysis.mailbox import Transfer
from vizdist.figures.mailbox_rows import ROWS, Look, arranged, axis_of, short_titles

WORKER, PS = (f"/job:{job}/replica:0/task:0/device:CPU:0" for job in ("worker", "ps"))
ROW = Transfer(
    "w", PS, WORKER, "", 0, 8, 0, 0, 0, 10, "sender", "done",
    is_deferred=False, is_remote=True, is_control=False, key="", recv="1", send="2",
)  # fmt: skip


def row(number: int, *, frame: str = "", **values: object) -> Transfer:
    """In a loop `number` is the iteration of one edge, else the number of an edge."""
    edge = "loop" if frame else f"edge_{number}_w{number}"
    key = f"{PS};01;{WORKER};{edge};{frame or 0}:{number if frame else 0}"
    given = {"tensor": f"w{number}", "key": key, "frame": frame, "iteration": number, **values}
    return replace(ROW, **given)  # type: ignore[arg-type]


def tensors(rows: list[Transfer], **look: object) -> list[str]:
    found = arranged(rows, Look(**look))  # type: ignore[typeddict-item]
    return [line.rows[0].tensor for line in found.lines]


def test_the_longest_wait_is_first_unless_another_order_is_asked_for() -> None:
    rows = [
        row(1, wait_ns=5, asked_ns=3, bytes=9),
        row(2, wait_ns=70, asked_ns=1, bytes=7),
        row(3, wait_ns=0, asked_ns=2, bytes=8),
    ]
    assert tensors(rows) == tensors(rows, order="no such") == ["w2", "w1", "w3"]
    assert tensors(rows, order="asked") == ["w2", "w3", "w1"]
    assert tensors(rows, order="bytes") == ["w1", "w3", "w2"]


def test_rows_are_found_by_all_of_some_words() -> None:
    rows = [row(1, state="dead"), row(2), row(3, source=WORKER, target=PS)]
    assert tensors(rows, words="DEAD") == ["w1"]
    assert tensors(rows, words="w ps:0") == ["w1", "w2", "w3"]
    assert tensors(rows, words="w2 ps:0") == ["w2"]
    assert tensors(rows, words="w2 dead") == []


def test_many_rows_come_some_at_a_time_and_a_selected_key_brings_its_own() -> None:
    rows = [row(number, wait_ns=1000 - number) for number in range(100)]
    first = arranged(rows, {})
    assert (len(first.lines), first.num_lines, first.num_pages) == (ROWS, 100, 3)
    assert arranged(rows, {"page": 2}).lines[0].rows[0].tensor == "w80"
    assert arranged(rows, {"page": 99}).page == 2
    found = arranged(rows, {"page": 0, "shown": rows[57].key})
    assert found.page == 1
    assert rows[57] in [line.rows[0] for line in found.lines]


def test_the_iterations_of_a_loop_are_one_row_that_opens() -> None:
    inside = [row(number, frame="77", wait_ns=10 * number, bytes=2) for number in range(6)]
    rows = [*inside, row(9, wait_ns=35)]
    folded = arranged(rows, {})
    assert (folded.num_keys, folded.num_lines) == (7, 2)
    fold, alone = folded.lines
    assert (fold.is_folded, fold.is_open, len(fold.rows), fold.bytes) == (True, False, 6, 12)
    assert (fold.told.iteration, alone.rows[0].tensor) == (5, "w9")
    opened = arranged(rows, {"opened": [fold.edge]})
    assert [line.rows[0].iteration for line in opened.lines if line.is_inner] == list(range(6))
    sought = arranged(rows, {"shown": inside[3].key})
    assert inside[3] in [line.rows[0] for line in sought.lines if line.is_inner]


def test_a_fold_is_told_by_a_value_that_came() -> None:
    rows = [row(n, frame="77", wait_ns=n, state="dead" if n == 5 else "done") for n in range(6)]
    assert arranged(rows, {}).lines[0].told.iteration == 4


times = st.lists(st.tuples(st.integers(0, 10**11), st.integers(0, 10**11)), min_size=1, max_size=8)


@given(times)
def test_marks_lie_within_the_chart_at_the_square_root_of_their_time(
    found: list[tuple[int, int]],
) -> None:
    rows = [row(at, early_ns=early, wait_ns=wait) for at, (early, wait) in enumerate(found)]
    axis = axis_of(rows)
    assert 0 < axis.line < 1
    for one in rows:
        assert axis.line - axis.early(one.early_ns) >= 0
        assert axis.line + axis.wait(one.wait_ns) <= 1
    if axis.scale:
        assert axis.wait(400) == pytest.approx(2 * axis.wait(100))


@given(times)
def test_ticks_are_round_times_in_order_and_apart(found: list[tuple[int, int]]) -> None:
    rows = [row(at, early_ns=early, wait_ns=wait) for at, (early, wait) in enumerate(found)]
    axis = axis_of(rows)
    for (_, left), (_, right) in pairwise(axis.ticks):
        assert right - left >= 0.18
    for ns, place in axis.ticks:
        assert 0 <= place <= 1
        assert str(ns).rstrip("0") in ("1", "2", "5")
        assert abs(place - axis.line) == pytest.approx(axis.scale * math.sqrt(ns))


def test_a_device_is_called_by_its_task_where_that_has_no_other() -> None:
    second = WORKER.replace("CPU:0", "CPU:1")
    assert short_titles([row(1)]) == {PS: "ps:0", WORKER: "worker:0"}
    two = short_titles([row(1), row(2, target=second)])
    assert (two[WORKER], two[second]) == ("worker:0 CPU:0", "worker:0 CPU:1")
