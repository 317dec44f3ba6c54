"""What the collector sees of a ring while its thread writes."""

from pathlib import Path

from tracer.record.drain import HotFile
from tracer.record.home import HOT_SUFFIX
from tracer.record.ring import BEGUN, ENDED, Place, Ring


def begin(place: Place) -> None:
    buffer, at, _, number, span = place
    BEGUN.pack_into(buffer, at, 1, 0, 0, 0, 1, 2, span, 0, 5, number)


def end(place: Place) -> None:
    buffer, _, at, number, _ = place
    ENDED.pack_into(buffer, at, 5, 6, 0, 0, 0, 0, 0, 0, number)


def test_a_record_that_is_begun_just_behind_the_readers_eye_counts_too(tmp_path: Path) -> None:
    """A look at many records is no moment: one may begin after its place was looked at."""
    places = Ring(tmp_path, 0, capacity=8).places()
    missed, seen = next(places), next(places)
    file = HotFile(tmp_path / f"0-0{HOT_SUFFIX}")
    begin(seen)
    end(seen)
    assert len(file.take()) == 1
    assert file.num_begun == 1
    begin(missed)
    assert len(file.take()) == 0
    assert file.num_begun == 2
    assert len(file.open_records()) == 1
    end(missed)
    assert len(file.take()) == 1
    assert file.num_begun == 2
    assert len(file.open_records()) == 0
