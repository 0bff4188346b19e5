"""The one task of a chat that talks to the store, so that nobody at the keyboard waits for it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from vikingpi.errors import VpiError
from vikingpi.takeover.courier import Courier

UNANSWERED_WAIT = 2.0
RETRY_AFTER = 15.0
LOOK_AFTER = 1.0

Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class Background:
    """Works when woken, and every `RETRY_AFTER` seconds while something is left to do.

    `spawn` gives a task to whoever owns and awaits it. A fault of one round is told and ends that round only.
    """

    def __init__(self, courier: Courier, spawn: Spawn, work: Callable[[], Awaitable[None]]) -> None:
        self._courier = courier
        self._spawn = spawn
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()

    def start(self) -> None:
        """Begin, with a first round at once."""
        self._task = self._spawn(self._run())
        self.wake()

    def wake(self) -> None:
        """Ask for a round."""
        self._wake.set()

    async def stop(self) -> None:
        """End; a round that does not end when cancelled is left to the owner of the task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,), timeout=UNANSWERED_WAIT)

    async def _run(self) -> None:
        courier = self._courier
        while True:
            try:
                async with asyncio.timeout(RETRY_AFTER if self._unfinished() else None):
                    await self._wake.wait()
            except TimeoutError:
                courier.link.log({"event": "retry"})
            self._wake.clear()
            unwatch = self._watched(courier.link.now())
            try:
                await self._work()
            except (VpiError, sqlite3.Error, OSError) as error:
                courier.failed("work with the context store is interrupted", error, "see /viking")
            else:
                courier.fault = courier.fault if courier.mirror.behind else ""
            finally:
                unwatch()
                courier.overdue(None)

    def _watched(self, begun: int) -> Callable[[], None]:
        """Look every second whether the store owes an answer, until the function that is returned is called."""
        loop = asyncio.get_running_loop()

        def look() -> None:
            nonlocal handle
            self._courier.overdue(begun)
            handle = loop.call_later(LOOK_AFTER, look)

        handle = loop.call_later(LOOK_AFTER, look)
        return lambda: handle.cancel()

    def _unfinished(self) -> bool:
        state = self._courier.state()
        return bool(state.outbox or state.open_commit or self._courier.mirror.behind)
