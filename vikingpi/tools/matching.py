"""Find the text that an edit means, in a file whose bytes outside of it must stay as they are.

Positions are those of the file's text with every line ending as one newline; `Source.to_raw` maps them back. A lone
carriage return ends a line only in a file that has no newline at all.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right

from vikingpi.tools.diff import compare
from vikingpi.values import NamedTuple

_SPECIAL = r"(?<![^\S\n])[^\S\n]+(?=\n|\Z)|[\x00-\x09\x0b-\x7f]?[^\x00-\x7f\s]+|[^\S\x00-\x7f]+"
_PLAIN = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys(
            "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "
        ),
    }
)
_MOST_FOUND = 1000
# Looking for look-alikes takes up to 3 s for so many characters, and nothing else runs meanwhile.
_MOST_FOLDED = 1_000_000


class Span(NamedTuple):
    start: int
    end: int


class Found(NamedTuple):
    """All places that match, overlapping ones too; `exact` tells how."""

    spans: tuple[Span, ...]
    exact: bool


class Source:
    """A file's text, to be searched several times."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self._ending = re.compile(r"\r\n|\n" if "\n" in raw else r"\r")
        self.text = self._unify(raw)
        pairs = [match.start() for match in re.finditer("\r\n", raw)]
        self._pairs = [position - index for index, position in enumerate(pairs)]
        self._folded: _Folded | None = None

    def to_raw(self, position: int) -> int:
        """Return the position in the raw text."""
        return position + bisect_left(self._pairs, position)

    def find(self, wanted: str) -> Found:
        """Find `wanted` exactly or, where it stands nowhere and the text is not huge, by what it looks like."""
        wanted = self._unify(wanted)
        exact = [Span(at, at + len(wanted)) for at in _occurrences(self.text, wanted)]
        return Found(tuple(exact), True) if exact else Found(self._alike(wanted), False)

    def rewrite(self, span: Span, old: str, new: str) -> str:
        """Return the raw text that takes the place of `span`.

        Lines that `old` and `new` have in common keep the file's bytes. A changed line keeps the ending of the line it
        stands for, an added one takes the ending of the line where the span starts.
        """
        old, new = self._unify(old), self._unify(new)
        raw = self.raw[self.to_raw(span.start) : self.to_raw(span.end)]
        blanks = old[len(old.rstrip(" \t")) :]
        if blanks and new.endswith(blanks) and not raw[-1:].isspace():
            old, new = old.removesuffix(blanks), new.removesuffix(blanks)
        default = self._ending_at(span.start)
        return new if raw == old and default == "\n" else self._merge(raw, old, new, default)

    def _unify(self, text: str) -> str:
        if "\r" not in text:
            return text
        text = text.replace("\r\n", "\n")
        return text if "\n" in self.raw else text.replace("\r", "\n")

    def _ending_at(self, start: int) -> str:
        at = self.to_raw(start)
        match = self._ending.search(self.raw, at)
        if match is not None:
            return match.group()
        endings: list[str] = self._ending.findall(self.raw, 0, at)
        return endings[-1] if endings else "\n"

    def _merge(self, raw: str, old: str, new: str, default: str) -> str:
        endings = self._ending.findall(raw)
        bodies = self._ending.split(raw)
        new_lines = new.split("\n")
        endings += [default] * (len(bodies) - len(endings))
        merged: list[str] = []
        at = 0
        for change in compare(old.split("\n"), new_lines):
            for index in range(at, change.old_from):
                merged += (bodies[index], endings[index])
            for offset, line in enumerate(new_lines[change.new_from : change.new_to]):
                index = change.old_from + offset
                merged += (line, endings[index] if index < change.old_to else default)
            at = change.old_to
        for index in range(at, len(bodies)):
            merged += (bodies[index], endings[index])
        return "".join(merged[:-1])

    def _alike(self, wanted: str) -> tuple[Span, ...]:
        if not wanted.strip() or len(self.text) > _MOST_FOLDED:
            return ()
        if self._folded is None:
            self._folded = fold(self.text, strip_end=True)
        folded = self._folded
        for strip_end in (False, True):
            key = fold(wanted, strip_end=strip_end).text
            spans: list[Span] = []
            for at in _occurrences(folded.text, key):
                start, end = folded.start_of(at), folded.end_of(at + len(key))
                if start is not None and end is not None:
                    spans.append(Span(start, end))
            if spans:
                return tuple(spans)
        return ()


class _Folded(NamedTuple):
    """`text` with look-alikes made equal; the lists describe each piece that has changed."""

    text: str
    starts: list[int]
    ends: list[int]
    source_starts: list[int]
    source_ends: list[int]

    def start_of(self, position: int) -> int | None:
        """Map a start back; None in the middle of a character that was taken apart."""
        index = bisect_right(self.starts, position) - 1
        if index < 0:
            return position
        if self.starts[index] == position < self.ends[index]:
            return self.source_starts[index]
        return self._after(index, position)

    def end_of(self, position: int) -> int | None:
        """Map an end back; trailing blanks that were left out stay outside."""
        index = bisect_left(self.starts, position) - 1
        return position if index < 0 else self._after(index, position)

    def _after(self, index: int, position: int) -> int | None:
        beyond = position - self.ends[index]
        return None if beyond < 0 else self.source_ends[index] + beyond


def fold(text: str, *, strip_end: bool) -> _Folded:
    """Make compatible forms, quotes, dashes and spaces equal and leave out blanks at line ends."""
    pieces: list[str] = []
    folded = _Folded("", [], [], [], [])
    length = at = 0

    def put(piece: str, start: int, end: int) -> None:
        nonlocal length, at
        pieces.append(text[at:start])
        length += start - at
        folded.starts.append(length)
        length += len(piece)
        folded.ends.append(length)
        folded.source_starts.append(start)
        folded.source_ends.append(end)
        pieces.append(piece)
        at = end

    for match in re.finditer(_SPECIAL, text):
        if match.group().isspace() and (strip_end or match.end() < len(text)) and _at_line_end(text, match.end()):
            put("", match.start(), match.end())
            continue
        for start, end in _clusters(text, match.start(), match.end()):
            cluster = text[start:end]
            plain = unicodedata.normalize("NFKC", cluster.translate(_PLAIN)).translate(_PLAIN)
            if plain != cluster:
                put(plain, start, end)
    pieces.append(text[at:])
    return folded._replace(text="".join(pieces))


def _at_line_end(text: str, position: int) -> bool:
    return position == len(text) or text[position] == "\n"


def _clusters(text: str, start: int, end: int) -> list[tuple[int, int]]:
    cuts = [start]
    cuts += [at for at in range(start + 1, end) if not _joins(text[at])]
    return list(zip(cuts, [*cuts[1:], end], strict=True))


def _joins(char: str) -> bool:
    return unicodedata.combining(char) != 0 or "\u1160" <= char <= "\u11ff"


def _occurrences(text: str, wanted: str) -> list[int]:
    found: list[int] = []
    at = text.find(wanted) if wanted else -1
    while at >= 0 and len(found) < _MOST_FOUND:
        found.append(at)
        at = text.find(wanted, at + 1)
    return found
