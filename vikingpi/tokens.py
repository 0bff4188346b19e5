"""The one estimate of tokens, used for pressure, budgets and the context share; what a count is held to."""

from __future__ import annotations

import re
from collections.abc import Iterable

from vikingpi.values import NamedTuple

_WIDE = r"[^\x00-\u2fff]+"
IMAGE_TOKENS = 1200
# The dearest count of one image that a provider documents, rounded up.
_MOST_IMAGE = 40_000
# So many times fewer tokens than estimated are still possible, and so many that nobody sent: a template, a server's own
# instructions.
_FEWER, _UNSEEN = 4, 4000


class Size(NamedTuple):
    """`tokens` is the estimate, `sure` its part that every server counts, `most` what no tokenizer goes beyond."""

    tokens: int = 0
    sure: int = 0
    most: int = 0

    def holds(self, count: int) -> bool:
        """Whether a server that counted right can have counted so many tokens."""
        return self.sure // _FEWER <= count <= self.most + _UNSEEN


IMAGE = Size(IMAGE_TOKENS, 0, _MOST_IMAGE)


def total(sizes: Iterable[Size]) -> Size:
    """Add up."""
    tokens = sure = most = 0
    for one in sizes:
        tokens += one.tokens
        sure += one.sure
        most += one.most
    return Size(tokens, sure, most)


def size(text: str) -> Size:
    """Measure a text; a token is at least one byte of it."""
    if text.isascii():
        tokens, most = -(-len(text) // 4), len(text)  # as `estimate` has it; histories have many of these
    else:
        tokens, most = estimate(text), len(text.encode("utf-8", "surrogatepass"))
    return Size(tokens, tokens, most)


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
