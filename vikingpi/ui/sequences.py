"""What a terminal sends as keys: a sequence that is no key is left out, and is never taken for the key Escape."""

from __future__ import annotations

import asyncio
import os
import re
import select
import termios
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import TextIO

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

ESCAPE = "\x1b"
LONGEST = 65_536
# Control sequences, strings up to their end, character sets, and what saves the cursor or switches the keypad.
_WHOLE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[()*+#%][0-9A-Z@]|[78=>])")
_BEGUN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[()*+#%])?\Z")
_NO_KEYS = (Keys.ScrollUp, Keys.ScrollDown)
# What nobody types within one read: the first keys of it tell that it is a paste, the last may be Enter.
_PASTED = re.compile(r"(?<=[^\x00-\x1f\x7f]{4})[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]{32,}(?=[^\x00-\x1f\x7f]|[\r\n\t])")
_TEXT = "x"
_PASTE = 32
_KEYS_OR_TEXT = ("\r", "\t")
_READ = 4096
_MOST_AT_ONCE = 262_144


def is_alt(event: KeyPressEvent) -> bool:
    """Tell whether the last key is no Escape that was pressed, but what Alt puts before a character."""
    last = event.key_sequence[-1]
    return last.key == Keys.Escape and last.data != ESCAPE


class KeyParser(Vt100Parser):
    """Gives the keys in what was read. A character that comes in one read with an Escape before it was typed with Alt,
    or is text: nothing but sequences is left out. More than anybody types within a read is a paste, marked or not."""

    def __init__(self, feed_key_callback: Callable[[KeyPress], None]) -> None:
        super().__init__(feed_key_callback)
        self._held = ""
        known = [sequence for sequence in ANSI_SEQUENCES if sequence.startswith(ESCAPE)]
        self._longest = max(map(len, known))
        self._beginnings = frozenset(sequence[:size] for sequence in known for size in range(1, len(sequence)))

    def feed(self, data: str) -> None:
        held, self._held = self._held, ""
        if held in _KEYS_OR_TEXT and data:
            self._text(held)
            held = ""
        data, at = held + data, 0
        while at < len(data) and not self._in_bracketed_paste:
            start = data.find(ESCAPE, at)
            if start < 0:
                break
            self._plain(data[at:start])
            at = self._escape(data, start, pressed=start == 0 and held == ESCAPE)
        if len(data) - at > _PASTE and data[-1] in _KEYS_OR_TEXT and not self._in_bracketed_paste:
            # What follows tells whether it is part of a paste.
            self._held, data = data[-1], data[:-1]
        self._plain(data[at:])

    def flush(self) -> None:
        """Take what was held back for what it is: nothing has followed it."""
        while held := self._held:
            self._held = ""
            key = ANSI_SEQUENCES.get(held)
            self._call_handler(key or Keys.Escape, held if key else "")
            self.feed("" if key else held[1:])
        super().flush()

    def _plain(self, text: str) -> None:
        """Take what has no sequence in it. Many characters at once are given as one: to insert them one by one would
        take minutes for a megabyte."""
        at = 0
        while not self._in_bracketed_paste and (found := _PASTED.search(text, at)) is not None:
            self._singly(text[at : found.start()])
            self._text(found.group())
            at = found.end()
        if at:
            self._singly(text[at:])
        else:
            super().feed(text)

    def _singly(self, text: str) -> None:
        """Take what stands around pasted text: a tab completes nothing there."""
        first, *others = text.split("\t")
        super().feed(first)
        for other in others:
            self._text("\t")
            super().feed(other)

    def _text(self, text: str) -> None:
        self.feed_key_callback(KeyPress(_TEXT, text.replace("\r\n", "\n").replace("\r", "\n")))

    def _escape(self, data: str, start: int, *, pressed: bool) -> int:
        """Take what begins with an Escape, one that was `pressed` where no sequence does; return where it ends."""
        rest = data[start : start + LONGEST]
        if rest in self._beginnings or (len(rest) < LONGEST and _BEGUN.match(rest)):
            self._held = rest
            return len(data)
        for size in range(self._longest, 1, -1):
            if (key := ANSI_SEQUENCES.get(sequence := rest[:size])) is not None:
                if key not in _NO_KEYS:
                    self._call_handler(key, sequence)
                return start + len(sequence)
        if (whole := _WHOLE.match(rest)) is not None:
            return start + whole.end()
        pressed = pressed or data.startswith(ESCAPE, start + 1)
        self._call_handler(Keys.Escape, ESCAPE if pressed else "")
        return start + 1


class KeyInput(Vt100Input):
    """A terminal's input, read with `KeyParser`. Once it has ended, each reader of it is told so: by Ctrl+D while the
    terminal still had lines, or because nobody has the terminal any more."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self.vt100_parser = KeyParser(self._buffer_key)
        self._early = b""
        self._ready: Callable[[], None] | None = None

    def typed_ahead(self) -> bytes:
        """Take the lines that were typed before any key was read."""
        descriptor = self.fileno()
        try:
            lines = bool(termios.tcgetattr(descriptor)[3] & termios.ICANON)
            while lines and not self.closed and select.select([descriptor], [], [], 0)[0]:
                read = os.read(descriptor, 65536)
                self._early += read
                self.stdin_reader.closed = not read
        except (OSError, termios.error):
            self.stdin_reader.closed = True
        early, self._early = self._early, b""
        return early

    def raw_mode(self) -> AbstractContextManager[None]:
        # There an end that was typed would be a NUL.
        self._early += self.typed_ahead()
        return super().raw_mode()

    @contextmanager
    def attach(self, input_ready_callback: Callable[[], None]) -> Generator[None, None, None]:
        before, self._ready = self._ready, input_ready_callback
        with super().attach(input_ready_callback):
            self._tell()
            try:
                yield
            finally:
                self._ready = before
        self._tell()

    @contextmanager
    def detach(self) -> Generator[None, None, None]:
        with super().detach():
            yield
        self._tell()

    def read_keys(self) -> list[KeyPress]:
        early, self._early = self._early.decode("utf-8", "surrogateescape"), b""
        data = early + (read := self.stdin_reader.read(_READ))
        while len(read) > _PASTE and len(data) < _MOST_AT_ONCE:
            data += (read := self.stdin_reader.read(_READ))
        if not data and _hung_up(self.fileno()):
            self.stdin_reader.closed = True
        self.vt100_parser.feed(data)
        keys, self._buffer = self._buffer, []
        return keys

    def _tell(self) -> None:
        if self._ready is not None and (self._early or self.closed):
            asyncio.get_running_loop().call_soon(self._ready)

    def _buffer_key(self, key: KeyPress) -> None:
        self._buffer.append(key)


def _hung_up(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, 0)
    return bool(poll.poll(0))
