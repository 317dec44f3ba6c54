"""Replicas that reduce to one device run no collective: the page tells of sums and copies."""

from collections.abc import Callable
from pathlib import Path

import pytest
from dash.development.base_component import Component

from tests.captured import MLP
from tests.components.reading import found, text
from vizdist.analysis.reduced_to_one import has_sums, sums
from vizdist.components.shell import missing
from vizdist.components.sum_cards import sums_told
from vizdist.components.view import View
from vizdist.store.trace import Trace, open_trace


@pytest.fixture(scope="module")
def trace(captured: Callable[..., Path]) -> Trace:
    return open_trace(captured("variable-policies", "--in-process"))


def href(way: Component) -> str:
    return str(vars(way)["href"])


def test_a_sum_tells_what_came_from_other_devices_and_where_it_was_sent(trace: Trace) -> None:
    made = {one.addends: one for one in sums(trace, 1)}
    one = made["value_1", "replica_1/value_1"]
    assert (one.device, one.came, one.went) == ("CPU:0", (("CPU:1", 4),), (("CPU:1", 4),))
    assert trace.span(one.span).name == one.node
    assert made["on_read/sum/Read", "on_read/sum/Read_1"].went == ()  # a read from outside


def test_the_page_tells_of_sums_instead_of_collectives_and_leads_to_them(trace: Trace) -> None:
    page = sums_told(sums(trace, 1), 1, View("collectives", "id", "en"))
    assert text(page[0]).startswith(
        "No collective ran: replicas reduced to one device. In step 1 CPU:0 made 4 sums of what "
        "other devices sent, 16 B, and sent back 8 B."
    )
    assert [href(way) for way in found(page[0], "button")] == ["/t/id/rendezvous", "/t/id/strategy"]
    (first, *_) = found(page[1], "cut")
    assert href(first).startswith("/t/id/graph?step=1&sel=span:")
    assert missing("collectives", trace) == ""


def test_a_run_on_a_parameter_server_reduces_nothing_to_one_device(
    captured: Callable[..., Path],
) -> None:
    trace = open_trace(captured(*MLP))
    assert not has_sums(trace)
    assert missing("collectives", trace) == "collectives.none"
