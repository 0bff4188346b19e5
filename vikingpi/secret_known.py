"""Find secrets that are known by value: whole, broken over lines, or a longer piece of one."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

_LEAST = 8
_LEAST_IN_PIECES = 20
_PIECE, _STEP = 12, 4
_BREAK = r"(?:\\?\r?\n[ \t]*|\\r?\\n)"
_PREFIX = r"[A-Za-z0-9]{1,8}[-_]"
_regex = functools.cache(re.compile)


class KnownSecrets:
    """Secrets of at least 8 characters; pieces are looked for from 15 characters on, in what is long and mixed."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted({secret for secret in secrets if len(secret) >= _LEAST}, key=len, reverse=True)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Give where they are, in order and without overlaps."""
        found: list[tuple[int, int]] = []
        joined = _regex(_BREAK).sub("", text) if "\n" in text or "\\n" in text else ""
        for secret in self._secrets:
            if secret in text:
                found += [match.span() for match in re.finditer(re.escape(secret), text)]
            if len(secret) < _LEAST_IN_PIECES:
                continue
            if joined.count(secret) > text.count(secret):
                pattern = f"{_BREAK}?".join(map(re.escape, secret))
                found += [match.span() for match in re.finditer(pattern, text)]
        for secret, piece, at in self._pieces:
            if piece in text:
                found += _around(text, secret, piece, at)
        return _merged(found)

    @functools.cached_property
    def _pieces(self) -> list[tuple[str, str, int]]:
        """Pieces that cannot be words, with where they stand in their secret; a prefix such as sk- tells nothing."""
        return [
            (secret, piece, at)
            for secret in self._secrets
            if len(secret) >= _LEAST_IN_PIECES
            for at in range(_STEP if _regex(_PREFIX).match(secret) else 0, len(secret) - _PIECE + 1, _STEP)
            if _is_mixed(piece := secret[at : at + _PIECE])
        ]


def _is_mixed(text: str) -> bool:
    return any(map(str.isdigit, text)) and any(map(str.isalpha, text))


def _around(text: str, secret: str, piece: str, at: int) -> list[tuple[int, int]]:
    """Give where `piece` is, each with as much of the secret as stands around it."""
    found: list[tuple[int, int]] = []
    place = text.find(piece)
    while place >= 0:
        start, end = place, place + len(piece)
        while start > 0 and at - (place - start) > 0 and text[start - 1] == secret[at - (place - start) - 1]:
            start -= 1
        while end < len(text) and at + end - place < len(secret) and text[end] == secret[at + end - place]:
            end += 1
        found.append((start, end))
        place = text.find(piece, end)
    return found


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
