"""Where copies of variables lie, whether they agree, and which versions steps read and made."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.captured import MLP, WORKERS
from tests.components import reading
from vizdist.analysis.replicas import works
from vizdist.analysis.report import sentence_text
from vizdist.analysis.staleness import staleness
from vizdist.analysis.summary import summarise
from vizdist.analysis.variables import (
    Access,
    Copy,
    Variable,
    _entries,
    accesses,
    places_of,
    read_of,
    variables,
)
from vizdist.components import strategy_cards
from vizdist.components.variable_cards import (
    POLICIES,
    copies_table,
    headline,
    policy_table,
    stairs_sentence,
)
from vizdist.figures.versions import staircase
from vizdist.i18n import Lang
from vizdist.store.trace import Trace, open_trace

CNN = ("digits-cnn", "--strategy", "mirrored", "--devices", "cpu:2", "--steps", "3", "--in-process")


def plain(parts: object) -> str:
    if isinstance(parts, list):
        return "".join(map(plain, parts))
    return str(getattr(parts, "children", parts)).replace("\u00a0", " ")


@pytest.fixture(scope="module")
def mirrored(captured: Callable[..., Path]) -> Trace:
    return open_trace(captured(*CNN))


@pytest.fixture(scope="module")
def on_ps(captured: Callable[..., Path]) -> Trace:
    return open_trace(captured(*MLP))


@pytest.fixture(scope="module")
def on_workers(captured: Callable[..., Path]) -> Trace:
    return open_trace(captured(*WORKERS))


def variable(name: str, prints: list[str], when: str = "ON_WRITE") -> Variable:
    copies = tuple(Copy(f"{name}/{i}", f"CPU:{i}", 1, each) for i, each in enumerate(prints))
    return Variable(name, (2,), 8, when, "MEAN", copies)


def test_mirrored_variables_agree_and_statistics_differ_until_they_are_read(
    mirrored: Trace,
) -> None:
    found = variables(mirrored, 2)
    assert places_of(found) == ["CPU:0", "CPU:1"]
    trained = [one for one in found if one.synchronization == "ON_WRITE"]
    own = [one for one in found if one.synchronization == "ON_READ" and one.shape]
    assert trained
    assert all(one.agrees for one in trained)
    assert {one.name.rpartition("/")[2] for one in own} == {"running_mean", "running_var"}
    assert not any(one.agrees for one in own)
    assert "differ until they are read" in plain(headline(found, "en"))


def test_every_page_counts_a_variable_once_however_many_copies_it_has(mirrored: Trace) -> None:
    found, stale = variables(mirrored, 2), staleness(mirrored)
    assert stale.num_variables + stale.num_others == len(found)
    assert stale.num_copies == 2 * stale.num_variables
    [told] = [sentence_text(s, "en") for s in summarise(mirrored).sentences if s.key == "fresh"]
    assert told.startswith(f"{stale.num_variables} variables were updated ")
    assert "every copy counted" in told
    rows = works(mirrored, [mirrored.step(2)])
    says = plain(strategy_cards.headline(mirrored, [], rows, found, "en"))
    assert says.endswith(f"keeps {len(found)} variables, in {2 * len(found)} copies, on 2 of them.")


def test_a_variable_on_a_ps_has_one_copy_and_its_version(on_ps: Trace) -> None:
    found = variables(on_ps, 3)
    assert found[0].name == "fc1/weight"
    assert places_of(found) == ["ps:0"]
    assert [one.agrees for one in found] == [None] * 4
    assert plain(headline(found, "en")) == "4 variables, 9.41 KiB, lie on ps:0, in one copy each."


def test_each_update_of_a_single_client_follows_its_own_read(on_ps: Trace) -> None:
    weight = variables(on_ps, 3)[0]
    used = accesses(on_ps, weight.copies[0])
    applied = [one for one in used if one.kind == "apply"]
    assert [one.version for one in applied] == list(range(2, 2 + len(applied)))
    assert {one.missed for one in applied} == {0}
    assert plain(stairs_sentence(used, weight, "en")).startswith(f"{len(applied)} updates")
    drawn = staircase(used, 3, "en")
    assert drawn is not None
    assert (drawn["clients"], drawn["links"]) == (["worker:0"], [])
    assert [mark["at"] for mark in drawn["marks"]] == sorted(m["at"] for m in drawn["marks"])


def test_the_versions_of_a_copy_are_those_of_its_own_worker(on_workers: Trace) -> None:
    weight = variables(on_workers, 3)[0]
    assert [copy.place for copy in weight.copies] == ["worker:0", "worker:1"]
    for copy in weight.copies:
        used = accesses(on_workers, copy)
        assert {one.client for one in used} == {copy.place}
        applied = [one.version for one in used if one.kind == "apply"]
        assert applied == list(range(applied[0], applied[0] + 4))
        assert copy.version == applied[2]
    said = plain(stairs_sentence(accesses(on_workers, weight.copies[0]), weight, "en"))
    assert said.startswith("4 updates of fc1/weight on worker:0 by 1 client:")


def test_copies_that_no_step_printed_are_not_called_equal() -> None:
    known, half = variable("w", ["a", "a"]), variable("v", ["a", ""])
    assert plain(headline([known, half], "en")) == (
        "1 variable is equal on every replica. Of 1 more this step printed no copies."
    )
    said = plain(headline([half, variable("u", ["", ""])], "en"))
    assert said.startswith("2 variables have copies on 2 devices. This step printed none")


def test_copies_agree_only_if_all_of_them_were_told() -> None:
    assert variable("w", ["a", "a"]).agrees is True
    assert variable("w", ["a", "b"]).agrees is False
    assert variable("w", ["a", ""]).agrees is None
    assert variable("w", ["a"]).agrees is None


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_mirrored_copies_that_parted_are_said_first(lang: Lang) -> None:
    told = plain(headline([variable("w", ["a", "b"]), variable("v", ["c", "c"])], lang))
    assert told.startswith("1")
    assert "parted" in told or "分歧" in told


def test_a_variable_that_parted_is_first_in_the_matrix_marked_and_chosen_from_the_headline(
    policies: Trace,
) -> None:
    found = variables(policies, 1)
    assert [one.name for one in found if one.has_parted] == [found[0].name] == ["on_write/none"]
    (way,) = reading.found(headline(found, "en"), "button")
    assert getattr(way, "data-variable") == found[0].copies[0].name
    names = reading.found(copies_table(found, "", "en"), "variable")
    told = ["copies differ" in reading.text(name) for name in names]
    assert told == [True, *[False] * (len(names) - 1)]


def test_an_update_that_missed_many_versions_is_joined_with_its_read() -> None:
    used = [
        Access(0, "worker:0", "read", 1, 0, 1, "a"),
        *(Access(n, "worker:1", "apply", 1 + n, 0, n, "b") for n in range(1, 4)),
        Access(9, "worker:0", "apply", 5, 3, 1, "c"),
    ]
    drawn = staircase(used, 1, "en")
    assert drawn is not None
    assert drawn["links"] == [[0, 4]]
    assert "at most 3 behind" in plain(stairs_sentence(used, variable("w", ["a"]), "en"))


@pytest.fixture(scope="module")
def policies(captured: Callable[..., Path]) -> Trace:
    return open_trace(captured("variable-policies", "--in-process"))


def test_two_replicas_that_write_1_and_2_leave_what_tensorflow_was_seen_to_leave(
    policies: Trace,
) -> None:
    """The table of the page and the golden experiment, from copies that a run printed."""
    found = {(one.synchronization, one.aggregation): one for one in variables(policies, 2)}
    assert len(found) == 2 * len(POLICIES)
    for how, on_write, on_read in POLICIES:
        for when, (copies, read) in zip(("ON_WRITE", "ON_READ"), (on_write, on_read), strict=True):
            one = found[when, how]
            assert ", ".join(f"{copy.scalar:g}" for copy in one.copies) == copies
            given = read_of(one)
            number = given.scalar if isinstance(given, Copy) else given
            assert (f"{number:g}" if isinstance(number, float) else number) == (read or "NONE")
    assert plain(headline(tuple(found.values()), "en")).startswith(
        "1 of 4 mirrored variables parted"
    )


def test_the_policies_are_those_that_tensorflow_was_seen_to_have() -> None:
    table = str(policy_table("en"))
    for text in ("3, 3", "1.5, 1.5", "1, 1", "ValueError"):
        assert text in table


def test_places_come_by_number_and_what_parted_comes_first() -> None:
    copies = [Copy("w", f"ps:{number}", 1, "a") for number in (10, 2, 1)]
    whole = Variable("w", (), 4, "ON_WRITE", "NONE", tuple(copies))
    assert places_of([whole]) == ["ps:1", "ps:2", "ps:10"]
    parted = Variable("v", (), 4, "ON_WRITE", "NONE", (*copies[1:], Copy("v", "ps:10", 1, "b")))
    assert places_of([parted])[0] == "ps:10"


@pytest.mark.parametrize(
    "told", ["5", "null", '[["w", "d", "1", "a"]]', '[["w", "d", 1, "a", "x"]]']
)
def test_what_is_no_list_of_copies_is_none(told: str) -> None:
    assert _entries({"vizdist.variable.copies": told}) == []
