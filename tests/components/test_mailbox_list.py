"""Rows of mailboxes: what the one row of a loop says of all its iterations."""

import re

from tests.figures.test_mailbox_rows import row
from vizdist.analysis.mailbox import Mailbox, Transfer
from vizdist.components.mailbox_list import mailbox_list
from vizdist.components.markup import markup

LOOP = [
    row(n, frame="7", transfer_ns=1000 * (4 - n), wait_ns=10_000 + n, first="receiver")
    for n in range(4)
]


def moved(rows: list[Transfer]) -> list[tuple[int, str]]:
    """Width (px) and time of each row's transfer."""
    text = "".join(map(markup, mailbox_list(Mailbox(rows, []), {}, "en")))
    found = re.findall(r'mail-way [^>]*width:(\d+)px"></span><span>([^<]*)<', text)
    return [(int(width), time) for width, time in found]


def test_a_folded_loop_has_the_transfer_of_all_iterations_as_it_has_their_bytes() -> None:
    """The one that waited longest, the last, travelled 1 µs of 10."""
    assert moved(LOOP) == [(56, "10 µs")]


def test_bars_of_transfers_have_one_scale_with_folds() -> None:
    single = row(9, transfer_ns=2500, wait_ns=90_000, first="receiver")
    assert moved([*LOOP, single]) == [(28, "2 µs"), (56, "10 µs")]
