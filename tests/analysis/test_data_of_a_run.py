"""Data of a run that really trained: what two replicas of one worker got, and their losses."""

from pathlib import Path

import pytest

from tests.captured import Captured
from vizdist.analysis.data_told import sentences
from vizdist.analysis.loss_curve import loss_curve
from vizdist.analysis.mean_of_means import mean_of_means
from vizdist.analysis.who_saw_what import who_saw_what
from vizdist.figures.timeline import head
from vizdist.store.trace import open_trace

pytestmark = pytest.mark.slow
RUN = (
    "digits-mlp", "--strategy", "mirrored", "--devices", "cpu:2", "--steps", "3",
    "--option", "batch=711", "--option", "drop_remainder=false", "--in-process",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(captured: Captured) -> Path:
    """1437 images in batches of 711: 711, 711, then 15 for two replicas."""
    return captured(*RUN)


def test_an_epoch_trains_every_image_once_and_ends_with_a_short_batch(folder: Path) -> None:
    data = who_saw_what(open_trace(folder), None)
    sizes = [[part.rows for part in one.parts] for one in data.taken]
    assert sizes == [[356, 355], [356, 355], [8, 7]]
    seen = sorted(example for part in data.parts for example in part.ids or ())
    assert seen == list(range(1437))


def test_the_loss_of_a_step_is_the_mean_over_its_examples_not_the_mean_of_means(
    folder: Path,
) -> None:
    trace = open_trace(folder)
    means = mean_of_means(trace, who_saw_what(trace, None), 3)
    assert means
    losses = dict(loss_curve(trace).mean)
    assert means.of_examples == pytest.approx(losses[3], abs=1e-6)
    assert abs(means.of_means - losses[3]) > 1e-4


ENDED = (
    "wide-deep", "--strategy", "mirrored", "--devices", "cpu:2", "--steps", "90",
    "--option", "batch=100", "--option", "epochs=1", "--option", "autoshard=HINT",
    "--option", "hint=true", "--option", "files=4", "--option", "cycle=2",
    "--option", "prefetch=2", "--option", "read_ms=1", "--in-process",
)  # fmt: skip


def test_a_run_whose_data_end_says_so_and_what_was_asked_of_them(captured: Captured) -> None:
    trace = open_trace(captured(*ENDED))
    data = who_saw_what(trace, None)
    assert [one.rows for one in data.taken] == [100, 100, 100, 50]
    assert {(one.asked, one.effective, one.files, one.cycle) for one in data.taken} == {
        ("HINT", "HINT", 4, 2)
    }
    said = {each.key: each.values for each in sentences(data, 1)}
    assert said["ended_at"] == {"step": "4"}
    assert "cycle" in said
    assert {"ahead_all", "ahead_waited", "ahead_slow"} & said.keys()
    reads = trace.spans(kinds=["data.prefetch"])
    assert len(reads) == 4
    assert reads.duration.sum() > 4_000_000, "each batch takes a millisecond"
    assert {trace.rows[row].lane for row in reads.row} == {"input"}
    assert all(row["stepped"] for row in head(trace)["rows"] if row["lane"] == "input")
