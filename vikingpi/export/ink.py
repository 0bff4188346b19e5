"""What comes out of a session file passes here before it stands in a page: masked, visible, of bounded length."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from vikingpi import safetext
from vikingpi.redact import Redactor

MOST_TEXT = 8_000_000
_LIMITS = (60_000, 20_000, 8000, 3000, 1000, 400, 150)
# A secret that begins before a cut is still seen whole.
_BEYOND = 4000


class Ink:
    """`limit` is the longest text in characters; `cut` counts the texts that were shortened."""

    def __init__(self, redactor: Redactor | None, limit: int = _LIMITS[0]) -> None:
        self.masks = redactor is not None
        self.cut = 0
        self.limit = limit
        self._redactor = redactor

    def text(self, text: str) -> str:
        """Return a text as it may be shown."""
        return self._shown(text, safetext.plain)

    def literal(self, text: str) -> str:
        """Return a text with nothing left out of it: for commands, paths and names."""
        return self._shown(text, safetext.literal)

    def line(self, text: str, limit: int = 200) -> str:
        """Return the beginning of a text on one line."""
        return safetext.one_line(self._clean(text[: 8 * limit + _BEYOND], safetext.plain), limit)

    def json(self, value: Any) -> Any:
        """Return a JSON value without its secrets; its texts still have to pass."""
        return value if self._redactor is None else self._redactor.mask_json(value)[0]

    def holds_secret(self, text: str) -> bool:
        """Tell whether something in a text would be masked."""
        return self._redactor is not None and self._redactor.mask(text)[1] > 0

    def _shown(self, text: str, clean: Callable[[str], str]) -> str:
        shown = self._clean(text[: self.limit + _BEYOND], clean)
        if len(text) <= self.limit:
            return shown
        self.cut += 1
        return f"{shown[: self.limit]}\n[{len(text) - self.limit:,} more characters are in the session file]"

    def _clean(self, text: str, clean: Callable[[str], str]) -> str:
        masked = self._hidden(text)
        shown = clean(masked)
        # What is not shown may have stood inside of a secret.
        return shown if shown == masked else self._hidden(shown)

    def _hidden(self, text: str) -> str:
        return text if self._redactor is None else self._redactor.mask(text)[0]


def fair_limit(lengths: Iterable[int], most: int = MOST_TEXT) -> int:
    """Return the largest limit under which texts of these lengths are `most` characters together, about."""
    known = list(lengths)
    return next((limit for limit in _LIMITS if sum(min(one, limit) for one in known) <= most), _LIMITS[-1])
