"""Whether the input is the bottleneck; what is said of it, of files, and of the end of data."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.data_run import STEP_NS, data_run
from tests.strategies.inputs_golden import elements, files, rows
from vizdist.analysis.data_told import headline, sentences
from vizdist.analysis.input_time import input_time
from vizdist.analysis.who_saw_what import Data, Taken, who_saw_what
from vizdist.i18n import LANGUAGES, t

STEPS = 3


@pytest.fixture
def data(tmp_path: Path) -> Data:
    """Three steps of two workers, which begin so many ns after each other."""
    return who_saw_what(data_run(tmp_path / "run.trace", rows(elements(24), 8)), None)


def changed(data: Data, task: str = "worker:0", **changes: Any) -> Data:
    """The same where what this worker took is told otherwise."""

    def told(one: Taken) -> Taken:
        return replace(one, **changes) if one.task == task else one

    return replace(data, taken=tuple(map(told, data.taken)))


def keys(data: Data) -> list[str]:
    return [said.key for said in sentences(data, 1)]


def test_the_share_of_the_time_from_step_to_step_is_that_of_the_task_with_most(data: Data) -> None:
    found = input_time(changed(data, task="worker:1", took_ns=STEP_NS // 4))
    assert found is not None
    assert (found.task, found.share, found.median_ns) == ("worker:1", 0.25, STEP_NS // 4)
    assert not found.is_ahead


def test_steps_that_do_not_follow_each_other_tell_no_share(data: Data) -> None:
    apart = replace(data, taken=tuple(one for one in data.taken if one.step != 2))
    assert input_time(apart) is None


@pytest.mark.parametrize(("ready", "key"), [(None, ""), (2, "ahead_all"), (0, "ahead_slow")])
def test_inputs_that_were_read_ahead_were_there_or_not(
    data: Data, ready: int | None, key: str
) -> None:
    said = keys(changed(data, took_ns=10, ready=ready, waited_ns=7))
    assert [one for one in said if one.startswith("ahead")] == [key] * bool(key)


def test_the_first_input_of_a_run_is_waited_for_whatever_is_read_ahead(data: Data) -> None:
    taken = tuple(replace(one, ready=int(one.step > 1), took_ns=10) for one in data.taken)
    assert "ahead_all" in keys(replace(data, taken=taken))


def test_the_last_step_of_data_that_end_is_named(data: Data) -> None:
    (said,) = (said for said in sentences(data, 1) if said.key == "ended_at")
    assert said.values["step"] == f"{STEPS}"
    assert len(said.proof) == 2, "of both workers"


def test_files_that_are_read_by_turns_are_told(tmp_path: Path) -> None:
    by_turns = rows(files(4, 4, cycle=2), 4)
    data = who_saw_what(data_run(tmp_path / "files.trace", by_turns), None)
    (said,) = (said for said in sentences(data, 1) if said.key == "cycle")
    assert said.values == {"cycle": 2, "files": 2}
    assert "cycle" not in keys(changed(changed(data, cycle=1), task="worker:1", cycle=1))


@pytest.mark.parametrize(("is_alone", "key"), [(True, "head.own"), (False, "head.function")])
def test_a_function_of_the_users_is_told_from_a_strategy_whose_workers_step_alone(
    data: Data, is_alone: bool, key: str
) -> None:
    taken = tuple(
        replace(one, effective="FUNCTION", global_batch=one.rows * (1 if is_alone else 2))
        for one in data.taken
    )
    assert headline(replace(data, taken=taken)).key == key


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_sentence_has_its_words(data: Data, lang: Any) -> None:
    for ready in (None, 0, 3):
        shown = changed(data, took_ns=10, ready=ready, waited_ns=7)
        for said in sentences(shown, 1):
            assert t(f"data.{said.key}", lang, **said.values)
