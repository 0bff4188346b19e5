"""The interactive program: prompts from the editor, answers above it, until the user leaves."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from prompt_toolkit.input import Input, create_input
from prompt_toolkit.styles import Style

from vikingpi import __version__, safetext
from vikingpi.commands.host import Host
from vikingpi.events import (
    AgentSettled,
    BoundaryAdvanced,
    BoundaryReset,
    CompactionEnd,
    Event,
    MessageEnd,
    StoreState,
)
from vikingpi.session.tree import build_context
from vikingpi.ui.history import history_name
from vikingpi.ui.input import TWICE_SECONDS, Actions, Editor, make_bindings, teach_terminal_keys
from vikingpi.ui.line_mode import run_lines
from vikingpi.ui.lines import Line
from vikingpi.ui.menu import Menu, command_in
from vikingpi.ui.plain import Prompt, write
from vikingpi.ui.printer import Printer, print_past
from vikingpi.ui.render import Painter, preload
from vikingpi.ui.rows import Row
from vikingpi.ui.screen import HeldOutput, InlineApplication, Pages, make_output
from vikingpi.ui.status import git_branch
from vikingpi.ui.theme import BAR_STYLES, Theme, choose_theme
from vikingpi.ui.transcript import Transcript
from vikingpi.ui.view import FRAME_SECONDS, View, make_layout
from vikingpi.ui.work import Work

PAST_TURNS = 3
_FIGURES_CHANGE = (AgentSettled, BoundaryAdvanced, BoundaryReset, CompactionEnd, MessageEnd, StoreState)


class Repl:
    """Ties the parts together for one terminal."""

    def __init__(self, app: Host, history: Path, theme: Theme, output: HeldOutput, source: Input) -> None:
        self._app = app
        self._source = source
        self._output = output
        self._pages = Pages(lambda: self._view.refresh())
        self._printer = Printer(self._pages.show, lambda: self._size()[1], Painter(theme))
        self._transcript = Transcript(self._printer)
        self._editor = Editor(history, Menu(lambda: app.commands))
        self._view = View(app, self._transcript, self._editor, self._size)
        self._work = Work(app, self._printer, self._editor, self._view.activity, self._ended)

        def settled() -> None:
            self._view.refresh()
            self._pages.flush()

        layout = make_layout(self._view, self._editor)
        bindings = make_bindings(self._editor, self._actions())
        self._ui = InlineApplication(layout, bindings, Style.from_dict(BAR_STYLES), output, source)
        self._ui.settled = settled
        self._pages.attach(self._ui)
        self._wake = asyncio.Event()
        self._stale = False

    async def run(self, prompts: Sequence[Prompt]) -> int:
        """Show the editor until the user leaves."""
        self._greet()
        self._figures()
        self._pages.flush()
        loop = asyncio.get_running_loop()
        ticks = loop.create_task(self._tick())
        ticks.add_done_callback(self._tick_ended)
        try:
            loop.call_soon(self._begin, prompts)
            return await self._ui.run_async(handle_sigint=False, set_exception_handler=False)
        except EOFError:
            return 0
        finally:
            ticks.cancel()
            await self._work.finish()
            self._pages.flush()

    def _begin(self, prompts: Sequence[Prompt]) -> None:
        asyncio.get_running_loop().run_in_executor(None, preload)
        for text, images in prompts:
            self._work.prompt(text, images, last=True)

    def _greet(self) -> None:
        parts = self._app.parts
        about = f"vpi {__version__} · / for commands · Esc aborts · Ctrl+C twice leaves"
        self._printer.rows([Row(about, "dim")])
        for notice in parts.notices:
            self._printer.line(Line(notice))
        print_past(self._printer, build_context(parts.session.branch()), PAST_TURNS)

    def _figures(self) -> None:
        self._stale = False
        self._view.figures = figures = self._app.status()
        self._view.branch = git_branch(figures.cwd)

    def event(self, event: Event) -> None:
        """Take the next event of the application."""
        self._work.event(event)
        self._view.activity.event(event)
        self._transcript.event(event)
        self._stale = self._stale or isinstance(event, _FIGURES_CHANGE)
        self._wake.set()

    def _ended(self, fault: Exception | None) -> None:
        """After each piece of work: leave if it asked for that or broke, show the figures otherwise."""
        if fault is not None or self._app.quit_requested:
            self._leave(fault)
        else:
            self._figures()
            self._view.refresh()
            self._ui.invalidate()

    def _tick_ended(self, ticks: asyncio.Task[None]) -> None:
        if not ticks.cancelled() and isinstance(fault := ticks.exception(), Exception):
            self._leave(fault)

    def _leave(self, fault: Exception | None = None) -> None:
        if not self._ui.is_running or self._ui.is_done:
            return
        if fault is not None:
            self._ui.exit(exception=fault)
        else:
            self._ui.exit(result=0)

    def _actions(self) -> Actions:
        def submit(text: str) -> None:
            called = command_in(self._app.commands, text)
            if called is None:
                self._work.prompt(text)
            else:
                self._work.command(*called)

        def queue(text: str) -> None:
            self._work.prompt(text, last=True)

        def hint(text: str) -> None:
            self._view.activity.hint(text, TWICE_SECONDS)
            asyncio.get_running_loop().call_later(TWICE_SECONDS, self._ui.invalidate)

        return Actions(
            submit=submit,
            queue=queue,
            abort=lambda: self._work.abort(),
            take_back=lambda: self._app.parts.agent.inbox.drain(),
            leave=self._leave,
            hint=hint,
            busy=lambda: self._work.busy,
            more_input=lambda: bool(select.select([self._source.fileno()], [], [], 0)[0]),
        )

    async def _tick(self) -> None:
        """Redraw what changes while something runs, at most 20 times a second and a quarter of the time."""
        seen, spins = -1, 0
        while True:
            await self._wake.wait()
            await asyncio.sleep(max(FRAME_SECONDS, 4 * self._view.cost))
            spins += 1
            changed = self._transcript.version != seen
            if changed or (self._transcript.ticking and spins % 4 == 0):
                seen = self._transcript.version
                self._pages.flush()
                self._view.refresh()
                self._ui.invalidate()
            elif spins % 2 == 0:
                self._ui.invalidate()
            if self._stale and spins % 4 == 0:
                self._figures()
            if not (changed or self._stale or self._work.busy):
                self._wake.clear()

    def _size(self) -> tuple[int, int]:
        size = self._output.get_size()
        return size.rows, size.columns


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


async def run_repl(app: Host, prompts: Sequence[Prompt], history: Path) -> int:
    """Open the session, talk with the user in the terminal until they leave, and return the exit code.

    `history` is the folder of the prompts. A dumb terminal gets a simple line mode. ConfigError or SessionError when
    the session cannot be opened.
    """
    relay = _Relay()
    app.subscribe(relay)
    await app.start()
    term = os.environ.get("TERM", "")
    if term in ("", "dumb", "unknown") or not (sys.stdin.isatty() and sys.stdout.isatty()):
        code = await run_lines(app, prompts, sys.stdin, sys.stdout, relay.to)
    else:
        theme = choose_theme(app.settings.theme, os.environ)
        teach_terminal_keys()
        multiplexed = bool(os.environ.get("TMUX") or os.environ.get("STY"))
        output = make_output(sys.stdout, term, colour=theme.depth != "none", multiplexed=multiplexed)
        file = history / history_name(app.parts.session.cwd)
        repl = Repl(app, file, theme, output, create_input(sys.stdin))
        relay.to(repl.event)
        code = await repl.run(prompts)
    session = app.parts.session
    if session.path is not None and session.path.exists():
        write(sys.stdout, f"to go on: vpi --session {safetext.one_line(session.id, 300)}\n")
    return code
