"""The embedded store: storing, committing and recalling, in a store that already holds a long history."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from figures import Figure, Single
from lab import Lab
from long_session import user_turns

from vikingpi.net import HttpTransport
from vikingpi.viking.base import RecallQuery, StoreMessage
from vikingpi.viking.embedded_memory import EmbeddedMemory
from vikingpi.viking.embedded_sessions import EmbeddedSessions

SESSIONS, TURNS = 25, 200
STAMP = "2026-11-30T09:50:49.600Z"


def measure(lab: Lab) -> Iterator[Figure]:
    yield from asyncio.run(figures(lab.folder / "embedded.db"))


async def figures(path: Path) -> list[Figure]:
    store = EmbeddedSessions(path, lambda: time.time_ns() // 1_000_000)
    memory = EmbeddedMemory(store.file, lambda: time.time_ns() // 1_000_000, HttpTransport())
    turns = user_turns(TURNS)
    texts = [(turn.prompt, turn.steps[-1].text) for turn in turns]
    added: list[float] = []
    committed: list[float] = []
    for session in range(SESSIONS):
        name = f"pi-bench-{session}"
        await store.ensure_session(name)
        for first in range(0, TURNS, 40):
            batch = [message for at in range(first, first + 40) for message in said(session, at, *texts[at])]
            added.append(await ms(lambda name=name, batch=batch: store.add_messages(name, batch)))
            committed.append(await ms(lambda name=name: store.commit(name, 6)))
    queries = [f"which port has {texts[at][0].split()[3]}" for at in range(0, TURNS, 10)]
    recalled = [
        await ms(lambda text=text: memory.search_context(RecallQuery(text, 2000, 10, 0.35))) for text in queries
    ]
    await store.close()
    held = f"{SESSIONS * TURNS * 2:,} messages in the store"
    return [
        Single("embedded store: add 80 messages", statistics.median(added), "ms", 250, held),
        Single("embedded store: commit 80 messages", statistics.median(committed), "ms", 250, "with its overview"),
        Single("embedded store: recall", statistics.median(recalled), "ms", 100, held),
        Single("embedded store: slowest recall", max(recalled), "ms", 300),
    ]


def said(session: int, turn: int, prompt: str, answer: str) -> list[StoreMessage]:
    mark = f"{session:08x}{turn:08x}"
    return [
        StoreMessage("user", ({"type": "text", "text": prompt},), STAMP, mark, (mark,), kind="user_query"),
        StoreMessage("assistant", ({"type": "text", "text": answer},), STAMP, mark, (f"{mark}a",)),
    ]


async def ms(work: Callable[[], Awaitable[object]]) -> float:
    start = time.perf_counter()
    await work()
    return (time.perf_counter() - start) * 1000
