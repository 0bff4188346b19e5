"""Where the terminal's cursor is between two frames, and what stands for it in the editor meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from prompt_toolkit.layout import DynamicContainer, Layout
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.screen import Char, Screen, WritePosition

from vikingpi.ui.reflow import written

ABOVE_SECONDS = 1.0
TYPED_SECONDS = 2.0
DOUBT_SECONDS = 0.1


class Caret:
    """Says whether the terminal's cursor is `above`: in the first cell of the region instead of in the editor.

    A terminal may have become narrower before it reads a frame that was made for its old width. The rows of the region
    are broken by then, so the way up to the first of them is longer than the frame goes; and after it the rows are
    whole, so the way up is shorter than that of broken ones, and who goes that one erases what is printed. From the
    first cell there is no way to go: there the cursor is while rows above the editor change, and the editor shows one
    of its own. In a draft that somebody types it stays, for input methods show there what they offer; who changes the
    terminal's size does not type.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.above = False
        self._clock = clock
        self._typed = self._changed = self._unsure = -TYPED_SECONDS
        self._rows: Sequence[Sequence[int]] | None = None
        self._due: asyncio.TimerHandle | None = None

    def key(self, _: object) -> None:
        """Take note of a key."""
        self._typed = self._clock()

    def printed(self) -> None:
        """Take note that the next frame prints something."""
        self._rows = None

    def frame(self, rows: Sequence[Sequence[int]], *, draft: bool) -> None:
        """Take note of the next frame: the cells of its rows above the editor, and whether the editor has a text."""
        now, before = self._clock(), self.above
        if changed := rows != self._rows:
            self._rows, self._changed = rows, now
        typing = draft and now - self._typed < TYPED_SECONDS
        self.above = bool(rows) and now - self._changed < ABOVE_SECONDS and not typing
        if not self.above and (changed or before):
            self._unsure = now

    def resized(self) -> bool:
        """Take note of a new size. Return whether the terminal may have had it before it read the last frame, and the
        cursor is not above."""
        now, self._typed = self._clock(), -TYPED_SECONDS
        return not self.above and now - self._unsure < DOUBT_SECONDS

    def call_when_over(self, call: Callable[[], None]) -> None:
        """Call back when the cursor may be in the editor again."""
        if self._due is not None:
            self._due.cancel()
        wait = max(self._changed + ABOVE_SECONDS, self._typed + TYPED_SECONDS) - self._clock()
        self._due = asyncio.get_running_loop().call_later(max(0.0, wait) + 0.01, call)


class WithCaret(DynamicContainer):
    """All of a layout, with a cursor of its own while the terminal's one is above."""

    def __init__(self, layout: Layout, caret: Caret, seen: Callable[[], Mapping[str, bool]]) -> None:
        all_of_it = layout.container
        super().__init__(lambda: all_of_it)
        self._layout = layout
        self._caret = caret
        self._seen = seen

    def write_to_screen(
        self,
        screen: Screen,
        mouse_handlers: MouseHandlers,
        write_position: WritePosition,
        parent_style: str,
        erase_bg: bool,
        z_index: int | None,
    ) -> None:
        super().write_to_screen(screen, mouse_handlers, write_position, parent_style, erase_bg, z_index)
        x, y = screen.get_cursor_position(self._layout.current_window)
        seen, buffer = self._seen(), self._layout.current_buffer
        rows = [written(screen.data_buffer[row], seen) for row in range(y)]
        self._caret.frame(rows, draft=buffer is not None and bool(buffer.text))
        if self._caret.above:
            screen.show_cursor = False
            cell = screen.data_buffer[y][x]
            screen.data_buffer[y][x] = Char(cell.char, f"{cell.style} reverse")
