"""What others print while the chat has the terminal becomes lines of the chat."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress

from vikingpi.events import Event, Notice


class _Lines(io.TextIOBase):
    """A stream of text that shows each line when it is whole; any thread may write."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._begun = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        *whole, self._begun = (self._begun + text).split("\n")
        for line in filter(str.strip, whole):
            self._show(line)
        return len(text)

    def end(self) -> None:
        """Show what no line end has followed."""
        if self._begun.strip():
            self.write("\n")


@contextmanager
def printed_lines(listener: Callable[[Event], None]) -> Generator[None]:
    """Tell `listener` of each line that code in this process writes to standard output or error meanwhile."""
    loop = asyncio.get_running_loop()

    def show(line: str) -> None:
        with suppress(RuntimeError):  # a thread that prints after the end
            loop.call_soon_threadsafe(listener, Notice(line))

    out, err = _Lines(show), _Lines(show)
    with redirect_stdout(out), redirect_stderr(err):
        try:
            yield
        finally:
            out.end()
            err.end()
