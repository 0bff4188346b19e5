"""Signals that end the program, and whether an interrupt of the terminal is meant for it."""

from __future__ import annotations

import asyncio
import atexit
import signal
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vikingpi.errors import Stopped
from vikingpi.extensions.naming import extension_in

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import FrameType

SIGNALS = {signal.SIGHUP: 129, signal.SIGINT: 130, signal.SIGTERM: 143}
DEAF_AFTER = 0.5


class Interrupts:
    """The first signal cancels the task that watches, a second one ends the process.

    Ctrl+C can be given away: to a program that has the terminal, or to what the user interface does then. Code that
    keeps the event loop from running, of an extension for example, does not notice the first signal; a second one,
    DEAF_AFTER seconds later, breaks it off by Stopped.
    """

    def __init__(self) -> None:
        self._caught: list[signal.Signals] = []
        self._taker: Callable[[], None] | None = None
        self._unheard_since = 0.0

    @property
    def caught(self) -> signal.Signals | None:
        """The first signal that came; None while there was none."""
        return self._caught[0] if self._caught else None

    def watch(self) -> None:
        """Let signals cancel the present task."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def stop(number: signal.Signals) -> None:
            self._unheard_since = 0.0
            if number == signal.SIGINT and self._taker is not None:
                self._taker()
                return
            self._caught.append(number)
            loop.remove_signal_handler(number)
            if task is not None:
                task.cancel()

        for number in SIGNALS:
            loop.add_signal_handler(number, stop, number)
            signal.signal(
                number, self._arrived
            )  # instead of the loop's own, which does nothing; the loop is still told

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if not self._unheard_since:
            self._unheard_since = now
        elif now - self._unheard_since >= DEAF_AFTER:
            signal.signal(number, signal.SIG_DFL)
            culprit = extension_in(frame)
            if culprit:
                _tell(f"the extension {culprit} does not return and was broken off\n")
            raise Stopped(SIGNALS[signal.Signals(number)])

    @contextmanager
    def given_away(self, taker: Callable[[], None] = lambda: None) -> Generator[None, None, None]:
        """Let each Ctrl+C call `taker`, and nothing else."""
        self._taker = taker
        try:
            yield
        finally:
            self._taker = None


def _tell(text: str) -> None:
    """Write to standard error, at the very end where the chat has the terminal."""
    if sys.stderr is sys.__stderr__ or sys.__stderr__ is None:
        sys.stderr.write(text)
    else:
        atexit.register(sys.__stderr__.write, text)
