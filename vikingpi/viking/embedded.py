"""The file of the embedded store: SQLite in WAL mode, shared by all vpi processes of a user.

Tables change by ordered migrations only; `PRAGMA user_version` counts those that were applied. A file that SQLite
cannot read is moved aside as `<name>.corrupt-<stamp>` and a new one is begun; nothing is ever overwritten.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from vikingpi.errors import StoreError, StoreRejected, StoreUnreachable
from vikingpi.private import private_dir
from vikingpi.viking.embedded_schema import MIGRATIONS
from vikingpi.viking.sqlite import make_private, migrate, use_wal

T = TypeVar("T")

BUSY_SECONDS = 5.0


class StoreFile:
    """The store's file, opened at first use. Its work runs in worker threads, one piece at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notices: tuple[str, ...] = ()
        self._db: sqlite3.Connection | None = None
        self._inode = 0
        self._ending = False
        self._lock = threading.Lock()

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on one consistent snapshot."""
        return await asyncio.to_thread(self._run, work, "BEGIN")

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` as one write transaction."""
        return await asyncio.to_thread(self._run, work, "BEGIN IMMEDIATE")

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _run(self, work: Callable[[sqlite3.Connection], T], begin: str) -> T:
        with self._lock:
            self._ending = False
            try:
                with self._transaction(self._opened(), begin) as db:
                    return work(db)
            except (sqlite3.Error, OSError) as error:
                raise self._translated(error) from error

    @contextmanager
    def _transaction(self, db: sqlite3.Connection, begin: str) -> Generator[sqlite3.Connection]:
        db.execute(begin)
        try:
            yield db
            self._ending = True
            db.execute("COMMIT")
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")

    def _opened(self) -> sqlite3.Connection:
        """Return the connection; open the file anew when another process has moved or removed it."""
        if self._db is not None:
            try:
                if self.path.stat().st_ino == self._inode:
                    return self._db
            except FileNotFoundError:
                pass
            self._drop()
        self._db = self._open()
        self._inode = self.path.stat().st_ino
        return self._db

    def _open(self) -> sqlite3.Connection:
        try:
            return open_file(self.path)
        except sqlite3.DatabaseError as error:
            if not _damaged(error):
                raise
            self._notice(set_aside(self.path))
            return open_file(self.path)

    def _translated(self, error: sqlite3.Error | OSError) -> StoreError:
        if _damaged(error):
            self._drop()
            try:
                self._notice(set_aside(self.path))
            except OSError as problem:
                error = problem
            return StoreUnreachable(f"the context store {self.path} is damaged: {error}", may_have_stored=False)
        code = _primary(error)
        if code == sqlite3.SQLITE_TOOBIG or isinstance(error, sqlite3.DataError):
            return StoreRejected("too large for the context store", status=413, code="TOO_LARGE")
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StoreUnreachable(
                "the context store is busy with another process", may_have_stored=False, retry_after=1.0
            )
        full = code == sqlite3.SQLITE_FULL or getattr(error, "errno", 0) == errno.ENOSPC or _no_room(self.path)
        return StoreUnreachable(
            f"the context store {self.path} cannot be used: {'the disk is full' if full else error}",
            hint="make room on the disk" if full else "check that the file and its folder are yours to write",
            may_have_stored=self._ending and code != sqlite3.SQLITE_FULL,
        )

    def _notice(self, text: str) -> None:
        if text:
            self.notices = (*self.notices, text)

    def _drop(self) -> None:
        if self._db is not None:
            db, self._db = self._db, None
            db.close()

    def _close(self) -> None:
        with self._lock:
            self._drop()


def open_file(path: Path) -> sqlite3.Connection:
    """Open or create the file and bring its tables up to date.

    Raise StoreRejected when a newer vpi wrote it, sqlite3.Error when SQLite cannot use it.
    """
    private_dir(path.parent)
    make_private(path)
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        use_wal(db)
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
        if migrate(db, MIGRATIONS) > len(MIGRATIONS):
            raise StoreRejected(
                f"the context store {path} was written by a newer vpi",
                hint="upgrade vpi, or run it with --store off",
                status=0,
                code="NEWER_STORE",
            )
    except BaseException:
        db.close()
        raise
    return db


def set_aside(path: Path) -> str:
    """Move a damaged file and its log away; return a line that says so, or "" when it turns out to be sound."""
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists() or _sound(path):
            return ""
        aside = _free_name(path)
        # The log goes first: beside a new file it would be played into it.
        for suffix in ("-wal", "-shm", ""):
            part = path.with_name(path.name + suffix)
            if part.exists():
                part.rename(aside.with_name(aside.name + suffix))
    finally:
        os.close(lock)
    return f"the context store {path} was damaged; it was moved to {aside.name} and a new one was begun"


def _free_name(path: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    base = path.with_name(f"{path.name}.corrupt-{stamp}")
    number, name = 1, base
    while name.exists():
        number += 1
        name = base.with_name(f"{base.name}-{number}")
    return name


def _sound(path: Path) -> bool:
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        return db.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)
    except sqlite3.DatabaseError as error:
        return not _damaged(error)
    finally:
        db.close()


def _no_room(path: Path) -> bool:
    """Whether the disk is full: where SQLite cannot even make its shared memory it names an I/O error."""
    try:
        room = os.statvfs(path.parent)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize < 65_536


def _damaged(error: Exception) -> bool:
    return _primary(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _primary(error: Exception) -> int:
    """Return SQLite's primary result code, 0 for an error that is not SQLite's."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
