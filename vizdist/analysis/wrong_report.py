"""What went wrong in a run, in words: phrases that a page shows too, and all of it as lines."""

from collections.abc import Iterator, Mapping, Sequence

from vizdist.analysis.faults import SIGNAL
from vizdist.analysis.mechanisms.leftovers import Alone
from vizdist.analysis.mechanisms.text_table import listed, table
from vizdist.analysis.what_went_wrong import Echo, LastSeen, WhatWentWrong
from vizdist.i18n import Lang, t
from vizdist.i18n.units import duration

Facts = Mapping[str, str]
MOST_LINKS = 3  #: that are named where there is no circle; the table of keys has all


def facts_of(found: WhatWentWrong) -> Facts:
    """What is known of the cause, by keys of `wrong.fact`."""
    root, last = found.root, next(iter(found.unfinished), None)
    op = (f"{root.node} ({root.op})" if root.op else root.node) if root else ""
    stood = last.name or last.kind if not root and last and last.task == found.task else ""
    facts = {
        "op": op,
        "task": found.task,
        "address": found.address,
        "step": f"{found.step:,}" if found.step else "",
        "source": root.source if root else "",
        "stood": stood,
    }
    return {name: fact for name, fact in facts.items() if fact}


def echoes_text(found: WhatWentWrong, lang: Lang) -> str:
    """How many spans failed for the cause, and how fast that went."""
    last = max((echo.after_ns for echo in found.echoes), default=0)
    return t("wrong.echoes", lang, count=len(found.echoes), last=duration(last))


def waits_text(found: WhatWentWrong, lang: Lang) -> str:
    """The circle in which tasks wait, or that none is known; "" where nobody waits."""
    key, links = "circle", found.waits.circle
    if not links:
        key, links = "no_circle", found.waits.waiting[:MOST_LINKS]
    words = [
        t("wrong.waits.link", lang, task=each.task, maker=each.maker, other=each.other)
        for each in links
    ]
    return t(f"wrong.waits.{key}", lang, links=listed(words, lang)) if words else ""


def emptied_text(found: WhatWentWrong, lang: Lang) -> str:
    """What an abort found in the mailboxes, and whether their cleanup left anything."""
    if not found.emptied:
        return ""
    sums = (sum(getattr(each, of) for each in found.emptied) for of in ("values", "waiting"))
    told = {"values": f"{next(sums):,}", "waiting": f"{next(sums):,}"}
    left = [f"{each.task} ({each.left:,})" for each in found.emptied if each.left]
    key = "left" if left else "none_left"
    count = len({each.task for each in found.emptied})
    return t(f"wrong.emptied.{key}", lang, count=count, left=listed(left, lang), **told)


def by_task(echoes: Sequence[Echo]) -> dict[str, list[Echo]]:
    """The task that it reached first comes first."""
    found: dict[str, list[Echo]] = {}
    for echo in echoes:
        found.setdefault(echo.task, []).append(echo)
    return found


def instant_text(after_ns: int | None, lang: Lang) -> str:
    """`1.20 ms before` or `3.00 µs after` it went wrong."""
    if not after_ns:
        return t("wrong.never" if after_ns is None else "wrong.then", lang)
    return t(f"wrong.{'before' if after_ns < 0 else 'after'}", lang, time=duration(abs(after_ns)))


def fate_text(one: Alone, lang: Lang) -> str:
    """Why a send or recv did not meet its other end."""
    return t(f"wrong.fate.{one.fate}", lang, maker=one.maker, other=one.other)


def outcome_text(one: LastSeen, lang: Lang) -> str:
    if signal := SIGNAL.fullmatch(one.error):
        return t("wrong.outcome.signal", lang, signal=signal[1])
    return one.error or t(f"wrong.outcome.{one.outcome}", lang)


def tell(found: WhatWentWrong, lang: Lang) -> Iterator[str]:
    """Facts of the cause, then a table a part, each only where there is something in it."""
    yield t("wrong.title", lang)
    for name, fact in facts_of(found).items():
        yield f"  {t(f'wrong.fact.{name}', lang)}: {fact}"
    if found.from_end:
        yield f"  {t('wrong.from_end', lang)}"
    for words in (waits_text(found, lang), emptied_text(found, lang)):
        if words:
            yield f"  {words}"
    for title, columns, rows in _tables(found, lang):
        if rows:
            yield f"  {title}"
            yield from (f"  {line}" for line in table(columns, rows, lang))
    if found.log:
        yield f"  {t('wrong.log', lang, task=found.task)}"
        yield from (f"    {line}" for line in found.log)


_Table = tuple[str, Sequence[str], Sequence[Sequence[object]]]  #: title, keys of columns, rows


def _tables(found: WhatWentWrong, lang: Lang) -> Iterator[_Table]:
    columns: Sequence[str] = ("task", "spans", "after", "kind", "name", "span")
    yield (
        echoes_text(found, lang),
        columns,
        [
            (task, len(own), duration(own[0].after_ns), own[0].kind, own[0].name, own[0].span)
            for task, own in by_task(found.echoes).items()
        ],
    )
    columns = ("task", "tensor", "from", "since", "wait", "reason", "key")
    yield (
        t("wrong.unmet", lang),
        columns,
        [
            (
                *(one.task, one.maker, one.other, duration(one.since_ns), duration(one.waited_ns)),
                *(fate_text(one, lang), one.key),
            )
            for one in found.unmet
        ],
    )
    columns = ("task", "kind", "name", "since", "took", "span")
    yield (
        t("wrong.unfinished", lang),
        columns,
        [
            (
                *(one.task, one.kind, one.name, instant_text(one.since_ns, lang)),
                *(duration(one.open_ns), one.span),
            )
            for one in found.unfinished
        ],
    )
    columns = ("task", "address", "wait", "error")
    yield (
        t("wrong.absent", lang),
        columns,
        [(one.task, one.address, duration(one.waited_ns), one.error) for one in found.absent],
    )
    yield (
        t("wrong.seen", lang),
        ("task", "address", "state", "last"),
        [
            (one.task, one.address, outcome_text(one, lang), instant_text(one.after_ns, lang))
            for one in found.seen
        ],
    )
