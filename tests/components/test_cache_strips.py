"""Caches over steps: cells where lookups are known, words where none is."""

from tests.components.reading import found, text
from vizdist.analysis.cache_strips import CacheStrips, Strip
from vizdist.components.cache_strips import cache_strips_table


def test_a_cache_that_no_step_asked_says_so_and_has_no_row_of_dashes() -> None:
    known = Strip("client_graph", ("miss", "hit", "hit"), 2, 1)
    silent = Strip("kernels", ("", "", ""), 0, 24)
    table, legend = cache_strips_table(CacheStrips((1, 2, 3), (known, silent)), 2, "en")
    said = text(table)
    assert said.count("no lookup recorded") == 1
    assert not found(table, "idle")
    assert "no lookup" not in text(legend)
