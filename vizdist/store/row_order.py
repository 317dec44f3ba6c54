"""In which order rows stand: by job, task, kind of lane, lane, depth; `CPU:10` after `CPU:9`."""

import re
from collections.abc import Sequence

from vizdist.store.segments import RowKey

JOB_ORDER = ("launcher", "client", "chief", "master", "worker", "ps")
LANE_ORDER = (
    "client", "faults", "master", "worker", "partition", "loops", "executor", "launch", "stream",
    "copies", "recv", "feeds", "fetches", "rpc", "caches", "anchors",
)  # fmt: skip


def row_order(row: RowKey) -> tuple[object, ...]:
    job, _, index = row.task.partition(":")
    lane, _, rest = row.lane.partition(" ")
    return (
        _rank(job, JOB_ORDER),
        _natural(job),
        _natural(index),
        _rank(lane, LANE_ORDER),
        _natural(lane),
        _natural(rest),
        row.depth,
    )


def _rank(word: str, order: Sequence[str]) -> int:
    return order.index(word) if word in order else len(order)


def _natural(text: str) -> tuple[tuple[int, str], ...]:
    parts: list[str] = re.findall(r"\d+|\D+", text)
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in parts)
