"""The ledger: what was captured and what the store has confirmed, shared by all processes and sessions.

One SQLite file (WAL, synchronous=FULL, 0600). Every public method is one transaction; between any two of them the
process may be killed. A row of a delivered message stays as `done` with its body cleared, which is what makes a
second capture of the same entry harmless.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from vikingpi.values import NamedTuple
from vikingpi.viking.ledger_file import Database

RowState = Literal["new", "sending", "done", "dead"]

# A moment further ahead than anybody waits was written under a clock that was wrong: it counts as past.
LONGEST_REST_MS = 360_000
LONGEST_WAIT_MS = 3_600_000


class StoreRow(NamedTuple):
    id: int
    identity: str
    retry_at: int
    last_error: str
    last_success: int

    def rests(self, now: int) -> bool:
        """Whether the store is left alone for a moment."""
        return 0 < self.retry_at - now <= LONGEST_REST_MS


class Generation(NamedTuple):
    """`closed` means given up: the next due advance opens another one after `retry_at`."""

    id: int
    store: int
    name: str
    session_id: str
    session_file: str
    created_at: str
    closed: bool
    accepted_archive: int
    failures: int
    retry_at: int

    def waits(self, now: int) -> bool:
        """Whether its next attempt is still ahead."""
        return 0 < self.retry_at - now <= LONGEST_WAIT_MS


class Row(NamedTuple):
    seq: int
    entry_id: str
    tokens: int
    counts: int
    state: RowState
    sent_at: int
    gave_up_at: int | None
    body: str


class NewRow(NamedTuple):
    """`body` is the JSON text of a StoreMessage."""

    entry_id: str
    tokens: int
    body: str


class CommitRow(NamedTuple):
    """The open commit of a generation; `archive_id` is empty until the store has answered."""

    target_entry_id: str
    target_user_turns: int
    keep: int
    pressure: int
    started_at: int
    gave_up_at: int | None
    count_before: int
    task_id: str
    archive_id: str


class Figures(NamedTuple):
    """`pressure` in tokens, the others in rows."""

    pressure: int
    outbox: int
    dead: int
    stored: int


_GENERATION = (
    "id, store, name, session_id, session_file, created_at, state = 'closed', accepted_archive, failures, retry_at"
)
_ROW = "seq, entry_id, tokens, counts, state, sent_at, gave_up_at, coalesce(body, '')"
_COMMIT = (
    "target_entry_id, target_user_turns, keep, pressure, started_at, gave_up_at, count_before, task_id, archive_id"
)


class Stores:
    """Store identities, their back-off and last outcome."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._db = database.db

    def get(self, identity: str) -> StoreRow:
        """Return the row of this identity, made when missing."""
        row = self._db.execute("SELECT * FROM store WHERE identity = ?", (identity,)).fetchone()
        if row is None:
            self._db.execute("INSERT OR IGNORE INTO store (identity) VALUES (?)", (identity,))
            row = self._db.execute("SELECT * FROM store WHERE identity = ?", (identity,)).fetchone()
        return StoreRow(*row)

    def failed(self, store: int, error: str, retry_at: int) -> None:
        self._db.execute("UPDATE store SET last_error = ?, retry_at = ? WHERE id = ?", (error, retry_at, store))

    def worked(self, store: int, now: int) -> None:
        """Note that the store answers; within half a second of the last such note nothing is written."""
        self._db.execute(
            "UPDATE store SET last_error = '', retry_at = 0, last_success = ?"
            " WHERE id = ? AND (last_error != '' OR retry_at != 0 OR abs(last_success - ?) >= 500)",
            (now, store, now),
        )

    def rename(self, provisional: str, identity: str) -> StoreRow:
        """Move what was captured under a provisional identity to the one that the server reports."""
        with self._database.transaction() as db:
            old = db.execute("SELECT id FROM store WHERE identity = ?", (provisional,)).fetchone()
            row = self.get(identity)
            if old is not None and old[0] != row.id:
                db.execute("UPDATE OR IGNORE generation SET store = ? WHERE store = ?", (row.id, old[0]))
                db.execute(
                    "DELETE FROM store WHERE id = ? AND NOT EXISTS (SELECT 1 FROM generation WHERE store = ?)",
                    (old[0], old[0]),
                )
        return row

    def elsewhere(self, store: int) -> tuple[tuple[str, int], ...]:
        """(identity, undelivered rows) of every other identity that has some."""
        query = """SELECT s.identity, count(*) FROM message m JOIN generation g ON g.id = m.generation
            JOIN store s ON s.id = g.store WHERE m.state IN ('new', 'sending') AND s.id != ?
            GROUP BY s.identity ORDER BY s.identity"""
        return tuple((str(name), int(count)) for name, count in self._db.execute(query, (store,)))


class Generations:
    """Store-side sessions that mirror branches."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._db = database.db

    def get(self, store: int, name: str) -> Generation | None:
        row = self._db.execute(
            f"SELECT {_GENERATION} FROM generation WHERE store = ? AND name = ?", (store, name)
        ).fetchone()
        return None if row is None else _generation(row)

    def open(self, store: int, name: str, session_id: str, session_file: str, failures: int) -> Generation:
        """Insert a generation that has no message yet."""
        self._db.execute(
            "INSERT INTO generation (store, name, session_id, session_file, failures) VALUES (?, ?, ?, ?, ?)",
            (store, name, session_id, session_file, failures),
        )
        made = self.get(store, name)
        assert made is not None
        return made

    def unfinished(self, store: int, now: int) -> tuple[Generation, ...]:
        """Generations with undelivered messages that are not left alone at the moment, oldest first."""
        rows = self._db.execute(
            f"""SELECT {_GENERATION} FROM generation g WHERE store = ? AND EXISTS (SELECT 1
            FROM message m WHERE m.generation = g.id AND m.state IN ('new', 'sending')) ORDER BY id""",
            (store,),
        )
        return tuple(found for row in rows if not (found := _generation(row)).waits(now))

    def born(self, generation: int, created_at: str) -> None:
        """Record the store's own time of birth."""
        self._db.execute("UPDATE generation SET created_at = ? WHERE id = ?", (created_at, generation))

    def accept(self, generation: int, archive: int) -> None:
        """The chain is good up to this archive."""
        self._db.execute(
            "UPDATE generation SET accepted_archive = max(accepted_archive, ?), failures = 0, retry_at = 0"
            " WHERE id = ?",
            (archive, generation),
        )

    def close(self, generation: int, retry_at: int, *, failed: bool) -> None:
        """Give the generation up: its commit ends and the pressure comes back."""
        with self._database.transaction() as db:
            db.execute(
                "UPDATE generation SET state = 'closed', retry_at = ?, failures = failures + ? WHERE id = ?",
                (retry_at, int(failed), generation),
            )
            db.execute("UPDATE message SET counts = 1 WHERE generation = ? AND counts = 2", (generation,))
            db.execute("DELETE FROM commit_ WHERE generation = ?", (generation,))

    def postpone(self, generation: int, retry_at: int) -> None:
        """Leave it alone until then: its commit was refused, or its messages were not taken."""
        self._db.execute("UPDATE generation SET retry_at = ? WHERE id = ?", (retry_at, generation))

    def drop(self, generation: int) -> None:
        self._db.execute("DELETE FROM generation WHERE id = ?", (generation,))

    def figures(self, generation: int) -> Figures:
        row = self._db.execute(
            """SELECT coalesce(sum(tokens) FILTER (WHERE counts = 1 OR (counts = 2 AND EXISTS
            (SELECT 1 FROM commit_ c WHERE c.generation = m.generation AND c.archive_id = ''))), 0),
            count(*) FILTER (WHERE state IN ('new', 'sending')), count(*) FILTER (WHERE state = 'dead'),
            count(*) FILTER (WHERE state IN ('done', 'dead')) FROM message m WHERE generation = ?""",
            (generation,),
        ).fetchone()
        return Figures(*row)


class Messages:
    """The rows of a generation, one per message, in branch order."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._db = database.db

    def insert(self, generation: int, rows: Sequence[NewRow]) -> int:
        """Append rows whose entry has none yet; return how many were new."""
        with self._database.transaction() as db:
            before = db.total_changes
            start = db.execute(
                "SELECT coalesce(max(seq), 0) FROM message WHERE generation = ?", (generation,)
            ).fetchone()[0]
            db.executemany(
                "INSERT OR IGNORE INTO message (generation, seq, entry_id, tokens, body) VALUES (?, ?, ?, ?, ?)",
                [(generation, start + n, row.entry_id, row.tokens, row.body) for n, row in enumerate(rows, 1)],
            )
            return db.total_changes - before

    def all(self, generation: int) -> tuple[Row, ...]:
        """Every row without its body."""
        rows = self._db.execute(
            "SELECT seq, entry_id, tokens, counts, state, sent_at, gave_up_at, '' FROM message"
            " WHERE generation = ? ORDER BY seq",
            (generation,),
        )
        return tuple(Row(*row) for row in rows)

    def next(self, generation: int, state: RowState, limit: int) -> tuple[Row, ...]:
        rows = self._db.execute(
            f"SELECT {_ROW} FROM message WHERE generation = ? AND state = ? ORDER BY seq LIMIT ?",
            (generation, state, limit),
        )
        return tuple(Row(*row) for row in rows)

    def sending(self, generation: int, rows: Sequence[Row], now: int) -> int:
        """Mark them before the request; return how many of them are still there."""
        return self._update(generation, rows, "state = 'sending', sent_at = ?, gave_up_at = NULL", (now,))

    def done(self, generation: int, rows: Sequence[Row]) -> None:
        self._update(generation, rows, "state = 'done', gave_up_at = NULL, body = NULL", ())

    def renew(self, generation: int, rows: Sequence[Row]) -> None:
        """The store has certainly not taken these: send them again."""
        self._update(generation, rows, "state = 'new', gave_up_at = NULL", ())

    def give_up(self, generation: int, rows: Sequence[Row], now: int) -> None:
        """The attempt is over and nobody knows how it ended; the first such moment stays, unless it lies ahead."""
        self._update(generation, rows, "gave_up_at = min(coalesce(gave_up_at, ?), ?)", (now, now))

    def dead(self, generation: int, row: Row) -> None:
        """A placeholder stands for this one on the store; its body is kept here."""
        self._update(generation, (row,), "state = 'dead', gave_up_at = NULL", ())

    def remove(self, generation: int, rows: Sequence[Row]) -> None:
        """Drop rows as if they had not been captured."""
        if not rows:
            return
        with self._database.transaction() as db:
            keys = [(generation, row.seq) for row in rows]
            db.executemany("DELETE FROM message WHERE generation = ? AND seq = ?", keys)

    def withdraw(self, generation: int) -> None:
        """Drop what was never sent. What may be on its way loses its body: it is never sent again."""
        with self._database.transaction() as db:
            db.execute("DELETE FROM message WHERE generation = ? AND state = 'new'", (generation,))
            db.execute("UPDATE message SET body = NULL WHERE generation = ? AND state = 'sending'", (generation,))

    def _update(self, generation: int, rows: Sequence[Row], change: str, values: tuple[int, ...]) -> int:
        with self._database.transaction() as db:
            done = db.executemany(
                f"UPDATE message SET {change} WHERE generation = ? AND seq = ?",
                [(*values, generation, row.seq) for row in rows],
            )
            return max(0, done.rowcount)


class Commits:
    """At most one open commit per generation."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._db = database.db

    def get(self, generation: int) -> CommitRow | None:
        row = self._db.execute(f"SELECT {_COMMIT} FROM commit_ WHERE generation = ?", (generation,)).fetchone()
        return None if row is None else CommitRow(*row)

    def begin(self, generation: int, row: CommitRow) -> None:
        """Write the row that comes before the request; what counts until now belongs to this commit."""
        with self._database.transaction() as db:
            db.execute(
                f"INSERT INTO commit_ (generation, {_COMMIT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (generation, *row),
            )
            db.execute("UPDATE message SET counts = 2 WHERE generation = ? AND counts = 1", (generation,))

    def answered(self, generation: int, task_id: str, archive_id: str) -> None:
        """The store accepted it."""
        self._db.execute(
            "UPDATE commit_ SET task_id = ?, archive_id = ? WHERE generation = ?",
            (task_id, archive_id, generation),
        )

    def give_up(self, generation: int, now: int) -> None:
        self._db.execute(
            "UPDATE commit_ SET gave_up_at = min(coalesce(gave_up_at, ?), ?) WHERE generation = ?",
            (now, now, generation),
        )

    def cancel(self, generation: int) -> None:
        """It was not accepted: the pressure stays."""
        with self._database.transaction() as db:
            db.execute("UPDATE message SET counts = 1 WHERE generation = ? AND counts = 2", (generation,))
            db.execute("DELETE FROM commit_ WHERE generation = ?", (generation,))

    def finish(self, generation: int, keep_from_seq: int) -> None:
        """Its state is in the session file: forget the commit and the rows before `keep_from_seq`."""
        with self._database.transaction() as db:
            db.execute("UPDATE message SET counts = 0 WHERE generation = ? AND counts = 2", (generation,))
            db.execute("DELETE FROM commit_ WHERE generation = ?", (generation,))
            db.execute("DELETE FROM message WHERE generation = ? AND seq < ?", (generation, keep_from_seq))


class Ledger(NamedTuple):
    """All tables over one connection."""

    database: Database
    stores: Stores
    generations: Generations
    messages: Messages
    commits: Commits


def open_ledger(path: Path) -> Ledger:
    """Open or create the ledger file; raise StoreRejected when it cannot be used."""
    database = Database(path)
    return Ledger(database, Stores(database), Generations(database), Messages(database), Commits(database))


def _generation(row: tuple[Any, ...]) -> Generation:
    return Generation(*row)._replace(closed=bool(row[6]))
