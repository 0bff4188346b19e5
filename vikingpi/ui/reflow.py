"""How terminals break rows that are longer than the terminal has become wide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prompt_toolkit.layout.screen import Char


def rows_of(widths: Iterable[int], columns: int) -> int:
    """Count the rows that cells of these widths take, at least one."""
    rows, used = 1, 0
    for width in widths:
        if used and used + width > columns:
            rows, used = rows + 1, 0
        used += width
    return rows


def written(row: Mapping[int, Char], seen: Mapping[str, bool]) -> list[int]:
    """Return the widths of a row's cells up to the last that was written: blanks at the end are not, unless their
    style is seen."""
    end = max((x + 1 for x, cell in row.items() if cell.char != " " or seen[cell.style]), default=0)
    return [row[x].width if x in row else 1 for x in range(end)]


def row_of_cursor(widths: Sequence[int], x: int, columns: int) -> int:
    """Tell which of a broken row's rows has the cursor: the last one where it is behind all that is written."""
    return rows_of(widths[: x + 1], columns) - 1


def by_cells(widths: Sequence[int], cursor: int) -> list[int]:
    """Return a row as GNU screen breaks it: cell by cell, and the `cursor`'s cell is one, written or not."""
    return [1] * max(len(widths), cursor + 1)
