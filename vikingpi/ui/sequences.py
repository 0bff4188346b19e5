"""What a terminal sends as keys: a sequence that is no key is left out, and is never taken for the key Escape."""

from __future__ import annotations

import re
from collections.abc import Callable
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


def is_alt(event: KeyPressEvent) -> bool:
    """Tell whether the last key is no Escape that was pressed, but what Alt puts before a character."""
    last = event.key_sequence[-1]
    return last.key == Keys.Escape and last.data != ESCAPE


class KeyParser(Vt100Parser):
    """Gives the keys in what was read. A character that comes in one read with an Escape before it was typed with Alt,
    or is text: nothing but sequences is left out."""

    def __init__(self, feed_key_callback: Callable[[KeyPress], None]) -> None:
        super().__init__(feed_key_callback)
        self._held = ""
        known = [sequence for sequence in ANSI_SEQUENCES if sequence.startswith(ESCAPE)]
        self._longest = max(map(len, known))
        self._beginnings = frozenset(sequence[:size] for sequence in known for size in range(1, len(sequence)))

    def feed(self, data: str) -> None:
        held, self._held = self._held, ""
        data, at = held + data, 0
        while at < len(data) and not self._in_bracketed_paste:
            start = data.find(ESCAPE, at)
            if start < 0:
                break
            super().feed(data[at:start])
            at = self._escape(data, start, pressed=start == 0 and held == ESCAPE)
        super().feed(data[at:])

    def flush(self) -> None:
        """Take what was held back for what it is: nothing has followed it."""
        while held := self._held:
            self._held = ""
            key = ANSI_SEQUENCES.get(held)
            self._call_handler(key or Keys.Escape, held if key else "")
            self.feed("" if key else held[1:])
        super().flush()

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
    """A terminal's input, read with `KeyParser`."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self.vt100_parser = KeyParser(self._buffer_key)

    def _buffer_key(self, key: KeyPress) -> None:
        self._buffer.append(key)
