"""The ledger's SQLite file: its tables, how it is opened, and its transactions.

`PRAGMA user_version` counts the migrations that were applied. Times are ms since the epoch. `generation.created_at` is
the store's own text, compared and never parsed. `message.counts`: 1 adds to the pressure, 2 belongs to the open commit
(and adds to the pressure until the store has accepted it), 0 counts no more.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from vikingpi.errors import StoreRejected
from vikingpi.viking.sqlite import BUSY_SECONDS, make_private, migrate, use_wal

# What is on the event loop's way: nobody at the keyboard waits longer for another process.
LOCKED_MS = 400

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE store (
            id INTEGER PRIMARY KEY,
            identity TEXT NOT NULL UNIQUE,
            retry_at INTEGER NOT NULL DEFAULT 0,
            last_error TEXT NOT NULL DEFAULT '',
            last_success INTEGER NOT NULL DEFAULT 0
        )
        """,
        """
        CREATE TABLE generation (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            store INTEGER NOT NULL REFERENCES store(id),
            name TEXT NOT NULL,
            session_id TEXT NOT NULL,
            session_file TEXT NOT NULL,
            created_at TEXT NOT NULL DEFAULT '',
            state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed')),
            accepted_archive INTEGER NOT NULL DEFAULT 0,
            failures INTEGER NOT NULL DEFAULT 0,
            retry_at INTEGER NOT NULL DEFAULT 0,
            UNIQUE (store, name)
        )
        """,
        """
        CREATE TABLE message (
            generation INTEGER NOT NULL REFERENCES generation(id) ON DELETE CASCADE,
            seq INTEGER NOT NULL,
            entry_id TEXT NOT NULL,
            tokens INTEGER NOT NULL,
            counts INTEGER NOT NULL DEFAULT 1,
            state TEXT NOT NULL DEFAULT 'new' CHECK (state IN ('new', 'sending', 'done', 'dead')),
            sent_at INTEGER NOT NULL DEFAULT 0,
            gave_up_at INTEGER,
            body TEXT,
            PRIMARY KEY (generation, seq),
            UNIQUE (generation, entry_id)
        ) WITHOUT ROWID
        """,
        """
        CREATE INDEX message_unfinished ON message(generation, seq) WHERE state IN ('new', 'sending')
        """,
        """
        CREATE TABLE commit_ (
            generation INTEGER PRIMARY KEY REFERENCES generation(id) ON DELETE CASCADE,
            target_entry_id TEXT NOT NULL,
            target_user_turns INTEGER NOT NULL,
            keep INTEGER NOT NULL,
            pressure INTEGER NOT NULL,
            started_at INTEGER NOT NULL,
            gave_up_at INTEGER,
            count_before INTEGER NOT NULL,
            task_id TEXT NOT NULL DEFAULT '',
            archive_id TEXT NOT NULL DEFAULT ''
        )
        """,
    ),
)


class Database:
    """The open file. `messages` and `commits` work on the same connection."""

    def __init__(self, path: Path) -> None:
        """Open or create the file; raise StoreRejected when a newer vpi wrote it or it cannot be used."""
        try:
            make_private(path)
            self.db = sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS)
            use_wal(self.db)
            self.db.execute("PRAGMA synchronous = FULL")
            self.db.execute("PRAGMA foreign_keys = ON")
            version = migrate(self.db, MIGRATIONS)
            self.db.execute(f"PRAGMA busy_timeout = {LOCKED_MS}")
            _check_writable(self.db)
        except (sqlite3.Error, OSError) as error:
            raise StoreRejected(
                f"the outbox {path} cannot be opened: {error}",
                hint="move the file aside; vpi makes a new one and captures the session again",
                status=0,
            ) from error
        if version > len(MIGRATIONS):
            self.db.close()
            raise StoreRejected(f"the outbox {path} was written by a newer vpi", hint="upgrade vpi", status=0)

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """Run the block as one write transaction; nested blocks join the outer one."""
        if self.db.in_transaction:
            yield self.db
            return
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield self.db
        except BaseException:
            if self.db.in_transaction:  # a full disk has rolled it back already
                self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")

    def close(self) -> None:
        self.db.close()


def _check_writable(db: sqlite3.Connection) -> None:
    """Find out now that a file cannot be written; one that another process is writing to can be."""
    try:
        db.execute("BEGIN IMMEDIATE")
        db.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
