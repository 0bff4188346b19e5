"""An event loop whose clock jumps to the next timer when nothing else is left to do."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any


class _Jumping(selectors.SelectSelector):
    seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("everything waits and no timer runs")
        if not ready:
            self.seconds += timeout or 0.0
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` begins at 1000 s."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return 1000.0 + self._jumping.seconds


def run_virtual(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(work)


def now_ms() -> int:
    """The running loop's time, in ms."""
    return int(asyncio.get_running_loop().time() * 1000)
