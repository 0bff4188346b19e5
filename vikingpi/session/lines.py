"""The lines of a session file."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from typing import TypeVar, cast

from vikingpi.decode import Json, as_str
from vikingpi.session.entries import Entry, whole

T = TypeVar("T")

_MANY = 100_000


def parse_line(line: bytes) -> Json | None:
    """Decode one line; None if it holds no JSON object. NUL bytes around it (a crash leaves some) are ignored."""
    text = line.strip(b"\0 \t\r\n").removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    if "\\ud" in text or "\\uD" in text:
        value = whole(cast(Json, value))
    return cast(Json, value)


def entry_of(raw: Json) -> Entry | None:
    """Make the entry of a decoded line; None for a header and for what has no id."""
    entry_id = as_str(raw.get("id"))
    if not entry_id or raw.get("type") == "session":
        return None
    parent = as_str(raw.get("parentId")) or None
    return Entry(entry_id, parent, as_str(raw.get("type")), as_str(raw.get("timestamp")), raw)


def uncollected(make: Callable[[], T]) -> T:
    """Make what many lines hold without looking for garbage: it stays, and later looks pass it over too.

    Looking through it again and again takes an eighth of a resume of 100,000 entries.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        return make()
    finally:
        if gc.get_count()[0] > _MANY:
            gc.freeze()
        if collecting:
            gc.enable()
