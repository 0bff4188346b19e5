"""An editor at the bottom of the terminal with printing above it, in the terminal's own scrollback.

The region that is redrawn is an inline application. While something is printed above it the output is held, so
that erasing, printing and redrawing reach the terminal as one write and no half-drawn state is ever seen.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout import Layout
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import Renderer

from vikingpi.ui.caret import Caret, WithCaret
from vikingpi.ui.reflow import by_cells, row_of_cursor, rows_of, written

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from prompt_toolkit.input import Input
    from prompt_toolkit.styles import BaseStyle

ESCAPE_SECONDS = 0.05
QUIET_SECONDS = 0.3
CALM_SECONDS = 0.05
DRAWN_SECONDS = 0.5
_T = TypeVar("_T")


class HeldOutput(Vt100_Output):
    """Keeps what is written while it is held and writes it in one piece afterwards, which a terminal that knows how
    to (mode 2026) shows at once."""

    quiet_seconds = CALM_SECONDS
    rewraps = True
    in_screen = False
    trimmed = False
    _holds = 0

    @contextmanager
    def held(self) -> Generator[None, None, None]:
        """Hold the output; may be nested."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            self.flush()

    @property
    def size_held(self) -> int:
        """How many pieces are held."""
        return len(self._buffer)

    def drop(self, first: int = 0) -> None:
        """Forget what is held, from some piece on."""
        del self._buffer[first:]

    def flush(self) -> None:
        if not self._holds and self._buffer:
            self._buffer = ["\x1b[?2026h", *self._buffer, "\x1b[?2026l"]
            super().flush()

    def erase_end_of_line(self) -> None:
        self.trimmed = True
        super().erase_end_of_line()

    def erase_down(self) -> None:
        """Erase from the cursor, which is in the first column. An erase from the top left cell of the screen would
        make tmux keep a copy of it in its history, so the first cell is erased on its own. GNU screen does not forget
        by an erase that a row goes on in the next one, and would join them when it becomes wider; rows that it
        inserts it knows to be new."""
        self.write_raw("\x1b[999L" if self.in_screen else "\x1b[K\x1b[C\x1b[J\x1b[D")


class InlineRenderer(Renderer):
    """Gives rows back when the region shrinks, and knows where it is after the terminal has rewrapped it.

    The end of a row is never erased alone: tmux keeps such a row as long as it was and wraps its blanks as well."""

    def __init__(self, style: BaseStyle, output: HeldOutput, caret: Caret) -> None:
        super().__init__(style, output)
        self._held = output
        self._caret = caret
        self._doubtful = False

    @property
    def height(self) -> int:
        """How many rows the region has."""
        return self._last_screen.height if self._last_screen is not None else 0

    def render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:
        size = self._held.get_size()
        with self._held.held():
            if self._last_screen is not None and not is_done:
                wanted = layout.container.preferred_height(size.columns, size.rows).preferred
                if self.height > min(wanted, size.rows):
                    self.erase(leave_alternate_screen=False)
            before, held, self._held.trimmed = vars(self).copy(), self._held.size_held, False
            super().render(app, layout, is_done)
            if self._held.trimmed and not is_done:
                self._held.drop(held)
                vars(self).update(before)
                self.erase(leave_alternate_screen=False)
                super().render(app, layout, is_done)
            if self._caret.above and not is_done:
                self._held.write_raw("\r")
                self._held.cursor_up(self._cursor_pos.y)
                self._cursor_pos = Point(0, 0)
                self._caret.call_when_over(app.invalidate)

    def seen(self) -> Mapping[str, bool]:
        """Tell of each style whether it is seen where nothing is written."""
        return {} if self._style_string_has_style is None else self._style_string_has_style

    def resized(self) -> None:
        """Take note that the terminal's size has changed since the last frame, or while it was on its way."""
        self._doubtful |= self._caret.resized()

    def rewrapped(self) -> int:
        """Correct the cursor's row: rows that are now too long have become several. Return how many there are more.

        Where that is doubtful they are taken for as many as before: some of a frame may stay then, nothing is lost."""
        doubtful, self._doubtful = self._doubtful, False
        last, before, columns = self._last_screen, self._last_size, self._held.get_size().columns
        seen = self._style_string_has_style
        if last is None or before is None or seen is None or columns >= before.columns or not self._held.rewraps:
            return 0
        x, y = self._cursor_pos
        rows = [written(last.data_buffer[row], seen) for row in range(max(last.height, y + 1))]
        if self._held.in_screen:
            rows = [by_cells(row, x if number == y else -1) for number, row in enumerate(rows)]
        here = sum(rows_of(row, columns) for row in rows[:y]) + row_of_cursor(rows[y], x, columns)
        if not doubtful:
            self._cursor_pos = self._cursor_pos._replace(y=here)
        return sum(rows_of(row, columns) for row in rows) - len(rows)


class InlineApplication(Application[_T]):
    """Draws anew once the size has been the same for a moment. tmux rewraps the screen at once but tells of a second
    change up to 250 ms late; what was drawn meanwhile would have an unknown shape, and erasing it could take lines of
    the scrollback along. `settled` is called when something can be drawn again.

    The size is asked for again before anything is written: the signal of a change comes later than the change."""

    def __init__(self, layout: Layout, style: BaseStyle, output: HeldOutput, source: Input) -> None:
        super().__init__(
            layout=layout,
            style=style,
            output=output,
            input=source,
            color_depth=output.default_color_depth,
            erase_when_done=True,
            terminal_size_polling_interval=None,
            max_render_postpone_time=None,
        )
        self.held_output = output
        self._caret = Caret()
        self.key_processor.before_key_press += self._caret.key
        self.renderer = self.inline = InlineRenderer(self._merged_style, output, self._caret)
        layout.container = WithCaret(layout, self._caret, self.inline.seen)
        self.ttimeoutlen = ESCAPE_SECONDS
        self.timeoutlen = ESCAPE_SECONDS
        self.settled: Callable[[], None] = lambda: None
        self.rows_above = 0  # at least so many rows of the screen are above the region
        self._mode: list[Any] | None = None
        self._size = self._next_size = output.get_size()
        self._quiet_until = 0.0
        self._drawn = 0.0
        self._quiet_seconds = output.quiet_seconds

    def quiet(self) -> bool:
        """Tell whether nothing may be drawn now: after a change of size, or while another program has the terminal."""
        if self._running_in_terminal:
            return True
        if not self.is_running:
            return False
        size = self.held_output.get_size()
        if size not in (self._size, self._next_size):
            self._on_resize()
        return size != self._size or time.monotonic() < self._quiet_until

    @asynccontextmanager
    async def away(self) -> AsyncGenerator[None, None]:
        """Give the terminal to another program, as it was before this one began."""
        if self.quiet() and not self._running_in_terminal:
            await asyncio.sleep(self._quiet_seconds + CALM_SECONDS)
        try:
            async with in_terminal():
                try:
                    yield
                finally:
                    self._size, self.rows_above = self.held_output.get_size(), 0
        finally:
            self.settled()

    async def suspend(self) -> None:
        """Stop, as Ctrl+Z does, until the shell lets the program go on."""
        async with self.away():
            os.kill(0, signal.SIGTSTP)

    def remember_mode(self) -> None:
        """Keep the terminal's present mode for `continued`."""
        self._mode = termios.tcgetattr(self.input.fileno())

    def continued(self) -> None:
        """Take the terminal back if somebody else has stopped the program and let it go on."""
        if self._running_in_terminal or not self.is_running or self._mode is None:
            return
        if termios.tcgetattr(self.input.fileno()) == self._mode:
            return
        termios.tcsetattr(self.input.fileno(), termios.TCSANOW, self._mode)
        self._size, self.rows_above = self.held_output.get_size(), 0
        with self.held_output.held():
            self.inline.reset()
            self._redraw()
        self.settled()

    def above(self, text: str) -> bool:
        """Print finished text above the region; it ends with a newline. False when it could not be printed now."""
        output, redraw = self.held_output, super()._redraw

        def draw() -> None:
            if self.is_running:
                self.inline.erase(leave_alternate_screen=False)
            output.enable_autowrap()
            output.write_raw(text.replace("\n", "\r\n"))
            self._caret.printed()
            redraw()

        rows = self.rows_above
        self.rows_above += text.count("\n")
        if self._draw(draw):
            return True
        self.rows_above = rows
        return False

    def _draw(self, draw: Callable[[], None]) -> bool:
        """Write in one piece what is drawn, or nothing of it if the terminal has another size by now."""
        output, before = self.held_output, vars(self.inline).copy()
        with output.held():
            draw()
            good = not self.is_running or output.get_size() == self._size
            if not good:
                output.drop()
        if good:
            self.rows_above = max(0, min(self.rows_above, self._size.rows - self.inline.height))
        else:
            vars(self.inline).update(before)
            self._on_resize()
        return good

    def _redraw(self, render_as_done: bool = False) -> None:
        if render_as_done:
            self.inline.rewrapped()
            super()._redraw(render_as_done)
        elif self.quiet():
            pass
        elif self._is_behind():
            asyncio.get_running_loop().call_later(CALM_SECONDS, self.invalidate)
        else:
            self._drawn = time.monotonic()
            self._draw(super()._redraw)

    def _is_behind(self) -> bool:
        """Tell whether more was typed or pasted that is to be taken first; now and then it is drawn all the same."""
        soon = time.monotonic() - self._drawn < DRAWN_SECONDS
        return soon and self.is_running and bool(select.select([self.input.fileno()], [], [], 0)[0])

    def _on_resize(self) -> None:
        self.inline.resized()
        self._next_size = self.held_output.get_size()
        self._quiet_until = time.monotonic() + self._quiet_seconds
        asyncio.get_running_loop().call_later(self._quiet_seconds + 0.01, self._quiet_ends)

    def _quiet_ends(self) -> None:
        if time.monotonic() < self._quiet_until or self._running_in_terminal or not self.is_running:
            return
        redraw, shrunk = super()._redraw, self._size.rows - self.held_output.get_size().rows
        self._size = self.held_output.get_size()

        def draw() -> None:
            self.rows_above -= self.inline.rewrapped() + max(0, shrunk)
            self.inline.erase(leave_alternate_screen=False)
            redraw()

        if self._draw(draw):
            self.settled()


class Pages:
    """Collects what is to be printed and prints it in one piece on the next turn of the event loop."""

    def __init__(self, refresh: Callable[[], None]) -> None:
        self._application: InlineApplication[int] | None = None
        self._refresh = refresh
        self._waiting: list[str] = []
        self._begun = False
        self._due = False

    def attach(self, application: InlineApplication[int]) -> None:
        self._application = application

    def show(self, lines: Sequence[str], gap: bool) -> None:
        """Print lines, after a blank one where `gap` is True and there is something before them."""
        if gap and self._begun:
            self._waiting.append("")
        self._begun = True
        self._waiting += lines
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> bool:
        """Print what waits, now. False when nothing was printed and what is below it not drawn anew."""
        if self._application is None or self._application.quiet():
            return False
        self._due = False
        if not self._waiting:
            return False
        waiting, self._waiting = self._waiting, []
        self._refresh()
        if self._application.above("\n".join(waiting) + "\n"):
            return True
        self._waiting = waiting + self._waiting
        return False


def make_output(stdout: Any, term: str, *, colour: bool, env: Mapping[str, str]) -> HeldOutput:
    """Make the output for a terminal, which may be one of tmux or screen; it never asks where the cursor is.

    A terminal that becomes narrower wraps its rows; xterm and the console of Linux cut them. Of tmux and screen, one
    within the other, TERM tells the inner one: `screen` or `screen.xterm` is screen, for tmux may be `screen-256color`.
    """
    depth = None if colour else ColorDepth.DEPTH_1_BIT
    output = HeldOutput.from_pty(stdout, term=term, default_color_depth=depth)
    assert isinstance(output, HeldOutput)
    output.enable_cpr = False
    within = bool(env.get("TMUX") or env.get("STY"))
    output.quiet_seconds = QUIET_SECONDS if within else CALM_SECONDS
    output.rewraps = within or not (env.get("XTERM_VERSION") or term == "linux")
    output.in_screen = (
        bool(env.get("STY")) and term.startswith("screen") and not (env.get("TMUX") and term.startswith("screen-"))
    )
    return output
