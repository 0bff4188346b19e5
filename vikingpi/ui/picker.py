"""Lists and questions that have the terminal to themselves for a while, in place of the editor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Protocol

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, FilterOrBool
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Dimension, HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style

from vikingpi.commands.chooser import Choices
from vikingpi.safetext import cut_cells
from vikingpi.ui.input import typed
from vikingpi.ui.listing import Listing
from vikingpi.ui.one_line import bind_one_line, one_line
from vikingpi.ui.picker_view import PickerView
from vikingpi.ui.screen import ESCAPE_SECONDS, HeldOutput, InlineApplication
from vikingpi.ui.sequences import is_alt
from vikingpi.ui.theme import BAR_STYLES, Glyphs

_FAR = 1_000_000


def picker_keys(view: PickerView) -> KeyBindings:
    """Bind the keys of a list; the application's result is the chosen key or None. Others edit the line."""
    keys, listing = KeyBindings(), view.listing
    listed = Condition(lambda: listing.stage == "list")

    @keys.add("c-d", filter=Condition(lambda: not view.line.text))
    def _(event: KeyPressEvent) -> None:
        event.app.exit(result=None)

    for key, step in (("up", -1), ("down", 1), ("c-p", -1), ("c-n", 1), ("home", -_FAR), ("end", _FAR)):
        _bind(keys, key, partial(listing.move, step), listed)
    for key, sign in (("pageup", -1), ("pagedown", 1), ("left", -1), ("right", 1)):
        _bind(keys, key, lambda sign=sign: listing.move(sign * view.page), listed)
    for act in listing.choices.acts:
        _bind(keys, act.key, lambda act=act: _turn(view, partial(listing.begin, act)), listed)
    _bind_stages(keys, view)
    return keys


def _bind(keys: KeyBindings, key: str, act: Callable[[], None], when: FilterOrBool = True) -> None:
    @keys.add(key, filter=when)
    def _(event: KeyPressEvent) -> None:
        act()


def _turn(view: PickerView, act: Callable[[], object]) -> None:
    """Do what makes the line another one: nothing of the old one, a key perhaps, can be brought back into it."""
    act()
    view.line.reset(Document(view.listing.text))
    get_app().clipboard.set_text("")


def _bind_stages(keys: KeyBindings, view: PickerView) -> None:
    listing = view.listing

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        if listing.stage == "ask":
            _turn(view, listing.finish)
        elif listing.stage == "list" and (option := listing.selected) is not None:
            act = listing.choices.enter(option.key)
            if act is not None:
                _turn(view, partial(listing.begin, act))
            else:
                event.app.exit(result=option.key)

    @keys.add("escape")
    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        if is_alt(event):
            return
        if listing.stage == "list" and not listing.query:
            event.app.exit(result=None)
        else:
            _turn(view, listing.cancel)

    bind_one_line(keys, view.line)

    @keys.add(Keys.BracketedPaste, filter=Condition(lambda: listing.stage == "confirm"))
    @keys.add(Keys.Any, filter=Condition(lambda: listing.stage == "confirm"))
    def _(event: KeyPressEvent) -> None:
        if event.data.lower() == "y":
            _turn(view, listing.finish)
        elif typed(event.data):
            _turn(view, listing.cancel)


class Stage(Protocol):
    """What has the terminal otherwise. `away` lends it, and when `future` is done, what it was lent to ends too."""

    @property
    def input(self) -> Input: ...

    @property
    def held_output(self) -> HeldOutput: ...

    @property
    def color_depth(self) -> ColorDepth: ...

    @property
    def future(self) -> asyncio.Future[int] | None: ...

    def away(self) -> AbstractAsyncContextManager[None]: ...


class Asker:
    """Shows lists and questions on one terminal, one after another."""

    def __init__(
        self,
        screen: Stage,
        size: Callable[[], tuple[int, int]],
        glyphs: Glyphs,
        keep: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`keep` is given a line that was typed and not sent."""
        self._screen = screen
        self._size = size
        self._glyphs = glyphs
        self._keep = keep

    async def choose(self, choices: Choices) -> str | None:
        """Give a list the whole screen; what was there comes back afterwards."""
        async with self._screen.away():
            view = PickerView(Listing(choices), self._size, self._glyphs)
            return await run_on(self._screen, view.layout(), picker_keys(view), full=True)

    async def text(self, question: str) -> str | None:
        """Ask for a line in place of the editor; an empty one is an answer."""
        line, keys, answer = one_line(), KeyBindings(), None

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            event.app.exit(result=line.text)

        bind_one_line(keys, line)
        bind_leaving(keys, lambda: not line.text)

        def head() -> StyleAndTextTuples:
            return [("bold", cut_cells(question, self._size()[1] - 1))]

        def prompt(_: int, wrapped: int) -> StyleAndTextTuples:
            return [("", "  ") if wrapped else ("bold", "> ")]

        edit = Window(
            BufferControl(line),
            height=lambda: Dimension(min=1, max=max(1, self._size()[0] // 3)),
            wrap_lines=True,
            get_line_prefix=prompt,
            dont_extend_height=True,
        )
        layout = Layout(HSplit([Window(FormattedTextControl(head), height=1), edit]), focused_element=edit)
        try:
            async with self._screen.away():
                answer = await run_on(self._screen, layout, keys)
            return answer
        finally:
            if answer is None:
                self._keep(line.text)


async def run_on(
    stage: Stage,
    layout: Layout,
    keys: KeyBindings,
    key_pressed: Callable[[object], None] = lambda _: None,
    left_over: Callable[[str], None] = lambda _: None,
    *,
    full: bool = False,
) -> str | None:
    """Run a layout in place of what has the stage. `key_pressed` is called before each key, `left_over` with what
    was typed in one burst with the last one; otherwise that is dropped, never kept for what comes next. The end of the
    input is no answer."""

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    application = _application(stage, layout, full=full)
    application.key_bindings = keys
    application.key_processor.before_key_press += key_pressed

    def ended(future: asyncio.Future[int]) -> None:
        if application.is_running and not application.is_done:
            application.exit(result=None)

    # The chat's own end, by a signal too, waits for what has the terminal.
    chat = stage.future
    if chat is not None:
        chat.add_done_callback(ended)
    try:
        return await application.run_async(handle_sigint=False, set_exception_handler=False)
    except EOFError:
        return None
    finally:
        left_over("".join(typed(key.data) for key in get_typeahead(stage.input) if len(key.data) == 1))
        if chat is not None:
            chat.remove_done_callback(ended)


def _application(stage: Stage, layout: Layout, *, full: bool) -> Application[str | None]:
    style = Style.from_dict(BAR_STYLES)
    if not full:
        return InlineApplication[str | None](layout, style, stage.held_output, stage.input)
    application: Application[str | None] = Application(
        layout=layout,
        style=style,
        full_screen=True,
        erase_when_done=True,
        input=stage.input,
        output=stage.held_output,
        color_depth=stage.color_depth,
        terminal_size_polling_interval=None,
    )
    application.ttimeoutlen = application.timeoutlen = ESCAPE_SECONDS
    return application


def bind_leaving(keys: KeyBindings, empty: Callable[[], bool] = lambda: True) -> None:
    """Bind what leaves without an answer; Ctrl+D does where nothing is typed."""

    @keys.add("c-d", filter=Condition(empty))
    def _(event: KeyPressEvent) -> None:
        event.app.exit(result=None)

    @keys.add("escape")
    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        if not is_alt(event):
            event.app.exit(result=None)
