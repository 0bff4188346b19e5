"""Painted lines for the region at the bottom, and how many of them it may have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text

from vikingpi.safetext import cells
from vikingpi.ui.status import unjoined
from vikingpi.values import NamedTuple

NARROW = 40


class Painted(NamedTuple):
    """A line ready for the region; `wide` is whether it has characters of two cells."""

    fragments: StyleAndTextTuples
    cells: int
    wide: bool


@lru_cache(256)
def painted(line: str) -> Painted:
    """Read a line with codes of colour; pieces of one style are joined."""
    fragments: StyleAndTextTuples = []
    for style, pieces in groupby(to_formatted_text(ANSI(unjoined(line))), key=itemgetter(0)):
        fragments.append((style, "".join(piece[1] for piece in pieces)))
    text = "".join(fragment[1] for fragment in fragments)
    return Painted(fragments or [("", "")], cells(text), cells(text) > len(text))


def at_half(cells: int, columns: int, *, wide: bool = False) -> int:
    """Count the rows that so many cells take in a terminal of half the width, or of NARROW columns if that is less.
    Where some are `wide` a row may not be full."""
    half = max(1, min(columns // 2, NARROW) - wide)
    return max(1, -(-cells // half))


def fitting(lines: Sequence[Painted], columns: int, most: int, height: int, wraps: int) -> int:
    """Count the last lines, at least one and at most `most`, that take no more than `height` rows at half the width,
    and no more than `wraps` in addition to one each."""
    count = 0
    while count < most:
        line = lines[-1 - count]
        taken = at_half(line.cells, columns, wide=line.wide)
        height, wraps = height - taken, wraps - taken + 1
        if count and min(height, wraps) < 0:
            break
        count += 1
    return count
