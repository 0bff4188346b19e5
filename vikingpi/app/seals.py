"""Marks by which a run knows what vpi itself has written into a session file: such files also come from strangers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache


def make_seal(key: Callable[[], bytes]) -> Callable[[str], str]:
    """Give a function that marks a text with 16 hex digits. `key` is asked for once, when the first text is marked."""
    kept = cache(key)

    def seal(text: str) -> str:
        return hashlib.blake2s(text.encode("utf-8", "surrogatepass"), key=kept(), digest_size=8).hexdigest()

    return seal
