"""Signals that end the program, and whether an interrupt of the terminal is meant for it."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

SIGNALS = {signal.SIGHUP: 129, signal.SIGINT: 130, signal.SIGTERM: 143}


class Interrupts:
    """The first signal cancels the task that watches, a second one ends the process.

    While another program has the terminal, Ctrl+C is that program's.
    """

    def __init__(self) -> None:
        self._caught: list[signal.Signals] = []
        self._elsewhere = False

    @property
    def caught(self) -> signal.Signals | None:
        """The first signal that came; None while there was none."""
        return self._caught[0] if self._caught else None

    def watch(self) -> None:
        """Let signals cancel the present task."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def stop(number: signal.Signals) -> None:
            if number == signal.SIGINT and self._elsewhere:
                return
            self._caught.append(number)
            loop.remove_signal_handler(number)
            if task is not None:
                task.cancel()

        for number in SIGNALS:
            loop.add_signal_handler(number, stop, number)

    @contextmanager
    def given_away(self) -> Generator[None, None, None]:
        self._elsewhere = True
        try:
            yield
        finally:
            self._elsewhere = False
