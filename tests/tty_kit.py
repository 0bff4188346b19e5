"""What a program shows in a terminal, waited for by what it does, so that no busy machine makes a wait too short."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

import pyte

REST_LIMIT = 5.0  # seconds after which a program that never rests is read on


def at_rest(pid: int) -> bool:
    """Whether no thread of a program runs or is about to; where there is no /proc, it is taken to rest."""
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            state = thread.read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state in "RD":
            return False
    return True


class Shown:
    """The screen of the program `pid` behind a terminal's descriptor; `raw` is every byte that it wrote."""

    def __init__(self, descriptor: int, columns: int, rows: int, history: int) -> None:
        self.raw: bytes = b""
        self.pid = 0
        self.screen = pyte.HistoryScreen(columns, rows, history=history, ratio=1)
        self.descriptor = descriptor
        self._stream = pyte.ByteStream(self.screen)

    def take(self, seconds: float = 0.0) -> bool:
        """Take what comes within some seconds; False when the program has closed the terminal."""
        end = time.monotonic() + seconds
        while select.select([self.descriptor], [], [], max(0.0, end - time.monotonic()))[0]:
            try:
                data = os.read(self.descriptor, 65536)
            except OSError:
                return False
            self.raw += data
            self._stream.feed(data)
        return True

    def read(self, seconds: float) -> bool:
        """Take what comes within some seconds that begin and end when the program waits, however slow it is."""
        return self._rest() and self.take(seconds) and self._rest()

    def _rest(self) -> bool:
        """Take what comes until the program has done what it was woken for."""
        end, more = time.monotonic() + REST_LIMIT, True
        while more and time.monotonic() < end:
            before = len(self.raw)
            more = self.take(0.01)
            if at_rest(self.pid) and len(self.raw) == before:
                break
        return more
