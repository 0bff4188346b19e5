"""The interactive program: prompts from the editor, answers above it, until the user leaves."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence

from vikingpi import __version__, safetext
from vikingpi.commands.host import Host
from vikingpi.events import (
    AgentSettled,
    BoundaryAdvanced,
    BoundaryReset,
    CompactionEnd,
    Event,
    HookFailed,
    MessageEnd,
    Notice,
    StoreState,
)
from vikingpi.ui.actions import Places, make_actions
from vikingpi.ui.choosing import TerminalChooser
from vikingpi.ui.desk import Terminal, is_dumb, make_desk, open_terminal, typed_ahead
from vikingpi.ui.history import PromptHistory, history_name
from vikingpi.ui.input import typed
from vikingpi.ui.interrupts import Interrupts
from vikingpi.ui.keys import Burst, make_bindings
from vikingpi.ui.line_mode import Talk, run_lines
from vikingpi.ui.lines import Line, line_of, written
from vikingpi.ui.menu import command_in
from vikingpi.ui.plain import Prompt, write
from vikingpi.ui.printed import printed_lines
from vikingpi.ui.render import preload
from vikingpi.ui.rows import Row
from vikingpi.ui.status import git_branch

FRAME_SECONDS = 0.05
TYPING_FRAME = 0.1
TYPING_SECONDS = 0.5
FIGURES_SECONDS = 0.2
SLOWEST_FRAME = 0.5
_FIGURES_CHANGE = (AgentSettled, BoundaryAdvanced, BoundaryReset, CompactionEnd, MessageEnd, StoreState)


class Pace:
    """Says when the next frame is due: 20 times a second and a fifth of the time at most, half as often while
    somebody types, since a key waits for the frame that is being drawn."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._typed = -TYPING_SECONDS
        self._cost = 0.0

    def key(self, _: object) -> None:
        self._typed = self._clock()

    def drew(self, cost: float) -> None:
        """Take note of the seconds that a frame took."""
        self._cost = cost

    def wait(self) -> float:
        """Return the seconds until the next frame."""
        typing = self._clock() - self._typed < TYPING_SECONDS
        return max(TYPING_FRAME if typing else FRAME_SECONDS, min(4 * self._cost, SLOWEST_FRAME))


class Repl:
    """Ties the parts together for one terminal."""

    def __init__(self, app: Host, places: Places, terminal: Terminal, interrupts: Interrupts) -> None:
        self._app = app
        history = places.history / history_name(str(app.parts.cwd))
        self._desk = desk = make_desk(app, terminal, history, self._ended, lambda: self._wake.set())
        actions = make_actions(desk, self._leave, places.images, interrupts)
        burst = Burst()
        self._pace = Pace()
        desk.screen.key_processor.before_key_press += burst.key
        desk.screen.key_processor.before_key_press += self._pace.key
        desk.screen.key_bindings = make_bindings(desk.editor, desk.search, actions, burst)
        app.asker = app.chooser = chooser = TerminalChooser(desk, terminal, actions)
        self._show_past = chooser.show_past
        desk.transcript.shows_thoughts = app.settings.show_thoughts
        self._submit = actions.submit
        self._source = terminal.source
        self._wake = asyncio.Event()
        self._stale = False
        self._figures_due = 0.0

    async def run(self, prompts: Sequence[Prompt], first: str) -> int:
        """Show the editor until the user leaves; `first` is a command to begin with, or empty."""
        self._greet()
        self._figures()
        self._desk.pages.flush()
        loop = asyncio.get_running_loop()
        ticks = loop.create_task(self._tick())
        ticks.add_done_callback(self._tick_ended)
        loop.add_signal_handler(signal.SIGCONT, self._desk.screen.continued)
        try:
            loop.call_soon(self._begin, prompts, first, typed_ahead(self._source))
            return await self._desk.screen.run_async(handle_sigint=False, set_exception_handler=False)
        except EOFError:
            return 0
        finally:
            loop.remove_signal_handler(signal.SIGCONT)
            ticks.cancel()
            self._desk.editor.remember()
            await self._desk.bang.finish()
            await self._desk.work.finish()
            self._desk.editor.remember()
            self._desk.pages.flush()

    def _begin(self, prompts: Sequence[Prompt], first: str, early: list[str]) -> None:
        """Show what was said before, which takes some heavy imports, only once there is an editor; then begin."""
        self._desk.screen.remember_mode()
        self._show_past()
        asyncio.get_running_loop().run_in_executor(None, preload)
        called = command_in(self._app.commands, first)
        several = called is not None or len(early) > 1
        if early:
            self._desk.editor.put_back(["\n".join(map(typed, early)) + "\n" * several])
        if called is not None:
            self._desk.work.command(*called, then=prompts)
            return
        for text, images in prompts:
            self._desk.work.prompt(text, images, last=True)
        # Several lines may be one paste: that is for the user to send.
        if early and not self._source.closed and not several and (text := self._desk.editor.take()):
            self._submit(text)

    def _greet(self) -> None:
        parts = self._app.parts
        about = f"vpi {__version__} · /help · @file · !command · Esc aborts · Ctrl+C twice leaves"
        self._desk.printer.rows([Row(about, "dim")])
        for notice in parts.notices:
            self._desk.printer.line(Line(notice))

    def _figures(self) -> None:
        started = time.monotonic()
        self._stale = False
        self._desk.view.figures = figures = self._app.status()
        self._desk.view.branch = git_branch(figures.cwd)
        now = time.monotonic()
        self._figures_due = now + max(FIGURES_SECONDS, 20 * (now - started))

    def event(self, event: Event) -> None:
        """Take the next event of the application."""
        self._desk.work.event(event)
        self._desk.view.activity.event(event)
        self._desk.transcript.event(event)
        self._stale = self._stale or isinstance(event, _FIGURES_CHANGE)
        self._wake.set()

    def _ended(self, fault: Exception | None) -> None:
        """After each piece of work: leave if it asked for that or broke, show the figures otherwise."""
        if fault is not None or self._app.quit_requested:
            self._leave(fault)
        else:
            self._figures()
            self._desk.view.refresh()
            self._desk.screen.invalidate()

    def _tick_ended(self, ticks: asyncio.Task[None]) -> None:
        if not ticks.cancelled() and isinstance(fault := ticks.exception(), Exception):
            self._leave(fault)

    def _leave(self, fault: Exception | None = None) -> None:
        if not self._desk.screen.is_running or self._desk.screen.is_done:
            return
        if fault is not None:
            self._desk.screen.exit(exception=fault)
        else:
            self._desk.screen.exit(result=0)

    async def _tick(self) -> None:
        """Redraw what changes while something runs."""
        seen, spins = -1, 0
        screen, transcript = self._desk.screen, self._desk.transcript
        while True:
            await self._wake.wait()
            await asyncio.sleep(self._pace.wait())
            spins += 1
            changed = transcript.version != seen
            if changed or (transcript.ticking and spins % 4 == 0):
                seen, started = transcript.version, time.monotonic()
                self._frame()
                self._pace.drew(time.monotonic() - started)
            elif spins % 2 == 0:
                screen.invalidate()
            if self._stale and time.monotonic() >= self._figures_due:
                self._figures()
                screen.invalidate()
            if not (changed or self._stale or self._desk.work.busy or self._desk.bang.running):
                self._wake.clear()

    def _frame(self) -> None:
        """Print what is complete, and draw what is not."""
        desk = self._desk
        if not desk.screen.quiet():
            desk.transcript.arriving.give()
        if not desk.pages.flush():
            desk.view.refresh()
            desk.screen.invalidate()


class _Relay:
    """Keeps the events of the opening until there is somebody to show them."""

    def __init__(self) -> None:
        self._early: list[Event] = []
        self._listener: Callable[[Event], None] = self._early.append

    def __call__(self, event: Event) -> None:
        self._listener(event)

    def to(self, listener: Callable[[Event], None]) -> None:
        self._listener = listener
        for event in self._early:
            listener(event)
        self._early.clear()


def _afterwards(event: Event) -> None:
    """Write what goes wrong while there is no chat on the screen."""
    line = line_of(event) if isinstance(event, (HookFailed, Notice)) else None
    if line is not None and line.level != "info" and sys.__stderr__ is not None:
        write(sys.__stderr__, written(line))


async def run_repl(
    app: Host, prompts: Sequence[Prompt], places: Places, interrupts: Interrupts, first: str = ""
) -> int:
    """Open the session, talk with the user in the terminal until they leave, and return the exit code.

    A dumb terminal gets a simple line mode. ConfigError or SessionError when
    the session cannot be opened.
    """
    relay = _Relay()
    app.subscribe(relay)
    try:
        await app.start()
    except BaseException:
        relay.to(_afterwards)
        raise
    try:
        if is_dumb(os.environ) or not (sys.stdin.isatty() and sys.stdout.isatty()):
            talk = Talk(sys.stdout)
            relay.to(talk.event)
            history = PromptHistory(places.history / history_name(str(app.parts.cwd)))
            return await run_lines(app, prompts, sys.stdin, talk, history, interrupts)
        repl = Repl(app, places, open_terminal(app.settings.theme, os.environ), interrupts)
        relay.to(repl.event)
        with printed_lines(repl.event):
            try:
                return await repl.run(prompts, first)
            finally:
                relay.to(_afterwards)
    finally:
        session = app.parts.session
        if session.path is not None and session.path.exists():
            write(sys.stdout, f"to go on: vpi --session {safetext.one_line(session.id, 300)}\n")
