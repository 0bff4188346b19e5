"""Which rows of a paragraph that still arrives cannot change any more."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vikingpi.values import NamedTuple

_OTHER_BLOCK = re.compile(r"^(?:\s|[#>|+=-]|[*] |\d+[.)]|`{3}|~{3})|\|", re.MULTILINE)
_CODES = re.compile(r"\x1b\[[\d;]*m")
_MARKS = "*_`~[]\\"
_UNDECIDED = "*`~[<\\"


class Cut(NamedTuple):
    """The first `rows` rows show the first `at` characters."""

    rows: int
    at: int


def settled(text: str, lines: Sequence[str], most: int) -> Cut:
    """Find the longest beginning, of at most so many rows, that no mark after it can change; `lines` are painted.

    What is marked over the end of a row is not noticed: whoever cuts there compares what both parts look like.
    """
    found, at = Cut(0, 0), 0
    if _OTHER_BLOCK.search(text):
        return found
    for number, line in enumerate(lines[:most], 1):
        end = _end_of(_CODES.sub("", line), text, at)
        if end is None:
            break
        found, at = Cut(number, end), end
    return found


def _end_of(row: str, text: str, at: int) -> int | None:
    """Return where in the text a row ends, None where it has what may yet turn out to be a mark."""
    for char in row:
        if char.isspace():
            continue
        while at < len(text) and text[at] != char and (text[at].isspace() or text[at] in _MARKS):
            at += 1
        if at == len(text) or text[at] != char or char in _UNDECIDED or (char == "_" and not _within(text, at)):
            return None
        at += 1
    while at < len(text) and text[at] in _MARKS:
        at += 1
    return at


def _within(text: str, at: int) -> bool:
    """Tell whether a character is within a word."""
    return text[at - 1 : at].isalnum() and text[at + 1 : at + 2].isalnum()
