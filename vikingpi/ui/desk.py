"""The parts of the interactive program, put together for one terminal."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from prompt_toolkit.styles import Style

from vikingpi.commands.host import Host
from vikingpi.ui.bang import Bang
from vikingpi.ui.files import FileIndex, at_source
from vikingpi.ui.input import Editor
from vikingpi.ui.keys import teach_terminal_keys
from vikingpi.ui.menu import Menu, command_source
from vikingpi.ui.printer import Printer
from vikingpi.ui.render import Painter
from vikingpi.ui.screen import HeldOutput, InlineApplication, Pages, make_output
from vikingpi.ui.search import Search
from vikingpi.ui.sequences import KeyInput
from vikingpi.ui.theme import BAR_STYLES, Theme, choose_theme
from vikingpi.ui.transcript import Transcript
from vikingpi.ui.view import View, make_layout
from vikingpi.ui.work import Work
from vikingpi.values import NamedTuple


class Terminal(NamedTuple):
    """Where everything is shown and typed."""

    theme: Theme
    output: HeldOutput
    source: KeyInput

    def size(self) -> tuple[int, int]:
        size = self.output.get_size()
        return size.rows, size.columns


def open_terminal(setting: str, env: Mapping[str, str]) -> Terminal:
    """Make the terminal of this process, coloured as the setting and the environment say."""
    theme = choose_theme(setting, env, sys.stdout.encoding)
    teach_terminal_keys()
    output = make_output(sys.stdout, env.get("TERM", ""), colour=theme.depth != "none", env=env)
    return Terminal(theme, output, KeyInput(sys.stdin))


def typed_ahead(source: KeyInput) -> list[str]:
    """Take the lines that were typed before the program read any key.

    The terminal has them as lines, so their Enter would come as Ctrl+J; what is not ended yet stays for the editor.
    """
    return source.typed_ahead().decode("utf-8", "replace").splitlines()


def is_dumb(env: Mapping[str, str]) -> bool:
    """Tell whether a terminal can only print."""
    return env.get("TERM", "") in ("", "dumb", "unknown")


class Desk(NamedTuple):
    """What each part is for is said where it is made."""

    app: Host
    editor: Editor
    search: Search
    view: View
    transcript: Transcript
    printer: Printer
    pages: Pages
    work: Work
    bang: Bang
    screen: InlineApplication[int]


def make_desk(
    app: Host,
    terminal: Terminal,
    history: Path,
    ended: Callable[[Exception | None], None],
    changed: Callable[[], None],
) -> Desk:
    """Make the parts. `ended(fault)` is called after each piece of work, `changed()` when there is something to draw.

    Call it within the running loop.
    """
    loop = asyncio.get_running_loop()

    def folder() -> Path:
        return app.parts.cwd

    def listed() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(refresh_menu)

    def refresh_menu() -> None:
        menu.refresh()
        screen.invalidate()

    def settled() -> None:
        transcript.arriving.give()
        pages.flush()

    pages = Pages(lambda: view.refresh())
    printer = Printer(pages.show, lambda: terminal.size()[1], Painter(terminal.theme))
    transcript = Transcript(printer)
    menu = Menu([command_source(lambda: app.commands, app.library.names), at_source(FileIndex(folder, listed), folder)])
    editor = Editor(history, menu)
    search = Search(editor)
    view = View(app, transcript, editor, search, terminal)
    work = Work(app, printer, editor, view.activity, ended)
    bang = Bang(app, transcript, printer, changed)
    view.activity.commanding = lambda: bang.running
    layout, style = make_layout(view, editor), Style.from_dict(BAR_STYLES)
    screen = InlineApplication[int](layout, style, terminal.output, terminal.source)
    screen.settled = settled
    view.rows_above = lambda: screen.rows_above
    pages.attach(screen)
    return Desk(app, editor, search, view, transcript, printer, pages, work, bang, screen)
