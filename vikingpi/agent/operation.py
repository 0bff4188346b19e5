"""Tells an abort that the user asked for from a cancellation that comes from outside."""

from __future__ import annotations

import asyncio


class Operation:
    """What the current task does now and `abort` can end; make it in that task.

    An abort cancels the task itself, so that everything below is cancelled in the usual way; `absorb` then says
    whether the CancelledError may end here.
    """

    def __init__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("an operation needs a task")
        self._task = task
        self._before = task.cancelling()
        self._asked = False
        self._absorbed = False

    @property
    def aborted(self) -> bool:
        return self._asked

    def abort(self) -> None:
        """Cancel what runs, once."""
        if not self._asked:
            self._asked = True
            self._task.cancel()

    async def check(self) -> None:
        """Raise CancelledError when a cancellation was asked for; one that is still on its way arrives here."""
        if self._task.cancelling() > self._before:
            await asyncio.sleep(0)
            raise asyncio.CancelledError

    def absorb(self) -> bool:
        """Return True when the caught CancelledError came from `abort` alone."""
        if not self._asked or self._absorbed:
            return False
        self._absorbed = True
        return self._task.uncancel() <= self._before

    async def close(self) -> None:
        """Wait for an abort that was asked for and has not arrived, so that it does not hit the caller."""
        if self._asked and not self._absorbed:
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                if not self.absorb():
                    raise
