"""Names in session files: entry ids, UUIDv7 session ids, ISO timestamps."""

from __future__ import annotations

import os
import re
import time
from datetime import datetime

_SESSION_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


def new_entry_id() -> str:
    """Return 16 random hex digits: unique in a file without having read it."""
    return os.urandom(8).hex()


def new_session_id(now: float) -> str:
    """Return a UUIDv7 (RFC 9562, 5.7) for `now` in seconds since the epoch."""
    random = int.from_bytes(os.urandom(10), "big")
    milliseconds = int(now * 1000) & (1 << 48) - 1
    value = milliseconds << 80 | 0x7 << 76 | (random >> 68 & 0xFFF) << 64 | 0b10 << 62 | random & (1 << 62) - 1
    digits = f"{value:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def is_session_id(text: str) -> bool:
    """Tell whether `text` may name a session: letters, digits and, between them, `.`, `_` and `-`."""
    return len(text) <= 200 and _SESSION_ID.fullmatch(text) is not None


def iso_time(now: float) -> str:
    """Write seconds since the epoch as `2026-11-30T09:50:49.583Z`."""
    milliseconds = int(now * 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(milliseconds // 1000)) + f".{milliseconds % 1000:03d}Z"


def ms_of(timestamp: str) -> int:
    """Read an ISO time as ms since the epoch; 0 for anything else."""
    try:
        moment = datetime.fromisoformat(timestamp)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return 0


def file_name(timestamp: str, session_id: str) -> str:
    """Name a session file as pi does."""
    return f"{timestamp.replace(':', '-').replace('.', '-')}_{session_id}.jsonl"
