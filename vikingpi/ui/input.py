"""The editor: what a key does, and what becomes of the text."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from vikingpi.ui.history import PromptHistory
from vikingpi.ui.menu import Menu

TWICE_SECONDS = 0.5

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SHIFT_ENTER = ("\x1b[13;2u", "\x1b[27;2;13~")
_ALT_ENTER = ("\x1b[13;3u", "\x1b[27;3;13~")


class Actions(NamedTuple):
    """What the keys ask for. `take_back` returns the texts that were queued and are no longer."""

    submit: Callable[[str], None]
    queue: Callable[[str], None]
    abort: Callable[[], None]
    take_back: Callable[[], Sequence[str]]
    leave: Callable[[], None]
    hint: Callable[[str], None]
    busy: Callable[[], bool]
    more_input: Callable[[], bool]


def typed(text: str) -> str:
    """Return input as a prompt: newlines and tabs stay, other control characters and half characters do not."""
    text = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Editor:
    """A buffer with the project's history."""

    def __init__(self, history: Path, menu: Menu) -> None:
        self.menu = menu
        self.buffer = Buffer(history=PromptHistory(history), multiline=True)
        self._pressed = 0.0

    @property
    def text(self) -> str:
        return self.buffer.text

    @property
    def before_cursor(self) -> str:
        """The text that the menu completes: empty when the cursor is not at its end."""
        return self.text if self.buffer.cursor_position == len(self.text) else ""

    def set(self, text: str) -> None:
        """Replace the text; undo brings the old one back."""
        self.buffer.save_to_undo_stack()
        self.buffer.text = text
        self.buffer.cursor_position = len(text)

    def take(self) -> str:
        """Return the text, remember it in the history and empty the editor; empty where there is only space."""
        text = typed(self.text)
        if not text.strip():
            return ""
        self.buffer.text = text
        self.buffer.append_to_history()
        self.buffer.reset()
        return text

    def put_back(self, texts: Sequence[str]) -> None:
        """Put texts before the draft, each apart by a blank line."""
        if texts:
            draft = [self.text] if self.text.strip() else []
            self.set("\n\n".join([*texts, *draft]))

    def pressed_twice(self) -> bool:
        """Tell whether this is the second call within half a second."""
        now, before = time.monotonic(), self._pressed
        self._pressed = now
        return now - before <= TWICE_SECONDS


def make_bindings(editor: Editor, actions: Actions) -> KeyBindings:
    """Bind the keys; call `teach_terminal_keys` once before."""
    keys = KeyBindings()
    _bind_sending(keys, editor, actions)
    _bind_stopping(keys, editor, actions)
    _bind_menu(keys, editor)
    return keys


def teach_terminal_keys() -> None:
    """Tell Enter with Shift or Alt from Enter in terminals that send them."""
    for sequence in _SHIFT_ENTER:
        ANSI_SEQUENCES[sequence] = Keys.ControlJ
    for sequence in _ALT_ENTER:
        ANSI_SEQUENCES[sequence] = (Keys.Escape, Keys.ControlM)


def _bind_sending(keys: KeyBindings, editor: Editor, actions: Actions) -> None:
    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        if event.key_processor.input_queue or actions.more_input():
            editor.buffer.insert_text("\n")  # a paste that the terminal does not mark
            return
        if (item := editor.menu.selected(editor.before_cursor)) is not None:
            editor.set(item.insert)
        if text := editor.take():
            actions.submit(text)

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        if text := editor.take():
            actions.queue(text)

    @keys.add("c-j")
    def _(event: KeyPressEvent) -> None:
        editor.buffer.insert_text("\n")

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        editor.buffer.insert_text(typed(event.data))


def _bind_stopping(keys: KeyBindings, editor: Editor, actions: Actions) -> None:
    def abort() -> None:
        editor.put_back(actions.take_back())
        actions.abort()

    @keys.add("escape")
    def _(event: KeyPressEvent) -> None:
        if editor.menu.items(editor.before_cursor):
            editor.menu.dismiss()
        elif actions.busy():
            abort()

    @keys.add("escape", "up")
    def _(event: KeyPressEvent) -> None:
        editor.put_back(actions.take_back())

    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        if editor.pressed_twice():
            actions.leave()
        elif editor.text:
            editor.set("")
        elif actions.busy():
            abort()
        else:
            actions.hint("Ctrl+C again leaves")

    @keys.add("c-d", filter=Condition(lambda: not editor.text))
    def _(event: KeyPressEvent) -> None:
        actions.leave()

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()


def _bind_menu(keys: KeyBindings, editor: Editor) -> None:
    showing = Condition(lambda: bool(editor.menu.items(editor.before_cursor)))

    @keys.add("tab", filter=showing)
    def _(event: KeyPressEvent) -> None:
        if (item := editor.menu.selected(editor.before_cursor)) is not None:
            editor.set(item.insert + " ")

    @keys.add("up", filter=showing)
    def _(event: KeyPressEvent) -> None:
        editor.menu.move(-1)

    @keys.add("down", filter=showing)
    def _(event: KeyPressEvent) -> None:
        editor.menu.move(1)
