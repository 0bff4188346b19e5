"""An embedded store with any number of messages, filled through `add_messages` by as many processes as there are cores.

`big_store.py FILE SIZE WORKER WORKERS` stores every WORKERS-th session that is not there yet, from number WORKER on.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

from vikingpi.errors import StoreUnreachable
from vikingpi.viking.base import StoreMessage
from vikingpi.viking.embedded_sessions import EmbeddedSessions

STAMP = "2026-03-01T10:00:00.000Z"
BATCH = 100
PER_SESSION = 20_000


class Source:
    """Messages as a coding session has them: words of very different frequency, identifiers, numbers, Chinese."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def message(self, mark: str) -> StoreMessage:
        text = self.words(self.random.randint(10, 80))
        role = "assistant" if self.random.random() < 0.6 else "user"
        return StoreMessage(role, ({"type": "text", "text": text},), STAMP, mark, (mark,), "bench")

    def words(self, count: int) -> str:
        return " ".join(self._word() for _ in range(count))

    def _word(self) -> str:
        source = self.random
        kind = source.random()
        rank = int(source.paretovariate(0.8)) % 40_000
        if kind < 0.8:
            return f"{'abcdefghij'[rank % 10]}{_letters(rank)}"
        if kind < 0.9:
            return f"{_letters(rank)}_{_letters(rank // 7)}"
        if kind < 0.95:
            return str(source.randint(1, 99_999))
        return "".join(chr(0x4E00 + int(source.paretovariate(0.6)) % 3000) for _ in range(4))


def fill(path: Path, size: int) -> None:
    """Store what is missing up to `size` messages."""
    path.parent.mkdir(parents=True, exist_ok=True)
    asyncio.run(_begin(path))
    count = os.cpu_count() or 1
    command = [sys.executable, __file__, str(path), str(size)]
    workers = [subprocess.Popen([*command, str(number), str(count)]) for number in range(count)]
    codes = [worker.wait() for worker in workers]
    if any(codes):
        raise RuntimeError(f"{path} was not filled")


async def _begin(path: Path) -> None:
    store = EmbeddedSessions(path, now)
    await store.health()
    await store.close()


async def _work(path: Path, size: int, worker: int, workers: int) -> None:
    store = EmbeddedSessions(path, now)
    for number in range(worker, -(-size // PER_SESSION), workers):
        name = f"session-{number}"
        there = (await store.ensure_session(name)).total_messages or 0
        wanted = min(PER_SESSION, size - number * PER_SESSION)
        source = Source(number)
        for start in range(0, wanted if there < wanted else 0, BATCH):
            messages = [source.message(f"{number}-{start + n}") for n in range(min(BATCH, wanted - start))]
            if there <= start:
                await _add(store, name, messages)
    await store.close()


async def _add(store: EmbeddedSessions, name: str, messages: list[StoreMessage]) -> None:
    while True:
        try:
            return await store.add_messages(name, messages)
        except StoreUnreachable as error:
            # Another worker was writing for as long as a process waits for its turn.
            if error.may_have_stored:
                raise


@cache
def _letters(number: int) -> str:
    text = ""
    while True:
        text += "etaoinshrdlcumwfgypb"[number % 20]
        number //= 20
        if not number:
            return text + "x"


def now() -> int:
    """Give ms since the epoch."""
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    asyncio.run(_work(Path(sys.argv[1]), *map(int, sys.argv[2:5])))
