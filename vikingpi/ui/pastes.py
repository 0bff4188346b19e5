"""Long pastes show as a marker in the editor; what is sent and remembered is their text."""

from __future__ import annotations

import re

LONGEST_LINES = 10
LONGEST_CHARACTERS = 1000
_MARKER = re.compile(r"\[paste #\d+ [^\[\]\n]{1,40}\]")


class Pastes:
    """The texts behind the markers of one editor."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._count = 0

    def fold(self, text: str) -> str:
        """Return a marker for a text that is long, and other texts as they are."""
        lines = text.count("\n") + (not text.endswith("\n"))
        if lines <= LONGEST_LINES and len(text) <= LONGEST_CHARACTERS:
            return text
        self._count += 1
        size = f"{lines} lines" if lines > LONGEST_LINES else f"{len(text)} characters"
        marker = f"[paste #{self._count} {size}]"
        self._texts[marker] = text
        return marker

    def unfold(self, text: str) -> str:
        """Put the texts back in place of their markers."""
        if not self._texts:
            return text
        return _MARKER.sub(lambda match: self._texts.get(match.group(), match.group()), text)

    def marker_before(self, text: str) -> str:
        """Return the marker at the end of `text`, or nothing: it is erased as a whole."""
        return next((marker for marker in self._texts if text.endswith(marker)), "")

    def marker_after(self, text: str) -> str:
        """Return the marker at the beginning of `text`, or nothing."""
        return next((marker for marker in self._texts if text.startswith(marker)), "")
