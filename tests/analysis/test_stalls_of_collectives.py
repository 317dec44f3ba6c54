"""A device that stands idle in a collective: for whom its rank waited, or that pieces went on."""

import numpy as np
import pytest

from tests.analysis.test_collectives import MS, run
from tests.captured import WORKERS, Captured
from tests.components.reading import text
from vizdist.analysis.collective_pieces import awaited, joined
from vizdist.analysis.critical_path import Piece
from vizdist.analysis.lit import Lit
from vizdist.analysis.stalls import Stall, stalls
from vizdist.analysis.stalls_told import told
from vizdist.components.span_card import span_card
from vizdist.store.trace import Trace, open_trace


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Three ranks, of which 2 comes last."""
    return run(tmp_path_factory.mktemp("late"), [[0, 1 * MS, 9 * MS]])


def ranks(trace: Trace) -> list[int]:
    return np.flatnonzero(trace.all.is_kind("collective.all_reduce")).tolist()


def test_the_rank_that_all_waited_for_is_named(late: Trace) -> None:
    place, step = ranks(late)[0], late.steps[0]
    stall = Stall(0, step.start, step.end, place, Piece(place, step.start, step.end, "wait"))
    found = told(late, stall)
    assert (found.key, found.values["at"]) == ("meet", "worker:0 / CPU:2")
    assert found.values["name"] == "CollectiveReduceV2"


def test_calls_of_a_rank_are_its_wait_until_all_had_come_and_then_its_transfer(
    late: Trace,
) -> None:
    place, begin = ranks(late)[0], late.steps[0].start
    met = begin + 9 * MS
    other = int(np.flatnonzero(late.all.is_kind("session.run"))[0])
    way = [
        Piece(other, begin, begin + MS, "other"),
        Piece(place, begin + MS, begin + 2 * MS, "rpc"),
        Piece(place, begin + 2 * MS, met, "other"),
        Piece(place, met, met + MS, "other"),
    ]
    assert joined(late, way) == [
        way[0],
        Piece(place, begin + MS, met, "wait"),
        Piece(place, met, met + MS, "transfer"),
    ]


def test_who_came_last_waited_for_word_of_the_others(late: Trace) -> None:
    found = {late.rows[late.all.row[at]].lane: awaited(late, at) for at in ranks(late)}
    assert found["collective CPU:0"] == "worker:0 / CPU:2"
    assert found["collective CPU:2"] == "worker:0 / CPU:0, worker:0 / CPU:1"


def test_no_stall_of_ranks_of_two_workers_says_that_no_span_tells_why(captured: Captured) -> None:
    trace = open_trace(captured(*WORKERS))
    kinds = trace.all.text("kind")
    inside = [
        (told(trace, stall).key, str(kinds[stall.cause.place]))
        for step in trace.steps
        for stall in stalls(trace, step)
        if stall.cause and stall.cause.place >= 0
    ]
    keys = {key for key, kind in inside if kind.startswith("collective.")}
    assert keys
    assert keys <= {"meet", "pass", "pieces"}


def test_the_card_of_a_rank_leads_to_all_that_came(late: Trace) -> None:
    of_rank, of_op = (
        span_card(late, Lit(np.array([at]), np.empty(0, np.int64)), 1, "en")
        for at in (ranks(late)[0], int(np.flatnonzero(late.all.is_kind("session.run"))[0]))
    )
    assert "on Collectives" in text(of_rank)
    assert "on Collectives" not in text(of_op)
