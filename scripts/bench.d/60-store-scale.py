"""The embedded store at 1,000,000 messages against 10,000: recall, a commit of 200 messages, bytes on the disk."""

import asyncio
import random
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from figures import Figure, Single
from lab import Lab

from vikingpi.net import HttpTransport
from vikingpi.viking.base import RecallQuery, StoreMessage
from vikingpi.viking.embedded_memory import EmbeddedMemory
from vikingpi.viking.embedded_sessions import EmbeddedSessions

SIZES = (10_000, 1_000_000)
COMMITTED = 200
QUERIES = 200
COMMITS = 20
STAMP = "2026-03-01T10:00:00.000Z"
BATCH = 100
PER_SESSION = 20_000


def measure(lab: Lab) -> Iterator[Figure]:
    for size in SIZES:
        yield from asyncio.run(_measured(lab.cache / "stores" / f"messages-{size}.db", size))


async def _measured(path: Path, size: int) -> list[Figure]:
    path.parent.mkdir(parents=True, exist_ok=True)
    sessions = EmbeddedSessions(path, _now)
    transport = HttpTransport()
    memory = EmbeddedMemory(sessions.file, _now, transport)
    try:
        stored = await _fill(sessions, size)
        recalls = [await _timed(memory, query) for query in _queries()]
        commits = [await _commit(sessions, number) for number in range(COMMITS)]
    finally:
        await sessions.close()
        await transport.close()
    name, largest = f"{size:,} messages", size == SIZES[-1]
    p95 = statistics.quantiles(recalls, n=20)[-1]
    figures: list[Figure] = [
        Single(f"recall, p95, {name}", p95, "ms", 50 if largest else None, f"median {statistics.median(recalls):.1f}"),
        Single(f"commit of {COMMITTED}, {name}", statistics.median(commits), "ms", 50 if largest else None),
    ]
    if stored:
        figures.append(Single(f"bytes on the disk per byte said, {name}", _size(path) / stored, ""))
    return figures


async def _fill(store: EmbeddedSessions, size: int) -> int:
    """Store what is missing up to `size` messages; return the bytes that were said, 0 where the store was kept."""
    said = 0
    for number in range(-(-size // PER_SESSION)):
        name = f"session-{number}"
        status = await store.ensure_session(name)
        source = Source(number)
        wanted = min(PER_SESSION, size - number * PER_SESSION)
        if (status.total_messages or 0) == wanted:
            continue
        for start in range(0, wanted, BATCH):
            messages = [source.message(f"{number}-{start + n}") for n in range(min(BATCH, wanted - start))]
            said += sum(len(str(message.parts[0]["text"]).encode()) for message in messages)
            if (status.total_messages or 0) <= start:
                await store.add_messages(name, messages)
    return said


class Source:
    """Messages as a coding session has them: words of very different frequency, identifiers, numbers, Chinese."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def message(self, mark: str) -> StoreMessage:
        words = [word(self._random) for _ in range(self._random.randint(10, 80))]
        role = "assistant" if self._random.random() < 0.6 else "user"
        return StoreMessage(role, ({"type": "text", "text": " ".join(words)},), STAMP, mark, (mark,), "bench")


def word(source: random.Random) -> str:
    kind = source.random()
    rank = int(source.paretovariate(0.8)) % 40_000
    if kind < 0.8:
        return f"{'abcdefghij'[rank % 10]}{_letters(rank)}"
    if kind < 0.9:
        return f"{_letters(rank)}_{_letters(rank // 7)}"
    if kind < 0.95:
        return str(source.randint(1, 99_999))
    return "".join(chr(0x4E00 + int(source.paretovariate(0.6)) % 3000) for _ in range(4))


def _letters(number: int) -> str:
    text = ""
    while True:
        text += "etaoinshrdlcumwfgypb"[number % 20]
        number //= 20
        if not number:
            return text + "x"


def _queries() -> list[RecallQuery]:
    source = random.Random(7)
    return [
        RecallQuery(" ".join(word(source) for _ in range(source.randint(3, 12))), 2000, 10, 0.35)
        for _ in range(QUERIES)
    ]


async def _timed(memory: EmbeddedMemory, query: RecallQuery) -> float:
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


def _size(path: Path) -> int:
    return path.stat().st_size


def _now() -> int:
    return time.time_ns() // 1_000_000
