"""What the report says of the critical path of a step whose every number is known."""

from pathlib import Path

import orjson
import pytest

from tests.analysis.sample_run import sample_run
from tests.analysis.test_critical_path import node, opened
from vizdist.analysis.mechanisms import critical_path
from vizdist.analysis.mechanisms.critical_path import Path as Found
from vizdist.analysis.mechanisms.critical_path import Slack
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.report import report_json, report_text
from vizdist.i18n import Lang
from vizdist.store.trace import Trace


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return sample_run(tmp_path_factory.mktemp("sample") / "x.trace")


def found_in(trace: Trace) -> Found:
    found = critical_path.find(OneStep(trace, trace.step(1)))
    assert found is not None
    return found


def test_pieces_of_one_name_are_one_row_and_all_rows_are_the_step(sample: Trace) -> None:
    found = found_in(sample)
    assert sum(row.took_ns for row in found.path) == found.took_ns == 1400
    assert (found.path[0].name, found.path[0].part, found.path[0].took_ns) == ("mm", "compute", 700)


def test_the_longest_that_can_be_changed_are_tried(sample: Trace) -> None:
    tried = [(one.kind, one.name, one.saved_ns) for one in found_in(sample).what_if]
    assert tried == [
        ("op", "mm", 100),  # its ps asks for what it makes no earlier than it did
        ("link", "ps:0→worker:0", 50),
        ("link", "worker:0→ps:0", 50),
    ]


def test_ops_off_the_path_come_by_their_slack(tmp_path: Path) -> None:
    ops = [node("long", 0, 0, 90, 3), node("short", 0, 0, 30, 4, depth=1)]
    ops.append(node("middle", 0, 0, 50, 5, depth=2))
    found = found_in(opened(tmp_path, *ops))
    assert [(one.name, one.slack_ns) for one in found.next] == [("middle", 40), ("short", 60)]
    assert found.next[0] == Slack("middle", "worker:0", 40, 50, f"{5:016x}")


def test_a_step_without_ops_says_nothing_of_it(tmp_path: Path) -> None:
    trace = opened(tmp_path)
    assert critical_path.find(OneStep(trace, trace.step(1))) is None


@pytest.mark.parametrize(
    ("lang", "said"),
    [
        ("en", "If mm were free, the step would take 1.30 µs, 0.10 µs less."),
        ("zh", "假如 mm 不花时间，这一步会用 1.30 µs，少 0.10 µs。"),
    ],
)
def test_the_report_says_it_in_both_languages(sample: Trace, lang: Lang, said: str) -> None:
    assert said in report_text(sample, 1, lang)


def test_the_report_as_data_holds_the_same(sample: Trace) -> None:
    first, _ = orjson.loads(report_json(sample, 1))["mechanisms"]
    told = first["critical_path"]
    assert told["took_ns"] == 1400
    assert told["what_if"][0] == {
        "kind": "op",
        "name": "mm",
        "would_take_ns": 1300,
        "saved_ns": 100,
    }
