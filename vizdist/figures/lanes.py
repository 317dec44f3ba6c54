"""Lanes of bars over one time axis, as assets/lanes.mjs draws them. Times are ns from the left."""

from collections.abc import Sequence
from typing import Any, TypedDict

from vizdist.analysis.replicas import runs_on
from vizdist.analysis.waiting import union
from vizdist.figures.call_lines import round_times, time_text
from vizdist.figures.timeline import COMPUTE, HUES, UPDATE, hues_of
from vizdist.store.spans import Spans

Json = dict[str, Any]
_FINEST = 500  #: pieces of work closer than this part of the picture are drawn as one


class Bar(TypedDict):
    """`hue` names a fill; bars with one `sel` are one button, which `says` what it is."""

    start: int
    end: int
    hue: str
    text: str
    sel: str
    says: str


def bar(start: int, end: int, hue: str, *, text: str = "", sel: str = "", says: str = "") -> Bar:
    return {"start": start, "end": end, "hue": hue, "text": text, "sel": sel, "says": says}


def lane(title: str, where: str, bars: Sequence[Bar], **more: Any) -> Json:
    return {"title": title, "where": where, "bars": list(bars), **more}


def picture(total: int, lanes: Sequence[Json], **more: Any) -> Json:
    ticks = [[ns, time_text(ns)] for ns in round_times(total)]
    return {"total": total, "ticks": ticks, "lanes": list(lanes), **more}


def work_bars(busy: Spans, task: str, device: str, window: tuple[int, int]) -> list[Bar]:
    """What a device ran, from the op spans of a step; what lies close together is one bar."""
    begin, end = window
    gap = (end - begin) // _FINEST
    own = runs_on(busy, task, device)
    hues = hues_of(busy)
    bars = []
    for hue in (COMPUTE, UPDATE):
        of_hue = busy.take(own & (hues == hue))
        starts, ends = union(of_hue.start, of_hue.end + gap)
        for start, stop in zip(starts.tolist(), ends.tolist(), strict=True):
            bars.append(bar(start - begin, min(stop - gap, end) - begin, HUES[hue]))
    return sorted(bars, key=lambda one: one["start"])
