"""Sessions in the embedded store. Archives are closed at once: an accepted commit is a finished one."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from vikingpi import __version__
from vikingpi.decode import as_dict, as_list, as_str
from vikingpi.errors import StoreRejected, StoreUnreachable, VpiError
from vikingpi.tokens import estimate
from vikingpi.values import NamedTuple
from vikingpi.viking.base import (
    Archive,
    CommitReceipt,
    Health,
    SessionStatus,
    StoreMessage,
    TaskState,
)
from vikingpi.viking.embedded import StoreFile
from vikingpi.viking.embedded_index import Piece, add_message, is_forgotten, pieces_of, rendered, searchable
from vikingpi.viking.outgoing import check_batch, dump
from vikingpi.viking.overview import acceptable, extract
from vikingpi.viking.uri import check_session_name

OverviewWriter = Callable[[str, Sequence[StoreMessage]], Awaitable[str]]

_COMMIT_TRIES = 8
# The headings alone take about 70 tokens.
_LEAST_OVERVIEW = 150


class _Due(NamedTuple):
    """What a commit would archive: live messages up to `last_seq`, on top of the overview of archive `base`."""

    session: int
    base: int
    last_seq: int
    previous: str
    messages: tuple[StoreMessage, ...]


class _NewMessage(NamedTuple):
    message: StoreMessage
    marks: str
    body: str
    pieces: list[Piece]


class EmbeddedSessions:
    """The SessionStore over one SQLite file.

    `clock` gives ms since the epoch. `writer` writes an overview with a model, from the previous overview and the
    messages; when there is none, it fails, takes longer than `writer_seconds` or gives no sections, the overview is
    extracted without a model, at most `overview_budget` tokens long.
    """

    def __init__(
        self,
        path: Path,
        clock: Callable[[], int],
        *,
        overview_budget: int = 3000,
        writer: OverviewWriter | None = None,
        writer_seconds: float = 60.0,
    ) -> None:
        self.file = StoreFile(path)
        self._clock = clock
        self._budget = overview_budget
        self._writer = writer
        self._writer_seconds = writer_seconds

    @property
    def kind(self) -> Literal["embedded"]:
        return "embedded"

    async def health(self) -> Health:
        await self.file.read(lambda db: db.execute("SELECT count(*) FROM sqlite_schema").fetchone())
        return Health(__version__, "default", "default", f"embedded:{self.file.path}")

    async def ensure_session(self, name: str, *, memories: bool = True) -> SessionStatus:
        created_at = _iso(self._clock())
        return await self.file.write(partial(_ensure, name=check_session_name(name), created_at=created_at))

    async def add_messages(self, name: str, messages: Sequence[StoreMessage]) -> None:
        check_batch(messages)
        rows = await asyncio.to_thread(_rows_of, messages)
        if not await self.file.write(partial(_append, name=check_session_name(name), rows=rows)):
            raise StoreRejected(f"session {name} not found", status=404, code="NOT_FOUND")

    async def session_status(self, name: str) -> SessionStatus | None:
        return await self.file.read(partial(_status, name=check_session_name(name)))

    async def marks(self, name: str, since_archive: int) -> frozenset[str]:
        return await self.file.read(partial(_marks, name=check_session_name(name), since=since_archive))

    async def commit(self, name: str, keep: int) -> CommitReceipt | None:
        check_session_name(name)
        for _ in range(_COMMIT_TRIES):
            due = await self.file.read(partial(_due, name=name, keep=keep))
            if due is None:
                return None
            if not due.messages:
                return CommitReceipt(False)
            overview = await _written(self._writer, self._writer_seconds, due)
            if not acceptable(overview):
                overview = await asyncio.to_thread(extract, due.previous, due.messages, min(self._budget, _room(due)))
            close = partial(_close_archive, name=name, keep=keep, due=due, overview=overview)
            if await self.file.write(partial(close, created_at=_iso(self._clock()))):
                return CommitReceipt(True, f"{due.session}-{due.base + 1}", due.base + 1)
        raise StoreUnreachable(f"session {name} changes all the time", may_have_stored=False, retry_after=1.0)

    async def unfinished_task(self, name: str) -> bool:
        check_session_name(name)
        return False

    async def task(self, task_id: str) -> TaskState:
        return "completed" if await self.file.read(partial(_has_task, task_id=task_id)) else "gone"

    async def archive(self, name: str, number: int) -> Archive | None:
        return await self.file.read(partial(_archive, name=check_session_name(name), number=number))

    async def close(self) -> None:
        await self.file.close()


async def _written(writer: OverviewWriter | None, seconds: float, due: _Due) -> str:
    """Return what the writer makes of it, "" where there is none or it fails."""
    if writer is None:
        return ""
    try:
        async with asyncio.timeout(seconds):
            return await writer(due.previous, due.messages)
    except (VpiError, TimeoutError):
        return ""


def _room(due: _Due) -> int:
    """Give the most tokens of an extracted overview: those of what it stands for."""
    replaced = estimate(due.previous) + sum(estimate(rendered(message)) for message in due.messages)
    return max(_LEAST_OVERVIEW, replaced)


def _ensure(db: sqlite3.Connection, name: str, created_at: str) -> SessionStatus:
    db.execute("INSERT OR IGNORE INTO session (name, created_at) VALUES (?, ?)", (name, created_at))
    status = _status(db, name)
    assert status is not None
    return status


def _rows_of(messages: Sequence[StoreMessage]) -> list[_NewMessage]:
    """Prepare what is to be written, so that other processes do not wait for it."""
    return [
        _NewMessage(message, dump(list(message.marks)), dump(message.to_json()), pieces_of(searchable(message)))
        for message in messages
    ]


def _append(db: sqlite3.Connection, name: str, rows: Sequence[_NewMessage]) -> bool:
    found = db.execute("SELECT id, total FROM session WHERE name = ?", (name,)).fetchone()
    if found is None:
        return False
    session, total = found
    db.executemany(
        "INSERT INTO message (session, seq, marks, body) VALUES (?, ?, ?, ?)",
        [(session, seq, row.marks, row.body) for seq, row in enumerate(rows, total + 1)],
    )
    for seq, row in enumerate(rows, total + 1):
        if not is_forgotten(db, name, row.message):
            add_message(db, session, seq, row.message.peer_id, row.pieces)
    db.execute("UPDATE session SET total = total + ?1, live = live + ?1 WHERE id = ?2", (len(rows), session))
    return True


def _status(db: sqlite3.Connection, name: str) -> SessionStatus | None:
    row = db.execute("SELECT created_at, total, live, commits FROM session WHERE name = ?", (name,)).fetchone()
    return SessionStatus(*row) if row else None


def _marks(db: sqlite3.Connection, name: str, since: int) -> frozenset[str]:
    rows = db.execute(
        "WITH s AS (SELECT id FROM session WHERE name = ?)"
        " SELECT m.marks FROM s JOIN message AS m ON m.session = s.id AND m.archive = 0"
        " UNION ALL SELECT m.marks FROM s JOIN message AS m ON m.session = s.id AND m.archive > max(?, 0)",
        (name, since),
    )
    return frozenset(chain.from_iterable(_load_marks(row[0]) for row in rows))


def _due(db: sqlite3.Connection, name: str, keep: int) -> _Due | None:
    found = db.execute("SELECT id, live, commits FROM session WHERE name = ?", (name,)).fetchone()
    if found is None:
        return None
    session, live, base = found
    rows: list[tuple[int, str]] = db.execute(
        "SELECT seq, body FROM message WHERE session = ? AND archive = 0 ORDER BY seq LIMIT ?",
        (session, max(0, live - max(0, keep))),
    ).fetchall()
    overview = db.execute("SELECT overview FROM archive WHERE session = ? AND number = ?", (session, base)).fetchone()
    messages = tuple(_load(body) for _, body in rows)
    return _Due(session, base, rows[-1][0] if rows else 0, overview[0] if overview else "", messages)


def _close_archive(db: sqlite3.Connection, name: str, keep: int, due: _Due, overview: str, created_at: str) -> bool:
    """Archive what the overview was made of; False when the session has changed since."""
    found = db.execute("SELECT id, live, commits FROM session WHERE name = ?", (name,)).fetchone()
    if found is None or found[0] != due.session or found[2] != due.base:
        return False
    if found[1] - max(0, keep) != len(due.messages):
        return False
    db.execute(
        "UPDATE message SET archive = ? WHERE session = ? AND archive = 0 AND seq <= ?",
        (due.base + 1, due.session, due.last_seq),
    )
    db.execute("INSERT INTO archive VALUES (?, ?, ?, ?)", (due.session, due.base + 1, created_at, overview))
    db.execute(
        "UPDATE session SET live = live - ?, commits = commits + 1 WHERE id = ?", (len(due.messages), due.session)
    )
    return True


def _has_task(db: sqlite3.Connection, task_id: str) -> bool:
    session, _, number = task_id.partition("-")
    if not (session.isdecimal() and number.isdecimal()):
        return False
    query = "SELECT 1 FROM archive WHERE session = ? AND number = ?"
    return db.execute(query, (int(session), int(number))).fetchone() is not None


def _archive(db: sqlite3.Connection, name: str, number: int) -> Archive | None:
    found = db.execute(
        "SELECT a.session, a.overview FROM archive AS a JOIN session AS s ON s.id = a.session"
        " WHERE s.name = ? AND a.number = ?",
        (name, number),
    ).fetchone()
    if found is None:
        return None
    rows = db.execute("SELECT body FROM message WHERE session = ? AND archive = ? ORDER BY seq", (found[0], number))
    messages = tuple(_load(body) for (body,) in rows)
    return Archive(number, found[1], frozenset(mark for one in messages for mark in one.marks), messages)


def _load(body: str) -> StoreMessage:
    return StoreMessage.from_json(as_dict(json.loads(body)))


def _load_marks(text: str) -> list[str]:
    marks: list[Any] = as_list(json.loads(text))
    return [as_str(mark) for mark in marks]


def _iso(ms: int) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(ms // 1000))}.{ms % 1000:03d}Z"
