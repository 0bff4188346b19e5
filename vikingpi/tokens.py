"""The one estimate of tokens, used for pressure, budgets and the context share."""

from __future__ import annotations

import re

_WIDE = r"[^\x00-\u2fff]+"
IMAGE_TOKENS = 1200


def estimate(text: str) -> int:
    """Estimate tokens: 1.5 for a code point from U+3000 on, a quarter for any other, rounded up."""
    wide = 0 if text.isascii() else sum(len(run) for run in re.findall(_WIDE, text))
    return -(-(6 * wide + (len(text) - wide)) // 4)


def cut(text: str, budget: int) -> str:
    """Return the longest prefix of `text` whose estimate is at most `budget` tokens."""
    if estimate(text) <= budget:
        return text
    low, high = 0, min(len(text), 4 * budget)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if estimate(text[:middle]) <= budget else (low, middle - 1)
    return text[:low]
