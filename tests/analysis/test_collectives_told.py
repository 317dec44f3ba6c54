"""What the summary says of collectives."""

from vizdist.analysis.collectives import Collective, Rank
from vizdist.analysis.sentence import Sentence
from vizdist.analysis.summary import _of_collectives


def rank(number: int, wait_ns: int, sent_bytes: int) -> Rank:
    place = f"/job:worker/replica:0/task:{number}/device:CPU:0"
    return Rank(
        number, f"worker:{number}", "CPU:0", place, 0, wait_ns, 9_000_000, sent_bytes,
        is_whole=True, is_failed=False, span=f"{number + 10:016x}",
    )  # fmt: skip


def told(sent_bytes: int) -> Sentence:
    """Two steps, two ring all-reduces each, in which rank 0 waits 3 ms for rank 1."""
    ranks = (rank(0, 3_000_000, sent_bytes), rank(1, 0, sent_bytes))
    runs = [
        Collective(step, "all_reduce", "1", key, "ring", "Add Id", "w", 2048, 2, ranks)
        for step in (1, 2)
        for key in ("100", "101")
    ]
    (sentence,) = _of_collectives(runs)
    return sentence


def test_a_step_is_told_by_its_collectives_what_a_rank_sent_and_how_long_ranks_waited() -> None:
    sentence = told(1024)
    assert sentence.key == "collectives"
    assert sentence.values["count"] == "2"
    assert sentence.values["bytes"] == "2.00 KiB"
    assert sentence.values["wait"] == "6.00 ms"
    assert sentence.proof == (10,)


def test_bytes_that_nobody_counted_are_not_told_as_none() -> None:
    assert told(0).key == "collectives_uncounted"


def test_without_collectives_nothing_is_said() -> None:
    assert not list(_of_collectives([]))
