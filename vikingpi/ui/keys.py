"""What each key does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from prompt_toolkit.filters import Condition, shift_selection_mode
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from vikingpi.ui.files import common_beginning
from vikingpi.ui.input import Editor, typed
from vikingpi.ui.menu import Source
from vikingpi.ui.search import Search
from vikingpi.ui.sequences import is_alt
from vikingpi.values import NamedTuple

TWICE_SECONDS = 0.5
BURST_SECONDS = 0.03
BURST_KEYS = 3

_SHIFT_ENTER = ("\x1b[13;2u", "\x1b[27;2;13~")
_ALT_ENTER = ("\x1b[13;3u", "\x1b[27;3;13~")


class Actions(NamedTuple):
    """What the keys ask for. `take_back` returns the texts that were queued and are no longer, `pasted` what a paste
    puts into the editor, `paths` what completes the last word of a text."""

    submit: Callable[[str], None]
    queue: Callable[[str], None]
    abort: Callable[[], None]
    take_back: Callable[[], Sequence[str]]
    leave: Callable[[], None]
    hint: Callable[[str], None]
    busy: Callable[[], bool]
    more_input: Callable[[], bool]
    pasted: Callable[[str], str]
    paths: Callable[[str], Source]
    suspend: Callable[[], None]
    edit_outside: Callable[[], None]
    paste_image: Callable[[], None]
    toggle_results: Callable[[], None]
    toggle_thoughts: Callable[[], None]
    next_thinking: Callable[[], None]
    next_approval: Callable[[], None]
    open_tree: Callable[[], bool]


class Burst:
    """Tells input that comes faster than anybody types: a paste that the terminal does not mark."""

    def __init__(self) -> None:
        self._keys = 0
        self._read_ended: float | None = 0.0

    def key(self, _: object) -> None:
        """Take note of a key. All keys of one read are handled before anything else."""
        if self._read_ended is not None:
            if time.monotonic() - self._read_ended > BURST_SECONDS:
                self._keys = 0
            self._read_ended = None
            asyncio.get_running_loop().call_soon(self._end_read)
        self._keys += 1

    def goes_on(self, event: KeyPressEvent, more_input: Callable[[], bool]) -> bool:
        """Tell whether this key has others close before it and behind it."""
        return self._keys >= BURST_KEYS and (bool(event.key_processor.input_queue) or more_input())

    def _end_read(self) -> None:
        self._read_ended = time.monotonic()


class Twice:
    """Tells a key that is pressed for the second time within half a second."""

    def __init__(self) -> None:
        self._last = ("", 0.0)

    def pressed(self, key: str) -> bool:
        now, (last, then) = time.monotonic(), self._last
        second = last == key and now - then <= TWICE_SECONDS
        self._last = ("", 0.0) if second else (key, now)
        return second


def make_bindings(editor: Editor, search: Search, actions: Actions, burst: Burst) -> KeyBindings:
    """Bind the keys; `burst` is told of each one before. Call `teach_terminal_keys` once before."""
    keys = KeyBindings()
    _bind_sending(keys, editor, actions, burst)
    _bind_text(keys, editor, actions)
    _bind_stopping(keys, editor, search, actions, burst)
    _bind_showing(keys, actions)
    _bind_menu(keys, editor, actions)
    _bind_search(keys, editor, search)
    return keys


def teach_terminal_keys() -> None:
    """Tell Enter with Shift or Alt from Enter in terminals that send them."""
    for sequence in _SHIFT_ENTER:
        ANSI_SEQUENCES[sequence] = Keys.ControlJ
    for sequence in _ALT_ENTER:
        ANSI_SEQUENCES[sequence] = (Keys.Escape, Keys.ControlM)


def _bind_sending(keys: KeyBindings, editor: Editor, actions: Actions, burst: Burst) -> None:
    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        if burst.goes_on(event, actions.more_input):
            editor.buffer.insert_text("\n")
            return
        offer, before = editor.menu.offer(editor.before_cursor), editor.text
        if (item := editor.menu.selected(editor.before_cursor)) is not None:
            ends = offer.sends or item.insert.endswith("/")
            editor.complete(item, "" if ends else offer.after)
            if not offer.sends and editor.text.rstrip() != before.rstrip():
                return
        if text := editor.take():
            actions.submit(text)

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        if text := editor.take():
            actions.queue(text)


def _bind_text(keys: KeyBindings, editor: Editor, actions: Actions) -> None:
    @keys.add("c-j")
    def _(event: KeyPressEvent) -> None:
        editor.buffer.insert_text("\n")

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        editor.paste(actions.pasted(typed(event.data)))

    @keys.add("c-v")
    def _(event: KeyPressEvent) -> None:
        actions.paste_image()

    @keys.add("c-g")
    def _(event: KeyPressEvent) -> None:
        actions.edit_outside()

    @keys.add("c-a", filter=shift_selection_mode)
    @keys.add("c-e", filter=shift_selection_mode)
    @keys.add("c-b", filter=shift_selection_mode)
    @keys.add("c-f", filter=shift_selection_mode)
    def _(event: KeyPressEvent) -> None:
        editor.buffer.exit_selection()
        event.key_processor.feed(event.key_sequence[0], first=True)

    def at_marker(*, forward: bool) -> bool:
        return bool(editor.marker(forward=forward))

    @keys.add("backspace", filter=Condition(lambda: at_marker(forward=False)))
    def _(event: KeyPressEvent) -> None:
        editor.buffer.delete_before_cursor(len(editor.marker()))

    @keys.add("delete", filter=Condition(lambda: at_marker(forward=True)))
    def _(event: KeyPressEvent) -> None:
        editor.buffer.delete(len(editor.marker(forward=True)))


def _bind_stopping(keys: KeyBindings, editor: Editor, search: Search, actions: Actions, burst: Burst) -> None:
    twice = Twice()

    def abort() -> None:
        editor.put_back(actions.take_back())
        actions.abort()

    @keys.add("escape")
    def _(event: KeyPressEvent) -> None:
        if is_alt(event) or burst.goes_on(event, actions.more_input):
            return
        if search.active:
            search.end()
        elif editor.menu.items(editor.before_cursor):
            editor.menu.dismiss()
        elif actions.busy():
            abort()
        elif not editor.text and twice.pressed("escape"):
            actions.open_tree()

    @keys.add("escape", "up")
    def _(event: KeyPressEvent) -> None:
        editor.put_back(actions.take_back())

    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        if twice.pressed("c-c"):
            actions.leave()
        elif search.active:
            search.end()
        elif editor.text:
            if not editor.take():
                editor.set("")
        elif actions.busy():
            abort()
        else:
            actions.hint("Ctrl+C again leaves")

    @keys.add("c-d", filter=Condition(lambda: not editor.text and not search.active))
    def _(event: KeyPressEvent) -> None:
        actions.leave()

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:
        actions.suspend()


def _bind_showing(keys: KeyBindings, actions: Actions) -> None:
    @keys.add("c-o")
    def _(event: KeyPressEvent) -> None:
        actions.toggle_results()

    @keys.add("c-t")
    def _(event: KeyPressEvent) -> None:
        actions.toggle_thoughts()

    @keys.add("s-tab")
    def _(event: KeyPressEvent) -> None:
        actions.next_thinking()

    @keys.add("escape", "m")
    def _(event: KeyPressEvent) -> None:
        actions.next_approval()


def _bind_menu(keys: KeyBindings, editor: Editor, actions: Actions) -> None:
    showing = Condition(lambda: bool(editor.menu.items(editor.before_cursor)))

    @keys.add("tab", filter=showing)
    def _(event: KeyPressEvent) -> None:
        offer = editor.menu.offer(editor.before_cursor)
        if (item := editor.menu.selected(editor.before_cursor)) is not None:
            editor.complete(item, "" if item.insert.endswith("/") else offer.after)

    @keys.add("tab", filter=~showing)
    def _(event: KeyPressEvent) -> None:
        source = actions.paths(editor.before_cursor)
        offer = source(editor.before_cursor)
        if not offer.items or not editor.before_cursor:
            return
        editor.menu.hold(source)
        beginning = common_beginning(offer)
        if len(offer.items) == 1:
            editor.complete(offer.items[0], "" if beginning.endswith("/") else offer.after)
        elif len(beginning) > len(editor.before_cursor) - offer.start:
            editor.complete(offer.items[0]._replace(insert=beginning))

    def recall(back: Callable[[], None]) -> None:
        """Go through the history: what is found there is not being typed, so nothing completes it."""
        before = editor.text
        editor.buffer.exit_selection()
        back()
        if editor.text != before:
            editor.menu.offer(editor.before_cursor)
            editor.menu.dismiss()

    @keys.add("up", filter=~showing)
    def _(event: KeyPressEvent) -> None:
        recall(lambda: editor.buffer.auto_up(event.arg))

    @keys.add("down", filter=~showing)
    def _(event: KeyPressEvent) -> None:
        recall(lambda: editor.buffer.auto_down(event.arg))

    @keys.add("up", filter=showing)
    def _(event: KeyPressEvent) -> None:
        editor.menu.move(-1)

    @keys.add("down", filter=showing)
    def _(event: KeyPressEvent) -> None:
        editor.menu.move(1)


def _bind_search(keys: KeyBindings, editor: Editor, search: Search) -> None:
    active = Condition(lambda: search.active)

    @keys.add("c-r")
    def _(event: KeyPressEvent) -> None:
        if search.active:
            editor.menu.move(1)
        else:
            search.begin()

    @keys.add("c-g", filter=active)
    def _(event: KeyPressEvent) -> None:
        search.end()

    @keys.add("enter", filter=active)
    @keys.add("escape", "enter", filter=active)
    @keys.add("tab", filter=active)
    def _(event: KeyPressEvent) -> None:
        search.choose()
