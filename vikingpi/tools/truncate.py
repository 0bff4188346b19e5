"""Cut long text to what a model may get: 2000 lines or 51200 bytes of UTF-8, whichever comes first."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from vikingpi.decode import Json
from vikingpi.values import NamedTuple

MAX_LINES = 2000
MAX_BYTES = 51200

_REACH = 4096
_MOST_MOVES = 16


class Truncation(NamedTuple):
    """What `head` or `tail` kept.

    `by` names the limit that was hit. `last_line_partial`: not even one whole line fitted and a piece of it was kept
    (`tail` only); `first_line_too_long`: nothing was kept because the first line alone is over the limit (`head` only).
    """

    text: str
    by: Literal["lines", "bytes"] | None
    total_lines: int
    total_bytes: int
    output_lines: int
    output_bytes: int
    last_line_partial: bool = False
    first_line_too_long: bool = False
    max_lines: int = MAX_LINES
    max_bytes: int = MAX_BYTES

    def details(self) -> Json:
        """Give it in the form that the session file keeps."""
        return {
            "content": self.text,
            "truncated": self.by is not None,
            "truncatedBy": self.by,
            "totalLines": self.total_lines,
            "totalBytes": self.total_bytes,
            "outputLines": self.output_lines,
            "outputBytes": self.output_bytes,
            "lastLinePartial": self.last_line_partial,
            "firstLineExceedsLimit": self.first_line_too_long,
            "maxLines": self.max_lines,
            "maxBytes": self.max_bytes,
        }


def head(text: str, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> Truncation:
    """Keep whole lines from the start."""
    lines = text.split("\n")
    total = _size(text)
    if len(lines) <= max_lines and total <= max_bytes:
        return Truncation(text, None, len(lines), total, len(lines), total, False, False, max_lines, max_bytes)
    used = kept = 0
    while kept < min(len(lines), max_lines):
        size = _size(lines[kept]) + (1 if kept else 0)
        if used + size > max_bytes:
            break
        used += size
        kept += 1
    by: Literal["lines", "bytes"] = "lines" if kept == max_lines else "bytes"
    text = "\n".join(lines[:kept])
    return Truncation(text, by, len(lines), total, kept, used, False, kept == 0, max_lines, max_bytes)


def tail(
    text: str, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES, mask: Callable[[str], str] = str
) -> Truncation:
    """Keep whole lines from the end, or the end of the last line when that alone is too long.

    A final newline ends the last line and begins no other. `mask` as in `whole_from`.
    """
    lines = text.split("\n")
    end = "\n" if len(lines) > 1 and not lines[-1] else ""
    if end:
        lines.pop()
    count = len(lines) if text else 0
    total = _size(text)
    if count <= max_lines and total <= max_bytes:
        return Truncation(text, None, count, total, count, total, False, False, max_lines, max_bytes)
    used = len(end)
    kept = 0
    while kept < min(count, max_lines):
        size = _size(lines[-1 - kept]) + (1 if kept else 0)
        if used + size > max_bytes:
            break
        used += size
        kept += 1
    by: Literal["lines", "bytes"] = "lines" if kept == max_lines else "bytes"
    if kept == 0:
        kept_text = cut_start(lines[-1], max_bytes - len(end))
        text = lines[-1][whole_from(lines[-1], len(lines[-1]) - len(kept_text), mask) :] + end
        return Truncation(text, "bytes", count, total, 1, _size(text), True, False, max_lines, max_bytes)
    text = "\n".join(lines[-kept:]) + end
    return Truncation(text, by, count, total, kept, used, False, False, max_lines, max_bytes)


def whole_from(text: str, at: int, mask: Callable[[str], str]) -> int:
    """Move the place `at` forward, where what is before it is cut off, until it does not go through a secret.

    A secret is what `mask` changes: half of one, or one without its name, would not be known for what it is later.
    """
    for _ in range(_MOST_MOVES):
        if not divides(text, at, mask):
            return at
        space = re.compile(r"\s+").search(text, at + 1, at + _REACH)
        at = min(len(text), space.end() if space else at + _REACH)
    return len(text)


def whole_until(text: str, at: int, mask: Callable[[str], str]) -> int:
    """Move the place `at` backward, where what is behind it is cut off, in the same way."""
    for _ in range(_MOST_MOVES):
        if not divides(text, at, mask):
            return at
        at = max((text.rfind(char, max(0, at - _REACH), at) for char in " \t"), default=0)
        if at <= 0:
            break
    return 0


def divides(text: str, at: int, mask: Callable[[str], str]) -> bool:
    """Tell whether a cut at the place `at` would go through a secret."""
    if mask is str:
        return False
    before, after = text[max(0, at - _REACH) : at], text[at : at + _REACH]
    return mask(before + after) != mask(before) + mask(after)


def cut_start(text: str, size: int) -> str:
    """Return the longest end of `text` of at most `size` bytes, cut at a whole character."""
    return text.encode("utf-8", "replace")[-size:].decode("utf-8", "ignore") if size > 0 else ""


def cut_end(text: str, size: int) -> str:
    """Return the longest start of `text` of at most `size` bytes, cut at a whole character."""
    return text.encode("utf-8", "replace")[:size].decode("utf-8", "ignore")


def size_text(size: int) -> str:
    """Write a number of bytes for a reader."""
    if size < 1024:
        return f"{size}B"
    return f"{size / 1024:.1f}KB" if size < 1024 * 1024 else f"{size / (1024 * 1024):.1f}MB"


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
