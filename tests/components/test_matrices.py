"""Tables of bytes from row to column look alike, on whatever page they are."""

from typing import Any

from tests.components.reading import found
from vizdist.analysis.mailbox import Traffic
from vizdist.components.bytes_matrix import bytes_matrix
from vizdist.components.link_matrix import link_matrices

MOVED = {("ps:0", "worker:0"): 9640, ("worker:0", "ps:0"): 3, ("ps:0", "worker:1"): 400}


def looks(table: Any) -> list[tuple[str, str, str]]:
    """(words, class, tint) of every cell that is tinted."""
    cells: list[Any] = found(table, "heat")
    return [(one.children, one.className, one.style["--heat"]) for one in cells]


def test_the_same_bytes_have_the_same_tint_on_every_page() -> None:
    tasks = sorted({task for pair in MOVED for task in pair})
    links, _waits = link_matrices({pair: Traffic(1, n, 5) for pair, n in MOVED.items()}, "en")
    told = looks(bytes_matrix(tasks, MOVED))
    assert looks(links) == told
    assert len({tint for _, _, tint in told}) == len(MOVED)
