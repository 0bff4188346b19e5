"""An editor at the bottom of the terminal with printing above it, in the terminal's own scrollback.

The region that is redrawn is an inline application. While something is printed above it the output is held, so
that erasing, printing and redrawing reach the terminal as one write and no half-drawn state is ever seen.
"""

from __future__ import annotations

import asyncio
import os
import signal
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.layout import Layout
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import Renderer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from prompt_toolkit.input import Input
    from prompt_toolkit.styles import BaseStyle

ESCAPE_SECONDS = 0.05
QUIET_SECONDS = 0.3
CALM_SECONDS = 0.05


class HeldOutput(Vt100_Output):
    """Keeps what is written while it is held and writes it in one piece afterwards."""

    quiet_seconds = CALM_SECONDS
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

    def flush(self) -> None:
        if not self._holds:
            super().flush()

    def erase_down(self) -> None:
        """Erase from the cursor, which is in the first column. An erase from the top left cell of the screen would
        make tmux keep a copy of it in its history, so the first cell is erased on its own."""
        self.write_raw("\x1b[K\x1b[C\x1b[J\x1b[D")


class InlineRenderer(Renderer):
    """Gives rows back when the region shrinks, and knows where it is after the terminal has rewrapped it."""

    def __init__(self, style: BaseStyle, output: HeldOutput) -> None:
        super().__init__(style, output)
        self._held = output

    def render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:
        size = self._held.get_size()
        with self._held.held():
            last = self.last_rendered_screen
            if last is not None and not is_done:
                wanted = layout.container.preferred_height(size.columns, size.rows).preferred
                if last.height > min(wanted, size.rows):
                    self.erase(leave_alternate_screen=False)
            super().render(app, layout, is_done)

    def rewrapped(self) -> None:
        """Correct the cursor's row: rows above it that are now too long have become several."""
        last, before, columns = self.last_rendered_screen, self._last_size, self._held.get_size().columns
        if last is None or before is None or columns >= before.columns:
            return
        extra = 0
        for y in range(self._cursor_pos.y):
            used = [x for x, cell in last.data_buffer[y].items() if cell.char.strip()]
            extra += max(used, default=0) // columns
        extra += min(self._cursor_pos.x, before.columns - 1) // columns
        self._cursor_pos = self._cursor_pos._replace(y=self._cursor_pos.y + extra)


class InlineApplication(Application[int]):
    """Draws anew once the size has been the same for a moment. tmux rewraps the screen at once but tells of a second
    change up to 250 ms late; what was drawn meanwhile would have an unknown shape, and erasing it could take lines of
    the scrollback along. `settled` is called before that drawing."""

    def __init__(self, layout: Layout, style: BaseStyle, output: HeldOutput, source: Input) -> None:
        super().__init__(
            layout=layout,
            style=style,
            output=output,
            input=source,
            color_depth=output.default_color_depth,
            erase_when_done=True,
            terminal_size_polling_interval=None,
        )
        self.held_output = output
        self.inline = InlineRenderer(self._merged_style, output)
        self.renderer = self.inline
        self.ttimeoutlen = ESCAPE_SECONDS
        self.timeoutlen = ESCAPE_SECONDS
        self.settled: Callable[[], None] = lambda: None
        self._mode: list[Any] | None = None
        self._quiet_until = 0.0
        self._quiet_seconds = output.quiet_seconds

    @property
    def quiet(self) -> float:
        """For how many seconds nothing may be drawn; for ever while another program has the terminal."""
        if self._running_in_terminal:
            return float("inf")
        return max(0.0, self._quiet_until - time.monotonic()) if self.is_running else 0.0

    @asynccontextmanager
    async def away(self) -> AsyncGenerator[None, None]:
        """Give the terminal to another program, as it was before this one began."""
        try:
            async with in_terminal():
                yield
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
        with self.held_output.held():
            self.inline.reset()
            self.settled()
            self._redraw()

    def above(self, text: str) -> None:
        """Print finished text above the region; it ends with a newline."""
        output = self.held_output
        with output.held():
            output.write_raw("\x1b[?2026h")
            if self.is_running:
                self.inline.erase(leave_alternate_screen=False)
            output.enable_autowrap()
            output.write_raw(text.replace("\n", "\r\n"))
            self._redraw()
            output.write_raw("\x1b[?2026l")

    def _redraw(self, render_as_done: bool = False) -> None:
        if render_as_done or not self.quiet:
            super()._redraw(render_as_done)

    def _on_resize(self) -> None:
        self._quiet_until = time.monotonic() + self._quiet_seconds
        asyncio.get_running_loop().call_later(self._quiet_seconds + 0.01, self._quiet_ends)

    def _quiet_ends(self) -> None:
        if self.quiet or not self.is_running:
            return
        with self.held_output.held():
            self.inline.rewrapped()
            self.inline.erase(leave_alternate_screen=False)
            self.settled()
            self._redraw()


class Pages:
    """Collects what is to be printed and prints it in one piece on the next turn of the event loop."""

    def __init__(self, refresh: Callable[[], None]) -> None:
        self._application: InlineApplication | None = None
        self._refresh = refresh
        self._waiting: list[str] = []
        self._begun = False
        self._due = False

    def attach(self, application: InlineApplication) -> None:
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

    def flush(self) -> None:
        """Print what waits, now."""
        if self._application is None or self._application.quiet:
            return
        self._due = False
        if not self._waiting:
            return
        text = "\n".join(self._waiting) + "\n"
        self._waiting = []
        self._refresh()
        self._application.above(text)


def make_output(stdout: Any, term: str, *, colour: bool, multiplexed: bool) -> HeldOutput:
    """Make the output for a terminal, which may be one of tmux or screen; it never asks where the cursor is."""
    depth = None if colour else ColorDepth.DEPTH_1_BIT
    output = HeldOutput.from_pty(stdout, term=term, default_color_depth=depth)
    assert isinstance(output, HeldOutput)
    output.enable_cpr = False
    output.quiet_seconds = QUIET_SECONDS if multiplexed else CALM_SECONDS
    return output
