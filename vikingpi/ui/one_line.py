"""A line that is edited with the keys of the editor, for everything that asks for one."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from vikingpi.ui.input import typed


def one_line(changed: Callable[[Buffer], None] = lambda _: None) -> Buffer:
    """Make the line; `changed` is called after each change of its text. No key but what is bound for it ends it."""
    return Buffer(multiline=False, accept_handler=lambda _: True, on_text_changed=changed)


def bind_one_line(keys: KeyBindings, line: Buffer) -> None:
    """Bind what could bring a second line: a paste and Ctrl+J."""

    @keys.add(Keys.BracketedPaste)
    @keys.add("c-j")
    def _(event: KeyPressEvent) -> None:
        line.insert_text(typed(event.data).replace("\n", " ").replace("\t", " "))
