"""What the head of Rendezvous counts: values, and apart from them what carries none."""

from dataclasses import replace

import pytest

from tests.captured import Captured
from tests.components.reading import text
from tests.figures.test_mailbox_rows import ROW, row
from vizdist.analysis.keys import key_of
from vizdist.analysis.mailbox import Mailbox, Transfer, mailbox
from vizdist.analysis.mechanisms.calls import Method
from vizdist.components.call_table import call_table
from vizdist.components.mailbox_list import collectives_note, mailbox_list
from vizdist.components.markup import markup
from vizdist.components.view import View
from vizdist.figures.shared_uses import shared_uses, uses_of
from vizdist.i18n import Lang
from vizdist.pages.rendezvous import headline, note_of_keys
from vizdist.store.steps import StepInfo
from vizdist.store.trace import open_trace

STEP = StepInfo(8, 7, 1, 0, 1000, "worker:0", 1, True)
VALUES = [row(1, first="receiver", wait_ns=5), row(2, first="receiver", wait_ns=7)]
DEAD = [
    row(3, first="receiver", wait_ns=90, state="dead"),
    row(4, state="dead", is_control=True),
]
SIGNAL = row(5, is_control=True)


def words(rows: list[Transfer], lang: Lang = "en") -> str:
    parts = headline(Mailbox(rows, []), STEP, lang)
    assert isinstance(parts, list)
    return "".join(str(getattr(p, "children", p)) for p in parts).replace("\u00a0", " ")


def test_only_values_are_counted_as_values() -> None:
    said = words([*VALUES, *DEAD, SIGNAL])
    assert said.startswith("2 of 2 values in step 8 were asked for")
    assert said.endswith("waited longest, 7 ns for w2.")
    assert words([*DEAD, SIGNAL]) == "No value went through a mailbox in step 8."


def test_a_control_edge_that_was_waited_for_longer_is_told_beside_the_values() -> None:
    slow = replace(SIGNAL, first="receiver", wait_ns=9, tensor="init")
    told = "Of control edges, which carry no value, worker:0 waited longest, 9 ns for init."
    assert words([*VALUES, slow]) == f"{words(VALUES)} {told}"
    assert words([*VALUES, replace(slow, wait_ns=6)]) == words(VALUES)
    ready = [row(1), row(2)]
    assert words([*ready, slow]) == f"{words(ready)} {told}"


def test_one_transfer_says_how_many_uses_it_serves_and_how_many_there_would_be() -> None:
    key = key_of(VALUES[0].key)
    uses = {(key.src_device, key.dst_device, key.edge_name): 4}
    found = Mailbox(VALUES, [])
    assert note_of_keys(found, "en", uses) == "2 keys, 5 without sharing"
    assert text(mailbox_list(found, {}, "en", uses)).count("1 transfer for 4 uses") == 1
    assert "1 transfer" not in text(mailbox_list(found, {}, "en"))


def test_the_uses_of_a_transfer_are_those_of_the_graph_that_was_cut(captured: Captured) -> None:
    trace = open_trace(captured("recv-dedup", "--in-process"))
    step = trace.steps[0]
    found, uses = mailbox(trace, step), shared_uses(trace, step)
    served = {(row.tensor, row.target.split("/")[3]): uses_of(row.key, uses) for row in found.rows}
    assert served["a", "task:0"] == 4
    assert set(served.values()) == {1, 4}


PIECES = [row(n, first="receiver", wait_ns=n, is_piece=True) for n in (6, 9)]


def test_pieces_of_collectives_are_no_values_but_are_told_where_they_are_all() -> None:
    assert words([*VALUES, *PIECES]) == words(VALUES)
    assert words(PIECES) == (
        "2 pieces of collectives went from rank to rank in step 8; "
        "worker:0 waited longest, 9 ns for w9."
    )


@pytest.mark.parametrize(
    ("rows", "count", "said"),
    [
        ([], 0, ""),
        (PIECES, 1, "The 1 collective of this step passed 2 pieces, 16 B, to ranks of worker:0"),
        ([], 4, "The 4 collectives of this step used no mailbox: the library that moved their"),
    ],
)
def test_how_the_values_of_collectives_went_is_said_and_leads_to_them(
    rows: list[Transfer], count: int, said: str
) -> None:
    view = View("rendezvous", "0" * 16, "en")
    found = text(collectives_note(Mailbox(rows, []), count, "worker:0", view))
    assert found.startswith(said)
    assert bool(found) == bool(count)


@pytest.mark.parametrize(("rows", "said"), [([], "No mailbox was used."), ([ROW], "No key of")])
def test_an_empty_list_says_whether_words_or_the_step_left_it_empty(
    rows: list[Transfer], said: str
) -> None:
    assert text(mailbox_list(Mailbox(rows, []), {"words": "nowhere"}, "en")).startswith(said)


def test_a_signal_that_never_came_is_still_told() -> None:
    lost = replace(SIGNAL, first="nobody", state="aborted")
    assert words([*VALUES, lost]) == "1 of 3 values asked for in step 8 never came."


@pytest.mark.parametrize(
    ("lang", "said"),
    [
        ("en", "5 keys, 2 dead, 1 control signal"),
        ("zh", "5 个键，2 个死张量，1 个控制信号"),
    ],
)
def test_beside_all_keys_stands_how_many_carried_no_value(lang: Lang, said: str) -> None:
    assert note_of_keys(Mailbox([*VALUES, *DEAD, SIGNAL], []), lang) == said
    assert note_of_keys(Mailbox([ROW], []), "en") == "1 key"


@pytest.mark.parametrize(
    ("lang", "words"),
    [
        ("en", "worker:0 calls ps:0; the tensor comes back: ps:0 → worker:0"),
        ("zh", "worker:0 调用 ps:0；张量传回：ps:0 → worker:0"),
    ],
)
def test_a_pull_says_who_calls_and_which_way_the_tensor_goes(lang: Lang, words: str) -> None:
    def told(method: str) -> str:
        return markup(call_table([Method(method, "worker:0", "ps:0", 1, 5, 5, 0, 8)], lang))

    assert words in told("RecvTensor")
    assert words.partition(";")[0].partition("；")[0] + "</small>" in told("RunGraph")
