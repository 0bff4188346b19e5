"""Shorter forms of a text, for stores that make none: one line, or the beginning and the headings."""

from __future__ import annotations

from vikingpi.viking.facts import one_line

_ABSTRACT = 160
_OVERVIEW = 2000


def abstract(text: str) -> str:
    """Give the first line that says something."""
    first = next((line for line in text.splitlines() if line.strip(" #-*=`")), "")
    return one_line(first.lstrip("# "), _ABSTRACT)


def overview(text: str) -> str:
    """Give the beginning of a text and the headings of the rest."""
    if len(text) <= _OVERVIEW:
        return text
    head = text[: _OVERVIEW * 3 // 5]
    headings = [line.strip() for line in text[len(head) :].splitlines() if line.startswith("#")]
    listed = one_line("; ".join(headings), _OVERVIEW * 2 // 5)
    return f"{head.rstrip()}\n...\n" + (f"Further headings: {listed}\n" if listed else "") + f"({len(text)} characters)"
