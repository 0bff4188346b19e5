"""What the ledger and the embedded store do in the same way when they open their SQLite files."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

BUSY_SECONDS = 10.0

# A statement, or a function that brings old rows into new tables.
Step = str | Callable[[sqlite3.Connection], None]


def make_private(path: Path) -> None:
    """Create the file 0600 or narrow it. An existing file is not opened: closing it would drop SQLite's locks."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if path.stat().st_mode & 0o077 and path.is_file():
            path.chmod(0o600)


def use_wal(db: sqlite3.Connection) -> None:
    """Switch to WAL. SQLite does not wait for other processes here, however long its busy time-out is."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def migrate(db: sqlite3.Connection, migrations: Sequence[Sequence[Step]]) -> int:
    """Apply what is missing, counted by `PRAGMA user_version`, in one transaction; return the version found.

    A version above the known ones is left alone: the caller refuses it.
    """
    found = version(db)
    if found < len(migrations):
        db.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have been first.
            found = version(db)
            for number, steps in enumerate(migrations[found:], found + 1):
                for step in steps:
                    if isinstance(step, str):
                        db.execute(step)
                    else:
                        step(db)
                db.execute(f"PRAGMA user_version = {number}")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")
    return found


def version(db: sqlite3.Connection) -> int:
    """Read `PRAGMA user_version`."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def look_at(path: Path, known: int) -> str:
    """Say what keeps a file from being used, "" for nothing: it is only read. `known` is the newest known version."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1)) as db:
            if version(db) > known:
                return "was written by a newer vpi"
            found = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
            return "" if found == "ok" else "is damaged"
    except sqlite3.Error as error:
        primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
        damaged = primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
        return "" if primary == sqlite3.SQLITE_BUSY else f"{'is damaged' if damaged else 'cannot be read'}: {error}"
