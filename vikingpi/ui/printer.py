"""What is printed once and stays: lines, rows, texts and blocks, cleaned and painted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vikingpi import safetext
from vikingpi.messages import ImagePart, TextPart, UserMessage
from vikingpi.ui.blocks import Block, blocks_of
from vikingpi.ui.lines import LINE_CELLS, Line
from vikingpi.ui.render import Painter
from vikingpi.ui.rows import Row, fitted

Show = Callable[[Sequence[str], bool], None]
HANG = 2


class Printer:
    """`show(lines, gap)` prints lines, after a blank one where `gap` is True; `columns()` is the width now. `within` is
    True after a piece of a block of which more is to come."""

    def __init__(self, show: Show, columns: Callable[[], int], painter: Painter) -> None:
        self.painter = painter
        self._print = show
        self.columns = columns
        self._after_line = False
        self.within = False

    def line(self, line: Line) -> None:
        """Print one line and its hint, broken at blanks, apart from all but another line."""
        prefix = "" if line.level == "info" else f"{line.level}: "
        texts = [prefix + safetext.one_line(line.text, LINE_CELLS)]
        if line.hint:
            texts.append(f"hint: {safetext.one_line(line.hint, LINE_CELLS)}")
        parts = [part for text in texts for part in safetext.wrapped(text, self.columns(), break_words=False)]
        self._print([self.painter.theme.paint(part, line.level) for part in parts], not self._after_line)
        self._after_line, self.within = True, False

    def rows(self, rows: Sequence[Row], *, gap: bool = True) -> None:
        """Print rows, each fitted to the width of the terminal."""
        self._show(self.painted(rows, self.columns()), gap)

    def text(self, rows: Sequence[Row]) -> None:
        """Print rows in full; the terminal wraps them."""
        self._show([self.painter.theme.paint(row.text, row.style) for row in rows], True)

    def prose(self, rows: Sequence[Row], *, hang: int = 0) -> None:
        """Print rows in full, broken at blanks; `hang` is how far in the rest of a row stands."""
        columns, painted = self.columns(), list[str]()
        for row in rows:
            first, text = row.text[:hang], row.text[hang:].expandtabs(4)
            for part in safetext.wrapped(text, columns - hang, break_words=False):
                painted.append(self.painter.theme.paint(f"{first}{part}", row.style))
                first = " " * hang
        self._show(painted, True)

    def block(self, block: Block) -> None:
        """Print a finished block of an answer, or a piece of one."""
        self._show(self.painter.block(block, self.columns()), block.begins or not self.within)
        self.within = not block.ends

    def markdown(self, text: str) -> None:
        """Print a whole text of Markdown."""
        for block in blocks_of(safetext.plain(text)):
            self.block(block)

    def _show(self, lines: Sequence[str], gap: bool) -> None:
        self._after_line = self.within = False
        self._print(lines, gap)

    def cuts(self, rows: Sequence[Row]) -> bool:
        """Tell whether `rows` would leave something out."""
        columns = self.columns()
        return any(fitted(row, columns)[-1].text[-3:] != row.text[-3:] for row in rows if 2 * len(row.text) > columns)

    def painted(self, rows: Sequence[Row], columns: int) -> list[str]:
        """Return rows ready for the terminal, each fitted to a width."""
        cut = [part for row in rows for part in fitted(row, columns)]
        return [self.painter.theme.paint(row.text, row.style) for row in cut]


def user_rows(message: UserMessage, style: str) -> list[Row]:
    """Write what the user said as it is echoed."""
    texts = [safetext.plain(part.text) for part in message.content if isinstance(part, TextPart)]
    images = sum(isinstance(part, ImagePart) for part in message.content)
    lines = "\n".join(texts).rstrip("\n").split("\n")
    rows = [Row(f"> {lines[0]}", style), *(Row(f"  {line}", style) for line in lines[1:])]
    return [*rows, Row(f"  ({images} image{'s' if images > 1 else ''})", "dim")] if images else rows
