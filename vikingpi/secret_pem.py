"""Find private key blocks in PEM, whole or cut, and with something in front of each line: a number, a name, a quote."""

from __future__ import annotations

import functools
import re

_MOST = 20_000
_BEGIN = r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_END = r"-----END (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_BODY = r"(?:[A-Za-z0-9+/=\s:,.]|\\[nr]|-(?!----)){0,20000}"
_KEY_LINE = r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{40,200}+={0,2}+"
_PREFIXED = rf"(?:[\"',;|) \t]{{1,8}}\r?\n)?[^\r\n]{{0,200}}?{_KEY_LINE}[\"'\\,;|) \t]{{0,8}}(?:\r?\n|\Z)"
_LINE = r"(?:(?!\\[nr])[^\r\n])+"
_WORD = r"[^\s\\]+"
_KEY_TEXT = rf"[A-Za-z0-9+/=]{{16,}}|[^\s\\]{{0,200}}?{_KEY_LINE}[\"',;|)]{{0,4}}"
_regex = functools.cache(re.compile)


def whole_blocks(text: str) -> list[tuple[int, int]]:
    """Give where the blocks are whose beginning is there."""
    spans: list[tuple[int, int]] = []
    at = 0
    while begin := _regex(_BEGIN).search(text, at):
        at = _end_of(text, begin.end())
        spans.append((begin.start(), at))
    return spans


def cut_blocks(text: str) -> list[tuple[int, int]]:
    """Give where the ends of blocks are, with their last lines, whose beginning is not there."""
    spans: list[tuple[int, int]] = []
    at = 0
    while end := _regex(_END).search(text, at):
        start = _start_of(text, max(at, end.start() - _MOST), end.start())
        if start is not None:
            spans.append((start, end.end()))
        at = end.end()
    return spans


def _end_of(text: str, at: int) -> int:
    again = _regex(_BEGIN).search(text, at, at + _MOST)
    end = _regex(_END).search(text, at, again.start() if again is not None else at + _MOST)
    if end is not None:
        return end.end()
    body = _regex(_BODY).match(text, at)
    stop = body.end() if body is not None else at
    while stop - at < _MOST and stop < len(text) and (line := _regex(_PREFIXED).match(text, stop)):
        stop = line.end()
    return stop


def _start_of(text: str, low: int, high: int) -> int | None:
    """Find where the lines of base64 that end at `high` begin; the last two may be shorter."""
    start: int | None = None
    for index, line in enumerate(reversed(list(_regex(_LINE).finditer(text, low, high)))):
        at: int | None = None
        for word in reversed(list(_regex(_WORD).finditer(text, *line.span()))):
            if _regex(_KEY_TEXT).fullmatch(word.group()) is None:
                break
            at = word.start()
        if at is None and index > 1 and line.group().strip():
            break
        start = at if at is not None else start
    return start
