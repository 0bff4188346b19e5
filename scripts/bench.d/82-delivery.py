"""Delivery of a backlog, against a bare loop that posts the same batches to the same real server."""

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from figures import Figure, Single
from lab import Lab
from store_server import openviking

from vikingpi.debuglog import silent
from vikingpi.net import HttpTransport
from vikingpi.takeover.delivery import BATCH, Delivery, Link
from vikingpi.viking.base import StoreMessage
from vikingpi.viking.http import HttpApi
from vikingpi.viking.http_sessions import HttpSessions
from vikingpi.viking.ledger import NewRow, open_ledger

MESSAGES = 10_000
TEXT = "a line of an ordinary conversation " * 6


def measure(lab: Lab) -> Iterator[Figure]:
    folder = lab.folder / "delivery-home"
    folder.mkdir(parents=True, exist_ok=True)
    with openviking(lab, "delivery") as url:
        bare, ours = asyncio.run(both(folder, url))
    yield Single("bare loop, messages per second", MESSAGES / bare, "")
    yield Single("delivery of one session, messages per second", MESSAGES / ours, "")
    yield Single("delivery against the bare loop", bare / ours, "", 0.9, at_least=True)


async def both(folder: Path, url: str) -> tuple[float, float]:
    """Give the seconds of the bare loop and of delivery, one session each."""
    transport = HttpTransport()
    store = HttpSessions(HttpApi(transport, url))
    ledger = open_ledger(folder / "outbox.db")
    link = Link(ledger, store, "bench", data=folder, now=lambda: time.time_ns() // 1_000_000, log=silent)
    messages = [message(number) for number in range(MESSAGES)]
    try:
        bare = await bare_loop(store, "bench-bare", messages)
        return bare, await delivery(link, "bench-delivery", messages)
    finally:
        ledger.database.close()
        await transport.close()


async def bare_loop(store: HttpSessions, name: str, messages: Sequence[StoreMessage]) -> float:
    begun = time.perf_counter()
    await store.ensure_session(name)
    for first in range(0, len(messages), BATCH):
        await store.add_messages(name, messages[first : first + BATCH])
    return time.perf_counter() - begun


async def delivery(link: Link, name: str, messages: Sequence[StoreMessage]) -> float:
    generation = link.ledger.generations.open(link.row.id, name, name, "", 0)
    rows = [NewRow(each.marks[0], 60, json.dumps(each.to_json())) for each in messages]
    link.ledger.messages.insert(generation.id, rows)
    begun = time.perf_counter()
    outcome = await Delivery(link).deliver(generation, deadline=link.now() + 600_000)
    took = time.perf_counter() - begun
    if outcome != "empty":
        raise RuntimeError(f"the backlog was not delivered: {outcome}")
    return took


def message(number: int) -> StoreMessage:
    mark = f"m{number}"
    return StoreMessage("user", ({"type": "text", "text": f"{mark} {TEXT}"},), "2026-01-01T00:00:00Z", mark, (mark,))
