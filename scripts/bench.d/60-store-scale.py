"""The embedded store at 1,000,000 messages against 10,000: recall, a commit of 200 messages, bytes on the disk.

The first run fills the stores, which takes some minutes; they stay in the cache folder, and copies are measured.
"""

import asyncio
import os
import shutil
import sqlite3
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from big_store import BATCH, Source, fill, now
from figures import Figure, Single
from lab import Lab

from vikingpi.net import HttpTransport
from vikingpi.viking.base import RecallQuery
from vikingpi.viking.embedded_memory import EmbeddedMemory
from vikingpi.viking.embedded_sessions import EmbeddedSessions

SIZES = (10_000, 1_000_000)
COMMITTED = 200
QUERIES = 200
COMMITS = 20
BOUND_MS = 50


def measure(lab: Lab) -> Iterator[Figure]:
    for size in SIZES:
        kept = lab.cache / "stores" / f"messages-{size}.db"
        fill(kept, size)
        path = _copied(kept, lab.folder)
        recalls, commits, said = asyncio.run(_measured(path))
        name, bound = f"{size:,} messages", BOUND_MS if size == SIZES[-1] else None
        p95, commit = statistics.quantiles(recalls, n=20)[-1], statistics.median(commits)
        yield Single(f"recall, p95, {name}", p95, "ms", bound, f"median {statistics.median(recalls):.1f}")
        yield Single(f"commit of {COMMITTED}, {name}", commit, "ms", bound, f"slowest {max(commits):.1f}")
        yield Single(f"bytes on the disk per byte said, {name}", path.stat().st_size / said, "")
        path.unlink()


def _copied(kept: Path, folder: Path) -> Path:
    """Copy a store and wait until the disk has it: what is measured next waits for its own writes only."""
    path = Path(shutil.copy(kept, folder))
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    return path


async def _measured(path: Path) -> tuple[list[float], list[float], int]:
    """Give the ms of each recall and each commit, and how many bytes the messages say."""
    sessions = EmbeddedSessions(path, now)
    transport = HttpTransport()
    memory = EmbeddedMemory(sessions.file, now, transport)
    try:
        recalls = [await _recall(memory, query) for query in _queries()]
        commits = [await _commit(sessions, number) for number in range(COMMITS)]
        said = await sessions.file.read(_bytes_said)
    finally:
        await sessions.close()
        await transport.close()
    return recalls, commits, said


def _queries() -> list[RecallQuery]:
    source = Source(7)
    return [RecallQuery(source.words(source.random.randint(3, 12)), 2000, 10, 0.35) for _ in range(QUERIES)]


async def _recall(memory: EmbeddedMemory, query: RecallQuery) -> float:
    started = time.perf_counter()
    await memory.search_context(query)
    return 1000 * (time.perf_counter() - started)


async def _commit(store: EmbeddedSessions, number: int) -> float:
    name, source = f"commit-{time.time_ns()}", Source(1_000_000 + number)
    await store.ensure_session(name)
    for start in range(0, COMMITTED, BATCH):
        await store.add_messages(name, [source.message(f"{name}-{start + n}") for n in range(BATCH)])
    started = time.perf_counter()
    await store.commit(name, 0)
    return 1000 * (time.perf_counter() - started)


def _bytes_said(db: sqlite3.Connection) -> int:
    texts = "SELECT sum(length(CAST(body ->> '$.parts[0].text' AS BLOB))) FROM message"
    return int(db.execute(texts).fetchone()[0])
