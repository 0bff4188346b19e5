"""Find an earlier prompt of the project: the editor holds the words, the menu shows what has all of them."""

from __future__ import annotations

from vikingpi import safetext
from vikingpi.ui.input import Editor
from vikingpi.ui.menu import NOTHING, Item, Offer

MOST_FOUND = 50
FOUND_CELLS = 300


class Search:
    """Borrows the editor; the draft comes back if nothing was chosen."""

    def __init__(self, editor: Editor) -> None:
        self._editor = editor

    @property
    def active(self) -> bool:
        return self._editor.buffer.lent

    def begin(self) -> None:
        self._editor.buffer.lend()
        self._editor.menu.hold(self._offer)

    def end(self) -> None:
        if self.active:
            self._editor.menu.hold(None)
            self._editor.buffer.give_back()

    def choose(self) -> None:
        """Let the selected prompt be edited, or the words that none has; Up goes to the draft."""
        words = self._editor.text
        item = self._editor.menu.selected(self._editor.before_cursor)
        self.end()
        if text := words if item is None else item.insert:
            self._editor.exchange(text)

    def _offer(self, text: str) -> Offer:
        if not self.active:
            return NOTHING
        words = text.lower().split()
        strings = reversed(self._editor.buffer.history.get_strings())
        texts = [each for each in dict.fromkeys(strings) if all(word in each.lower() for word in words)]
        return Offer(0, tuple(Item(safetext.one_line(each, FOUND_CELLS), "", each) for each in texts[:MOST_FOUND]))
