"""Sweeps the full outputs of commands that sessions have left: they stay for seven days after their last use."""

from __future__ import annotations

import os
import shutil
from itertools import islice
from pathlib import Path

from vikingpi.errors import SessionError
from vikingpi.session.lock import lock_session

KEPT_SECONDS = 7 * 86_400
_MOST = 200


def sweep(folder: Path, locks: Path, now: float) -> int:
    """Remove the folders of sessions that nobody has open and nobody wrote to for a week; return how many.

    `now` in seconds since the epoch. What cannot be removed stays for the next time.
    """
    try:
        found = list(islice(os.scandir(folder), _MOST))
    except OSError:
        return 0
    old = [
        entry.name for entry in found if entry.is_dir(follow_symlinks=False) and _touched(entry) < now - KEPT_SECONDS
    ]
    return sum(_remove(folder / name, locks, name) for name in old)


def _touched(entry: os.DirEntry[str]) -> float:
    """When something in the folder was last written; what cannot be read counts as new."""
    try:
        times = [each.stat(follow_symlinks=False).st_mtime for each in os.scandir(entry.path)]
        return max((*times, entry.stat(follow_symlinks=False).st_mtime))
    except OSError:
        return float("inf")


def _remove(folder: Path, locks: Path, session_id: str) -> bool:
    try:
        lock = lock_session(locks, session_id)
    except SessionError:
        return False
    try:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        lock.release()
    return not folder.exists()
