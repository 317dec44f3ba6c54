"""The versions of one variable as assets/variables.mjs draws them: a staircase of reads, applies.

Times are ns from the left edge.
"""

from collections.abc import Sequence
from typing import Any

from vizdist.analysis.variables import Access
from vizdist.figures.call_lines import round_times, time_text
from vizdist.i18n import Lang, t

Json = dict[str, Any]
MOST = 60  #: reads and applies in the picture
LINKED = 3  #: versions missed from which on a read is joined with its apply by a line


def staircase(found: Sequence[Access], number: int, lang: Lang) -> Json | None:
    """Around a step; None without any access."""
    shown = _around(found, number)
    if not shown:
        return None
    begin, end = shown[0].at, shown[-1].at
    clients = sorted({one.client for one in shown})
    first = min(one.version for one in shown)
    return {
        "total": max(end - begin, 1),
        "ticks": [[ns, time_text(ns)] for ns in round_times(end - begin)],
        "clients": clients,
        "first": first,
        "last": max(one.version for one in shown),
        "marks": [_mark(one, begin, clients, lang) for one in shown],
        "links": _links(shown),
    }


def _around(found: Sequence[Access], number: int) -> Sequence[Access]:
    at = next((i for i, one in enumerate(found) if one.step >= number), max(len(found) - 1, 0))
    first = max(0, min(at - MOST // 2, len(found) - MOST))
    return found[first : first + MOST]


def _mark(one: Access, begin: int, clients: Sequence[str], lang: Lang) -> Json:
    values = {"client": one.client, "version": one.version, "step": f"{one.step:,}"}
    kind = "apply_of" if one.gradient else one.kind
    says = t(f"variables.stairs.{kind}", lang, missed=one.missed, gradient=one.gradient, **values)
    return {
        "at": one.at - begin,
        "version": one.version,
        "client": clients.index(one.client),
        "kind": one.kind,
        "missed": one.missed,
        "sel": f"span:{one.span}",
        "says": says,
    }


def _links(shown: Sequence[Access]) -> list[list[int]]:
    """[place of a read, place of the apply that missed many versions since]."""
    reads: dict[tuple[str, int], int] = {}
    links = []
    for place, one in enumerate(shown):
        if one.kind == "read":
            reads[one.client, one.step] = place
        elif one.missed >= LINKED and (one.client, one.step) in reads:
            links.append([reads[one.client, one.step], place])
    return links
