"""Entries of a session file: pi's JSON Lines format, version 3, and its message shapes."""

from __future__ import annotations

from typing import NamedTuple

from vikingpi.decode import Json


class Entry(NamedTuple):
    """One line of a session file after the header; `raw` is the whole decoded object and is never changed."""

    id: str
    parent_id: str | None
    type: str
    timestamp: str
    raw: Json
