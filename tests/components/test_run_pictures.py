"""Small pictures of a run, on its row in the library."""

import pytest

from vizdist.components.run_pictures import task_squares
from vizdist.i18n import LANGUAGES, Lang

ENDS = [("ps:0", "done"), ("worker:0", "done"), ("worker:1", "killed"), ("worker:2", "lost")]


def test_a_square_says_of_its_task_how_it_ended() -> None:
    squares = task_squares(ENDS, "en").children
    assert [square.title for square in squares] == [
        "ps:0 ended well",
        "worker:0 ended well",
        "worker:1 was killed",
        "worker:2 was lost",
    ]
    assert ["bad" in square.className.split() for square in squares] == [False, False, True, True]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_no_two_ends_are_said_alike(lang: Lang) -> None:
    ends = ("running", "done", "failed", "killed", "lost")
    squares = task_squares([("ps:0", end) for end in ends], lang).children
    assert len({square.title for square in squares}) == len(ends)
