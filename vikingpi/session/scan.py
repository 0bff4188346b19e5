"""Find name and totals in the part of a session file that a resume did not read; meant for a thread."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from vikingpi.messages import Usage
from vikingpi.session.entries import usage_from_json
from vikingpi.session.lines import entry_of, parse_line
from vikingpi.session.tree import add_usage, name_of, usage_of

_USAGE = b'"usage":{"input":'
_PAUSE_EVERY = 1024 * 1024
_PAUSE = 0.005


def scan_start(path: Path, end: int, stop: Callable[[], bool]) -> tuple[str | None, Usage] | None:
    """Return the newest name and the usage of the first `end` bytes; None when `stop` said so. OSError.

    Most lines are not decoded: the usage object is taken out of them, where it can be told for certain.
    """
    name: str | None = None
    usage = Usage()
    place = paused = 0
    with path.open("rb") as file:
        for line in file:
            place += len(line)
            if place > end:
                break
            usage = add_usage(usage, _usage_in(line))
            if b'"session_info"' in line or b'"ov-takeover"' in line:
                entry = entry_of(parse_line(line) or {})
                name = (name_of((entry,)) if entry is not None else "") or name
            if place - paused > _PAUSE_EVERY:
                paused = place
                if stop():
                    return None
                time.sleep(_PAUSE)
    return name, usage


def _usage_in(line: bytes) -> Usage:
    count = line.count(b'"usage"')
    if not count:
        return Usage()
    if count == 1 and (at := line.find(_USAGE)) >= 0:
        try:
            value, _ = json.JSONDecoder().raw_decode(line[at + len(b'"usage":') : at + 1024].decode("utf-8", "replace"))
        except ValueError:
            value = None
        if value is not None:
            return usage_from_json(value)
    entry = entry_of(parse_line(line) or {})
    return usage_of(entry) if entry is not None else Usage()
