"""Which row of its band a tile stands on, so that chains run straight and nothing overlaps."""

from collections.abc import Iterable, Mapping, Sequence

from vizdist.figures.graph_shapes import Link, Tile


class Grid:
    """The cells (column, row) of one band: which hold a tile, which a straight edge passes."""

    def __init__(self) -> None:
        self.taken: set[tuple[int, int]] = set()
        self.passed: set[tuple[int, int]] = set()
        self.num_rows = 1

    def is_free(self, column: int, row: int) -> bool:
        return (column, row) not in self.taken and (column, row) not in self.passed

    def is_clear(self, row: int, left: int, right: int) -> bool:
        """No tile on `row` strictly between two columns."""
        return all((column, row) not in self.taken for column in range(left + 1, right))

    def take(self, column: int, row: int) -> None:
        self.taken.add((column, row))
        self.num_rows = max(self.num_rows, row + 1)

    def keep_way(self, row: int, left: int, right: int) -> None:
        """Keeps later tiles off an edge that runs straight between two columns."""
        if self.is_clear(row, left, right):
            self.passed.update((column, row) for column in range(left + 1, right))


def assign_rows(
    tiles: Sequence[Tile], columns: Mapping[str, int], links: Iterable[Link]
) -> tuple[dict[str, int], dict[str, Grid]]:
    """Row of each tile, and the grid of each band.

    First the computing tiles, left to right: each goes to the row of its last predecessor if it
    can, and the way between them is kept free. Then the late ones, right to left: each goes to the
    row of its first consumer or the nearest free one.
    """
    before: dict[str, list[str]] = {tile.id: [] for tile in tiles}
    after: dict[str, list[str]] = {tile.id: [] for tile in tiles}
    for link in links:
        if columns[link.src] < columns[link.dst]:
            before[link.dst].append(link.src)
            after[link.src].append(link.dst)
    rows: dict[str, int] = {}
    grids: dict[str, Grid] = {tile.band: Grid() for tile in tiles}
    steady = sorted((t for t in tiles if not t.late), key=lambda t: (columns[t.id], t.is_backward))
    late = sorted((t for t in tiles if t.late), key=lambda t: -columns[t.id])
    for tile, neighbours in (*((t, before) for t in steady), *((t, after) for t in late)):
        grid, column = grids[tile.band], columns[tile.id]
        near = _nearest(column, neighbours[tile.id], columns, rows)
        other = columns.get(near, column)
        row = _best_row(grid, min(column, other), max(column, other), column, rows.get(near, 0))
        rows[tile.id] = row
        grid.take(column, row)
        if near and row == rows[near]:
            grid.keep_way(row, min(column, other), max(column, other))
    return rows, grids


def _nearest(
    column: int, names: Iterable[str], columns: Mapping[str, int], rows: Mapping[str, int]
) -> str:
    """The placed neighbour in the nearest column, of several the topmost."""
    placed = [name for name in names if name in rows]
    return min(placed, key=lambda n: (abs(columns[n] - column), rows[n]), default="")


def _best_row(grid: Grid, left: int, right: int, column: int, wanted: int) -> int:
    """The free row nearest to `wanted`; a blocked way to the neighbour costs half a row."""
    options = (row for row in range(grid.num_rows + 1) if grid.is_free(column, row))
    return min(
        options,
        key=lambda row: (abs(row - wanted) + 0.5 * (not grid.is_clear(row, left, right)), row),
    )
