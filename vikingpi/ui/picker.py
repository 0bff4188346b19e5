"""Lists and questions that have the terminal to themselves for a while, above or in place of the editor."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Protocol

from prompt_toolkit.application import Application
from prompt_toolkit.filters import Condition, FilterOrBool
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.styles import Style

from vikingpi import safetext
from vikingpi.commands.chooser import Choices, Option
from vikingpi.safetext import cut_cells
from vikingpi.ui.input import typed
from vikingpi.ui.keys import bind_reports
from vikingpi.ui.listing import Listing
from vikingpi.ui.picker_view import PickerView
from vikingpi.ui.screen import ESCAPE_SECONDS
from vikingpi.ui.status import unjoined
from vikingpi.ui.theme import BAR_STYLES, Glyphs

SETTLE_SECONDS = 0.4
_FAR = 1_000_000


def picker_keys(view: PickerView) -> KeyBindings:
    """Bind the keys of a list; the application's result is the chosen key or None."""
    keys, listing = KeyBindings(), view.listing
    listed = Condition(lambda: listing.stage == "list")
    for key, step in (("up", -1), ("down", 1), ("c-p", -1), ("c-n", 1), ("home", -_FAR), ("end", _FAR)):
        _bind(keys, key, partial(listing.move, step))
    for key, sign in (("pageup", -1), ("pagedown", 1), ("left", -1), ("right", 1)):
        _bind(keys, key, lambda sign=sign: listing.move(sign * view.page))
    for act in listing.choices.acts:
        _bind(keys, act.key, partial(listing.begin, act), listed)
    _bind_typing(keys, listing)
    return keys


def _bind(keys: KeyBindings, key: str, act: Callable[[], None], when: FilterOrBool = True) -> None:
    @keys.add(key, filter=when)
    def _(event: KeyPressEvent) -> None:
        act()


def _bind_typing(keys: KeyBindings, listing: Listing) -> None:
    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        if listing.stage == "ask":
            listing.finish()
        elif listing.stage == "list" and (option := listing.selected) is not None:
            act = listing.choices.enter(option.key)
            if act is not None:
                listing.begin(act)
            else:
                event.app.exit(result=option.key)

    @keys.add("escape")
    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        if not listing.cancel():
            event.app.exit(result=None)

    @keys.add("backspace")
    def _(event: KeyPressEvent) -> None:
        listing.erase()

    @keys.add("c-u")
    def _(event: KeyPressEvent) -> None:
        listing.erase(everything=True)

    @keys.add(Keys.BracketedPaste)
    @keys.add(Keys.Any)
    def _(event: KeyPressEvent) -> None:
        text = typed(event.data).replace("\n", " ").replace("\t", " ")
        if listing.stage == "confirm":
            if text.lower() == "y":
                listing.finish()
            elif text:
                listing.cancel()
        else:
            listing.type(text)


class Stage(Protocol):
    """What has the terminal otherwise. `away` lends it, and when `future` is done, what it was lent to ends too."""

    @property
    def input(self) -> Input: ...

    @property
    def output(self) -> Output: ...

    @property
    def color_depth(self) -> ColorDepth: ...

    @property
    def future(self) -> asyncio.Future[int] | None: ...

    def away(self) -> AbstractAsyncContextManager[None]: ...


class Asker:
    """Shows lists and questions on one terminal, one after another."""

    def __init__(self, screen: Stage, size: Callable[[], tuple[int, int]], glyphs: Glyphs) -> None:
        self._screen = screen
        self._size = size
        self._glyphs = glyphs

    async def choose(self, choices: Choices) -> str | None:
        """Give a list the whole screen; what was there comes back afterwards."""
        async with self._screen.away():
            view = PickerView(Listing(choices), self._size, self._glyphs)
            return await self._run(view.fragments, picker_keys(view), full=True)

    async def text(self, question: str) -> str | None:
        """Ask for a line in place of the editor; an empty one is an answer."""
        answer: list[str] = []
        keys = KeyBindings()

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            event.app.exit(result="".join(answer))

        @keys.add("backspace")
        def _(event: KeyPressEvent) -> None:
            del answer[-1:]

        @keys.add(Keys.BracketedPaste)
        @keys.add(Keys.Any)
        def _(event: KeyPressEvent) -> None:
            answer.extend(typed(event.data).replace("\n", " "))

        _bind_leaving(keys)

        def fragments() -> StyleAndTextTuples:
            head = cut_cells(question, self._size()[1] - 1)
            return [("bold", f"{head}\n"), ("bold", "> "), ("", "".join(answer)), ("[SetCursorPosition]", "")]

        async with self._screen.away():
            return await self._run(fragments, keys, full=False)

    async def confirm(self, question: str, body: str, answers: Sequence[Option]) -> str | None:
        """Ask in place of the editor. Keys that were meant for the editor do not count as an answer."""
        async with self._screen.away():
            view = _Question(question, body, answers, self._size)
            return await self._run(view.fragments, _question_keys(view, time.monotonic()), full=False)

    async def _run(self, fragments: Callable[[], StyleAndTextTuples], keys: KeyBindings, *, full: bool) -> str | None:
        bind_reports(keys, lambda text: None)
        control = FormattedTextControl(fragments, focusable=True, show_cursor=True)
        application: Application[str | None] = Application(
            layout=Layout(Window(control, wrap_lines=False, dont_extend_height=not full)),
            key_bindings=keys,
            style=Style.from_dict(BAR_STYLES),
            full_screen=full,
            erase_when_done=True,
            input=self._screen.input,
            output=self._screen.output,
            color_depth=self._screen.color_depth,
            terminal_size_polling_interval=None,
        )
        application.ttimeoutlen = application.timeoutlen = ESCAPE_SECONDS

        def ended(future: asyncio.Future[int]) -> None:
            if application.is_running and not application.is_done:
                application.exit(result=None)

        # The chat's own end, by a signal too, waits for what has the terminal.
        chat = self._screen.future
        if chat is not None:
            chat.add_done_callback(ended)
        try:
            return await application.run_async(handle_sigint=False, set_exception_handler=False)
        finally:
            if chat is not None:
                chat.remove_done_callback(ended)


class _Question:
    """A text and answers below it."""

    def __init__(
        self, question: str, body: str, answers: Sequence[Option], size: Callable[[], tuple[int, int]]
    ) -> None:
        self.answers = answers
        self.at = 0
        self.first = 0
        self._question = question
        self._lines = body.split("\n") if body else []
        self._size = size

    @property
    def room(self) -> int:
        return max(1, self._size()[0] - len(self.answers) - 4)

    def turn(self, sign: int) -> None:
        """Scroll the text by a page."""
        self.first = max(0, min(len(self._lines) - self.room, self.first + sign * self.room))

    def fragments(self) -> StyleAndTextTuples:
        columns = self._size()[1] - 1
        out: StyleAndTextTuples = []
        shown = self._lines[self.first : self.first + self.room]
        for line in shown:
            style = {"+": "fg:ansigreen", "-": "fg:ansired"}.get(line[:1], "")
            out += [(style, cut_cells(unjoined(safetext.plain(line).expandtabs(4)), columns)), ("", "\n")]
        if len(shown) < len(self._lines):
            out += [("class:rule", f"({len(self._lines)} lines, PageUp and PageDown)"), ("", "\n")]
        out += [("bold", cut_cells(safetext.one_line(self._question, columns), columns))]
        for n, answer in enumerate(self.answers):
            style = "class:menu.selected" if n == self.at else "class:menu"
            label = f"{'> ' if n == self.at else '  '}{n + 1}. {answer.label}"
            about = f"  {answer.about}" if answer.about else ""
            out += [("", "\n"), (style, label), ("class:menu.about", cut_cells(about, max(0, columns - len(label))))]
        return out


def _question_keys(view: _Question, opened: float) -> KeyBindings:
    keys = KeyBindings()

    def settled() -> bool:
        return time.monotonic() - opened > SETTLE_SECONDS

    @keys.add("up")
    def _(event: KeyPressEvent) -> None:
        view.at = max(0, view.at - 1)

    @keys.add("down")
    def _(event: KeyPressEvent) -> None:
        view.at = min(len(view.answers) - 1, view.at + 1)

    for key, sign in (("pageup", -1), ("pagedown", 1)):
        _bind(keys, key, partial(view.turn, sign))

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        if settled():
            event.app.exit(result=view.answers[view.at].key)

    @keys.add(Keys.Any)
    def _(event: KeyPressEvent) -> None:
        if settled() and event.data.isdecimal() and 0 < int(event.data) <= len(view.answers):
            event.app.exit(result=view.answers[int(event.data) - 1].key)

    _bind_leaving(keys)
    return keys


def _bind_leaving(keys: KeyBindings) -> None:
    @keys.add("escape")
    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        event.app.exit(result=None)
