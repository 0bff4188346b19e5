"""The text of an answer while it arrives: what cannot change any more is printed, the rest is live."""

from __future__ import annotations

from collections.abc import Sequence

from vikingpi import safetext
from vikingpi.ui.blocks import Splitter
from vikingpi.ui.paragraph import settled
from vikingpi.ui.printer import Printer

LIVE_ROWS = 3
KEPT_ROWS = 2
TAIL_ROWS = 20
MOST_PAINTED = 16_000


class Arriving:
    """Feed it pieces; `give` prints more than whole blocks, and is for once a frame. It and `live` look at no more than
    a bounded part of a paragraph."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer
        self._clean = safetext.Cleaner()
        self._splitter = Splitter()
        self._seen: tuple[str, int, Sequence[str]] = ("", 0, ())

    @property
    def idle(self) -> bool:
        """Whether nothing but blanks is still arriving."""
        return self._splitter.idle

    def feed(self, piece: str) -> None:
        """Take a piece and print the blocks that are whole."""
        for block in self._splitter.feed(self._clean.feed(piece)):
            self._printer.block(block)

    def give(self) -> None:
        """Print what of the open block cannot change any more: lines of code, items, rows of a paragraph."""
        for block in self._splitter.give(LIVE_ROWS):  # colouring code means reading what is before it again
            self._printer.block(block)
        columns, block = self._printer.columns(), self._splitter.open
        look = self._printer.painter.markdown
        if block is not None and block.kind == "text" and len(block.text) > MOST_PAINTED:
            text = block.text[:MOST_PAINTED]
            self._seen = (text, columns, look(text, columns))
        elif self._seen[1] != columns:
            self.live(columns)
        (text, _, lines), self._seen = self._seen, ("", columns, ())
        if len(lines) <= LIVE_ROWS or block is None:
            return
        rows, at = settled(text, lines, len(lines) - KEPT_ROWS)
        if not rows or block.kind != "text" or not block.text.startswith(text):
            return
        rest = text[at:].lstrip(" \n")
        if look(text[:at], columns) == lines[:rows] and look(rest, columns) == lines[rows:]:
            self._printer.block(block._replace(text=text[:at], ends=False))
            self._splitter.cut(at)

    def ends(self) -> None:
        """Print what is left."""
        rest = self._clean.close()
        self._clean = safetext.Cleaner()
        for block in (*self._splitter.feed(rest), *self._splitter.close()):
            self._printer.block(block)

    def live(self, columns: int) -> list[str]:
        """Return the lines of the open block; of a very long one, or a very long line of code, the end."""
        block = self._splitter.open
        if block is None:
            return []
        if block.kind == "code":
            begin, step = block.text.rfind("\n") + 1, TAIL_ROWS * columns
            skipped = max(0, (len(block.text) - begin) // step - 1) * step
            block = block._replace(text=block.text[:begin] + block.text[begin + skipped :])
        elif len(block.text) > MOST_PAINTED:
            block = block._replace(text=block.text[-TAIL_ROWS * columns :])
            self._seen = ("", columns, ())
            return self._printer.painter.block(block, columns)
        lines = self._printer.painter.block(block, columns)
        if block.kind == "text":
            self._seen = (block.text, columns, lines)
        return lines

    @property
    def goes_on(self) -> bool:
        """Whether the open block is the rest of one whose beginning is printed right above."""
        block = self._splitter.open
        return block is not None and not block.begins and self._printer.within
